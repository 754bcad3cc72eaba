/* call_key.h: what a kernel depends on in a call of an operator: its tensors' dtypes, ranks and layouts, and the values of its other arguments. */
#ifndef FRAMEJIT_OPERATORS_CALL_KEY_H
#define FRAMEJIT_OPERATORS_CALL_KEY_H

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <span>
#include <vector>

namespace framejit {

/* The number of elements, of all tensors, from which on a call has a kernel that runs on several threads: torch's own kernels divide their work then. */
constexpr int64_t worth_threads = 32768;

/* One call, read from the dispatcher's stack. Reading takes neither the GIL nor a lock, and for most calls allocates nothing. */
class CallKey {
   public:
    /* Reads the arguments. False if no kernel may serve the call, whatever is compiled: a tensor that isn't plain, dense, on the CPU and non-empty,
     * an argument that can't be part of a key, or deterministic algorithms. */
    bool read(c10::ArrayRef<c10::IValue> arguments);

    /* The key: kernels of two calls with equal words differ only in what the sizes of dimensions of more than one element decide. */
    std::span<const uint64_t> words() const { return {key_.data, key_.count}; }

    /* All tensors, those in lists too, in order. They belong to the stack. */
    std::span<const at::Tensor *const> tensors() const { return {tensors_.data, tensors_.count}; }

    /* The sizes of all tensors, one after another. */
    std::span<const int64_t> sizes() const { return {sizes_.data, sizes_.count}; }

   private:
    template <typename T, size_t capacity>
    struct Fixed {
        T data[capacity];
        size_t count = 0;
        bool add(T value) {
            if (count == capacity) return false;
            data[count++] = value;
            return true;
        }
    };

    bool add(const c10::IValue &value);
    bool add_tensor(const at::Tensor &tensor);
    bool add_text(const std::string &text);

    Fixed<uint64_t, 96> key_;
    Fixed<const at::Tensor *, 32> tensors_;
    Fixed<int64_t, 128> sizes_;
    int64_t elements_ = 0;
};

}  // namespace framejit

#endif
