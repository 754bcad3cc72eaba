/* eager_operator.h: an operator of torch's whose kernel for the CPU is replaced by compiled ones. */
#ifndef FRAMEJIT_OPERATORS_EAGER_OPERATOR_H
#define FRAMEJIT_OPERATORS_EAGER_OPERATOR_H

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>
#include <string>

#include "kernel.h"

namespace framejit {

class Replacement;

/* Makes kernels. It is called without the GIL, by any thread, and what it throws leaves the operator's call. */
class Compiler {
   public:
    struct Decision {
        std::shared_ptr<const Kernel> kernel; /* null: no more kernels are made for calls with this key */
        bool is_last = false;                 /* no more kernels are made for any call of the operator */
    };
    virtual ~Compiler() = default;
    virtual bool is_ready() = 0; /* whether the thread may compile now */
    virtual Decision compile(const c10::FunctionSchema &schema, c10::ArrayRef<c10::IValue> arguments, c10::ArrayRef<c10::IValue> results) = 0;
};

/* An operator that is in force from when this is made to when it is closed. One operator can be in force once. */
class EagerOperator {
   public:
    /* Throws if the operator doesn't exist, has no kernel for the CPU, or is in force already. */
    EagerOperator(const std::string &name, const std::string &overload, std::shared_ptr<Compiler> compiler);
    ~EagerOperator();

    void close();  /* gives the operator torch's kernel back, and frees the compiled ones */
    void forget(); /* frees the compiled kernels: the next calls compile again */

   private:
    Replacement &replacement_;
    std::shared_ptr<Compiler> compiler_;
    std::optional<c10::RegistrationHandleRAII> registration_;
};

}  // namespace framejit

#endif
