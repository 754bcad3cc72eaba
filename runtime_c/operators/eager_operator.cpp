/* eager_operator.cpp: the kernel that the dispatcher calls in place of torch's: it finds the compiled kernel of a call, or has one made. */
#include "eager_operator.h"

#include <ATen/core/stack.h>
#include <c10/util/Exception.h>

#include <unordered_map>

#include "call_key.h"
#include "kernel_table.h"

namespace framejit {

/* What the dispatcher calls while an operator is in force. There is one for each operator that ever was, and it lives as long as the process, because a
 * thread may be on its way into it when it is taken out of the dispatcher. */
class Replacement {
   public:
    explicit Replacement(const c10::OperatorHandle &op);
    static Replacement &of(const std::string &name, const std::string &overload);

    void call(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack);
    c10::RegistrationHandleRAII open(std::shared_ptr<Compiler> compiler);
    void forget(const std::shared_ptr<Compiler> &compiler, bool close);

   private:
    bool run_kernel(const Kernels &kernels, const CallKey &call, const c10::OperatorHandle &op, torch::jit::Stack *stack);
    void run_and_compile(const CallKey &call, const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack);
    bool begin(const std::vector<uint64_t> &words, uint64_t epoch);
    void end(const std::vector<uint64_t> &words, uint64_t epoch, const Compiler::Decision &decision, bool is_complete);

    c10::OperatorHandle operator_;
    CurrentTable table_;
    c10::KernelFunction kernel_;
};

namespace {

struct CallReplacement final : c10::OperatorKernel {
    explicit CallReplacement(Replacement &of) : replacement(of) {}
    void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) { replacement.call(op, keys, stack); }
    Replacement &replacement;
};

/* torch warns of the first kernel that is replaced; here this is what was asked for. */
class Unwarned : public c10::WarningHandler {
    void process(const c10::Warning &) override {}
};

}  // namespace

Replacement::Replacement(const c10::OperatorHandle &op)
    : operator_(op), kernel_(c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<CallReplacement>(*this))) {}

/* Called with the GIL held. */
Replacement &Replacement::of(const std::string &name, const std::string &overload) {
    static auto &all = *new std::unordered_map<std::string, std::unique_ptr<Replacement>>;
    std::unique_ptr<Replacement> &found = all[name + "." + overload];
    if (found == nullptr) found = std::make_unique<Replacement>(c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str()));
    return *found;
}

c10::RegistrationHandleRAII Replacement::open(std::shared_ptr<Compiler> compiler) {
    TORCH_CHECK(CurrentTable::Reading(table_)->compiler == nullptr, operator_.operator_name(), " is compiled already");
    TORCH_CHECK(operator_.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), operator_.operator_name(), " has no kernel for the CPU");
    const c10::SafeKernelFunction original = operator_.getComputedKernelForDispatchKey(c10::DispatchKey::CPU);
    table_.replace([&](KernelTable &table) {
        table.original.emplace(original);
        table.compiler = compiler;
        return true;
    });
    Unwarned unwarned;
    const c10::WarningUtils::WarningHandlerGuard guard(&unwarned);
    return c10::Dispatcher::singleton().registerImpl(
        operator_.operator_name(), c10::DispatchKey::CPU, kernel_, std::nullopt, nullptr, "framejit.compile_eager_operators");
}

void Replacement::forget(const std::shared_ptr<Compiler> &compiler, bool close) {
    table_.replace([&](KernelTable &table) {
        if (table.compiler != compiler) return false;
        if (close) table.compiler = nullptr;
        table.epoch++;
        table.is_full = false;
        table.kernels.clear();
        return true;
    });
}

void Replacement::call(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
    CallKey call;
    {
        const CurrentTable::Reading table(table_);
        bool may_compile = false;
        if (table->compiler != nullptr && !runs_torchs_kernels() && call.read(torch::jit::last(*stack, op.schema().arguments().size()))) {
            const auto found = table->kernels.find(call.words());
            if (found != table->kernels.end() && run_kernel(found->second, call, op, stack)) return;
            may_compile = !table->is_full && (found == table->kernels.end() || !found->second.is_complete);
        }
        if (!may_compile) return table->original->callBoxed(op, keys, stack);
    }
    run_and_compile(call, op, keys, stack);
}

/* Whether a compiled kernel has served the call. If it fails, torch's kernel does the same, or raises what it raises. */
bool Replacement::run_kernel(const Kernels &kernels, const CallKey &call, const c10::OperatorHandle &op, torch::jit::Stack *stack) {
    for (const std::shared_ptr<const Kernel> &kernel : kernels.all) {
        if (!kernel->serves(call.sizes())) continue;
        std::vector<at::Tensor> results;
        try {
            results = kernel->run(call.tensors());
        } catch (const std::exception &) {
            return false;
        }
        torch::jit::drop(*stack, op.schema().arguments().size());
        for (at::Tensor &result : results) stack->emplace_back(std::move(result));
        return true;
    }
    return false;
}

/* Calls torch's kernel, and has a kernel made for the next such call. A call that torch's kernel refuses compiles nothing. */
void Replacement::run_and_compile(const CallKey &call, const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
    const auto arguments = torch::jit::last(*stack, op.schema().arguments().size()).vec();
    const std::vector<uint64_t> words(call.words().begin(), call.words().end());
    std::shared_ptr<Compiler> compiler;
    uint64_t epoch;
    {
        const CurrentTable::Reading table(table_);
        table->original->callBoxed(op, keys, stack);
        compiler = table->compiler;
        epoch = table->epoch;
    }
    if (compiler == nullptr || !compiler->is_ready() || !begin(words, epoch)) return;
    Compiler::Decision decision;
    try {
        decision = compiler->compile(op.schema(), arguments, torch::jit::last(*stack, op.schema().returns().size()));
    } catch (...) {
        end(words, epoch, decision, false);
        throw;
    }
    end(words, epoch, decision, decision.kernel == nullptr);
}

/* Keeps other threads from making a kernel for the same key. False if one of them is doing so, or something has been forgotten since `epoch`. */
bool Replacement::begin(const std::vector<uint64_t> &words, uint64_t epoch) {
    return table_.replace([&](KernelTable &table) {
        if (table.epoch != epoch || table.kernels[words].is_complete) return false;
        table.kernels[words].is_complete = true;
        return true;
    });
}

/* Adds the kernel, if there is one, and says whether its key has all that it will have. A decision from before something was forgotten is dropped. */
void Replacement::end(const std::vector<uint64_t> &words, uint64_t epoch, const Compiler::Decision &decision, bool is_complete) {
    table_.replace([&](KernelTable &table) {
        if (table.epoch != epoch) return false;
        Kernels &kernels = table.kernels[words];
        if (decision.kernel != nullptr) kernels.all.push_back(decision.kernel);
        kernels.is_complete = is_complete;
        table.is_full = decision.is_last;
        return true;
    });
}

EagerOperator::EagerOperator(const std::string &name, const std::string &overload, std::shared_ptr<Compiler> compiler)
    : replacement_(Replacement::of(name, overload)), compiler_(std::move(compiler)), registration_(replacement_.open(compiler_)) {}

EagerOperator::~EagerOperator() { close(); }

void EagerOperator::close() {
    registration_.reset();
    replacement_.forget(compiler_, true);
}

void EagerOperator::forget() { replacement_.forget(compiler_, false); }

}  // namespace framejit
