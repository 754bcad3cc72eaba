"""Compiles one call of an operator with AOTInductor, and compares the results with those of torch's kernel."""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._inductor import metrics
from torch._inductor.compile_fx import compile_fx_aot, compile_fx_inner
from torch.fx.graph import CodeGen

from framejit._operators import WORTH_THREADS, Kernel
from framejit.graph.symbolic_call import NotCompiled, SymbolicCall

CHECKED_INDEX = "AOTI_TORCH_CHECK("
"""Inductor's C++ code has this where an index could be out of range. On one of several threads, a check that fails ends the process."""
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""By dtype, the largest error that a kernel's first results may have, relative to the largest of torch's."""


ELF64_LITTLE = b"\x7fELF\x02\x01"
"""The first bytes of libraries with 64-bit addresses in little-endian order."""
ELF_HEADER = struct.Struct("<32xQ14xHH6x")
"""The position, the size and the number of the program headers in the header of such a library (elf.h: Elf64_Ehdr)."""
PT_GNU_STACK, PF_X = 0x6474E551, 1


class NeverCompiled(NotCompiled):
    """No call of the operator can be compiled."""


def compile_call(call: SymbolicCall, expected: Sequence[torch.Tensor], threads: int) -> Kernel:
    """The kernel for calls like this one, of which torch's kernel has given the `expected` results, and which may run on so many threads if they are large.

    Raises NotCompiled, and whatever Inductor raises.
    """
    folder = tempfile.mkdtemp(prefix="framejit-operator-")
    try:
        with torch.no_grad():
            kernel = load(call, folder, threads)
            compare(call.tensors, kernel.run(call.tensors), expected)
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # a library that has been loaded needs its file no more
    return kernel


def load(call: SymbolicCall, folder: str, threads: int) -> Kernel:
    """Compile a call to a library in a folder, and load it. Raises NotCompiled."""
    is_large = sum(tensor.numel() for tensor in call.tensors) >= WORTH_THREADS
    settings = {"aot_inductor.output_path": folder, "cpp.threads": threads if is_large else 1}
    graph, inputs = call.graph()
    before = metrics.generated_kernel_count
    library = compile_fx_aot(graph, inputs, compile_pure, config_patches=settings)
    if metrics.generated_kernel_count == before:
        raise NeverCompiled("Inductor calls torch's kernel for it")
    if any(CHECKED_INDEX in path.read_text() for path in Path(folder).rglob("*.cpp")):
        raise NeverCompiled("it takes indices, which have to be checked")
    clear_executable_stack(library)
    return Kernel(library, *call.conditions())


def clear_executable_stack(library: str) -> None:
    """Clear the mark by which a library asks for an executable stack (ELF: the flags of PT_GNU_STACK); glibc 2.41 and later refuse to load such a library.

    The linker sets the mark since torch's assembler text for constants, which are data, doesn't say that it needs none.
    """
    with open(library, "r+b") as file:
        header = file.read(ELF_HEADER.size)
        if len(header) < ELF_HEADER.size or not header.startswith(ELF64_LITTLE):
            return
        start, size, count = ELF_HEADER.unpack(header)
        for place in range(start, start + size * count, size):
            file.seek(place)
            kind, flags = struct.unpack("<II", file.read(8))
            if kind == PT_GNU_STACK and flags & PF_X:
                file.seek(place + 4)
                file.write(struct.pack("<I", flags & ~PF_X))


def compile_pure(graph: fx.GraphModule, inputs: Sequence[Any], **kwargs: Any) -> Any:
    """torch's `compile_fx_inner`, on a graph of ATen operators that changes none of its inputs. Raises NeverCompiled on others: some operators change
    arguments without saying so in their schema."""
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
        if node.args[0].op == "placeholder":
            raise NeverCompiled("it changes an argument")
    graph.graph.set_codegen(CodeGen())  # copying the other kind, as Inductor does, warns the program of a class of torch's
    return compile_fx_inner(graph, inputs, **kwargs)


def compare(arguments: Sequence[torch.Tensor], results: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
    """Compare a kernel's first results with those of torch's. Raises NotCompiled if they differ in anything but rounding, or share memory."""
    read, written = ([tensor.untyped_storage().data_ptr() for tensor in tensors] for tensors in (arguments, results))
    if len(set(written)) < len(results) or set(read) & set(written):
        raise NotCompiled("its results would share memory with one another, or with its arguments")
    if len(results) != len(expected):
        raise NotCompiled(f"it would give {len(results)} results, and torch's kernel gives {len(expected)}")
    for result, wanted in zip(results, expected):
        if described(result) != described(wanted):
            raise NotCompiled(f"it would give {described(result)}, and torch's kernel gives {described(wanted)}")
        if not is_close(result, wanted):
            raise NotCompiled("its results would differ from those of torch's kernel")


def described(tensor: torch.Tensor) -> str:
    return f"{tensor.dtype} {tuple(tensor.shape)} with strides {tuple(tensor.stride())}"


def is_close(result: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Return whether two tensors of one dtype are equal, as far as rounding allows."""
    if not result.dtype.is_floating_point:
        return torch.equal(result, wanted)
    finite = wanted.isfinite()
    if not torch.equal(result.isfinite(), finite) or not torch.equal(result.nan_to_num()[~finite], wanted.nan_to_num()[~finite]):
        return False
    largest = wanted[finite].abs().max().item() if finite.any() else 0.0
    return bool(((result - wanted)[finite].abs() <= TOLERANCE[result.dtype] * largest).all())
