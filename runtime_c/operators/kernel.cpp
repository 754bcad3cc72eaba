/* kernel.cpp: runs what AOTInductor has compiled, below autograd and without the GIL. */
#include "kernel.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner_cpu.h>

#include <algorithm>
#include <stdexcept>

namespace framejit {

namespace {

thread_local bool with_torchs_kernels = false;

constexpr size_t most_registers = 64; /* of a program that is run without allocating */

}  // namespace

bool runs_torchs_kernels() { return with_torchs_kernels; }

WithTorchsKernels::WithTorchsKernels() : before_(with_torchs_kernels) { with_torchs_kernels = true; }

WithTorchsKernels::~WithTorchsKernels() { with_torchs_kernels = before_; }

Kernel::Kernel(const std::string &library, const std::vector<int64_t> &guards, std::vector<size_t> read)
    : runner_(std::make_unique<torch::inductor::AOTIModelContainerRunnerCpu>(library, 1, /* run_single_threaded */ true)), read_(std::move(read)) {
    if (!guards_.read(guards.data(), guards.data() + guards.size(), read_.size())) throw std::invalid_argument("no program over sizes");
}

Kernel::~Kernel() = default;

bool Kernel::serves(std::span<const int64_t> sizes) const {
    if (guards_.code.empty()) return true;
    if (std::any_of(read_.begin(), read_.end(), [&](size_t place) { return place >= sizes.size(); })) return false;
    const std::vector<int64_t> &initial = guards_.registers;
    int64_t on_stack[most_registers];
    std::vector<int64_t> allocated(initial.size() > most_registers ? initial.size() : 0);
    int64_t *const registers = allocated.empty() ? on_stack : allocated.data();
    std::copy(initial.begin() + read_.size(), initial.begin() + guards_.results, registers + read_.size()); /* constants */
    std::transform(read_.begin(), read_.end(), registers, [&](size_t place) { return sizes[place]; });
    return guards_.holds(registers);
}

std::vector<at::Tensor> Kernel::run(std::span<const at::Tensor *const> tensors) const {
    const WithTorchsKernels originals;
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    std::vector<at::Tensor> inputs;
    inputs.reserve(tensors.size());
    for (const at::Tensor *tensor : tensors) inputs.push_back(*tensor);
    return runner_->boxed_run(std::move(inputs));
}

}  // namespace framejit
