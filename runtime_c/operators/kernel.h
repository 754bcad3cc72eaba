/* kernel.h: an operator's compiled code for calls with one key, and the program over sizes that says which of these calls it serves. */
#ifndef FRAMEJIT_OPERATORS_KERNEL_H
#define FRAMEJIT_OPERATORS_KERNEL_H

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shape_vm.h"

namespace torch::inductor {
class AOTIModelContainerRunner;
}

namespace framejit {

/* Whether this thread runs compiled code of an operator, or compiles some. The operators that it calls meanwhile run torch's kernels: compiled code falls
 * back on them, perhaps on the operator that it belongs to. */
bool runs_torchs_kernels();

class WithTorchsKernels {
   public:
    WithTorchsKernels();
    ~WithTorchsKernels();
    WithTorchsKernels(const WithTorchsKernels &) = delete;

   private:
    bool before_;
};

/* The shared library that AOTInductor has made, loaded. It is unloaded when the last call has ended that uses it. */
class Kernel {
   public:
    /* `guards`: a program over sizes as `ShapeProgram.native()` in guards/shape_vm.py gives it, whose inputs are the sizes with the numbers `read`, of all
     * sizes of a call's tensors in a row. Throws if the library can't be loaded or the program can't be read. */
    Kernel(const std::string &library, const std::vector<int64_t> &guards, std::vector<size_t> read);
    ~Kernel();

    /* Whether the kernel computes what eager does for tensors with these sizes. */
    bool serves(std::span<const int64_t> sizes) const;

    /* The results. Throws what the compiled code throws. Several threads may run it at once: code for a CPU changes nothing but its results. */
    std::vector<at::Tensor> run(std::span<const at::Tensor *const> tensors) const;

   private:
    std::unique_ptr<torch::inductor::AOTIModelContainerRunner> runner_;
    ShapeProgram guards_;
    std::vector<size_t> read_;
};

}  // namespace framejit

#endif
