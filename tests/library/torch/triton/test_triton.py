"""Triton kernels that compiled code launches: interpreted, on the CPU, against eager; what needs a GPU is passed over without one."""

import os
import subprocess
import sys

import pytest
import torch
from agreement import agree

import framejit
from framejit.library.torch.triton import triton_launch

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")
BACKENDS = ("eager", "aot_eager")
pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")


def add_code(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)


def scale_code(x_ptr, scale, n, SQUARE: tl.constexpr = False, TYPE: tl.constexpr = tl.float32, BLOCK: tl.constexpr = 4):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask).to(TYPE)
    if SQUARE:
        x = x * x
    tl.store(x_ptr + offsets, x * scale, mask=mask)


def exp_code(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < columns
    tl.store(out_ptr + row * columns + offsets, tl.exp(tl.load(x_ptr + row * columns + offsets, mask=mask)), mask=mask)


before = os.environ.get("TRITON_INTERPRET")
os.environ["TRITON_INTERPRET"] = "1"
try:
    add, scale, exp = map(triton.jit, (add_code, scale_code, exp_code))
    tuned = triton.autotune(configs=[triton.Config({"BLOCK": 8}, num_warps=2)], key=["n"])(triton.jit(add_code))
    chosen = triton.autotune(configs=[triton.Config({"BLOCK": size}) for size in (2, 8)], key=["n"])(triton.jit(add_code))
    computed = triton.heuristics({"BLOCK": lambda args: 4 if args["n"] < 100 else 16})(triton.jit(add_code))
    hooked = triton.autotune(configs=[triton.Config({"BLOCK": 8}, pre_hook=lambda args: args["x_ptr"].add_(1))], key=[])(triton.jit(add_code))
    both = triton.autotune(configs=[triton.Config({})], key=[])(triton.heuristics({"BLOCK": lambda args: 4})(triton.jit(add_code)))
finally:
    os.environ.pop("TRITON_INTERPRET") if before is None else os.environ.update(TRITON_INTERPRET=before)


def vector(size=10):
    return torch.arange(float(size))


# Launches.


def with_numbers(x, y):
    out = torch.empty_like(x)
    add[(3,)](x, y * 2, out, 10, BLOCK=4)
    return out + 1


def with_a_function(x, y):
    out = torch.empty_like(x)
    n = out.numel()
    add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out_ptr=out, y_ptr=y, n=n, BLOCK=4, num_warps=2)
    return out * y


def with_a_def(x, y):
    out = torch.empty_like(x)

    def grid(meta):
        assert set(meta) == {"x_ptr", "y_ptr", "out_ptr", "n", "BLOCK"}
        return triton.cdiv(x.numel(), meta["BLOCK"]), 1

    add[grid](x, y, out, x.numel(), 4)
    return out


def in_place(x, y):
    z = x + y
    scale[(3,)](z, 2.5, 10, SQUARE=True)
    scale[(5, 1)](y, scale=0.5, n=10, BLOCK=2, TYPE=tl.float64)
    return z, z * y


def of_a_view(x, y):
    z = x + y
    scale[(2, 1, 1)](z[3:], 3.0, 5)
    return z, z.sum()


def one_after_the_other(x, y):
    out = torch.zeros_like(x)
    for _ in range(3):
        add[(3,)](x, out, out, 10, BLOCK=4)
        scale[(3,)](out, 0.5, 10)
    return out


def with_autotune(x, y):
    out = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(10, meta["BLOCK"]),)](x, y, out, 10)
    return out + 1


def with_heuristics(x, y):
    out = torch.empty_like(x)
    computed[lambda meta: (triton.cdiv(10, meta["BLOCK"]),)](x, y, out, 10)
    return out + 1


def with_both(x, y):
    out = torch.empty_like(x)
    both[lambda meta: (triton.cdiv(10, meta["BLOCK"]),)](x, y, out, 10)
    return out + 1


def in_two_dimensions(x, y):
    x = x.view(2, 5)
    out = torch.empty_like(x)
    rows, columns = x.shape
    exp[(rows, triton.cdiv(columns, 4))](x, out, rows, columns, BLOCK=4)
    return out / out.sum(1, keepdim=True)


def wrapped(x, y):
    out = torch.empty_like(x)
    torch.library.wrap_triton(add)[(3,)](x, y, out, 10, BLOCK=4)
    return out


def takes_interpreted():
    try:
        torch.library.wrap_triton(add)
    except RuntimeError:
        return False
    return True


interpreted_only = pytest.mark.skipif(not takes_interpreted(), reason="this torch's wrap_triton takes no interpreted kernels")
PROGRAMS = (
    with_numbers, with_a_function, with_a_def, in_place, of_a_view, one_after_the_other, with_autotune, with_heuristics, with_both, in_two_dimensions,
    pytest.param(wrapped, marks=interpreted_only),
)  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_launches(program, backend):
    framejit.reset()
    agree(program, vector(), vector() + 1, backend=backend)
    assert framejit.statistics()["graphs"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kernel", [add, computed])
def test_kernels_that_wrap_triton_refuses(kernel, backend):
    """`wrap_triton` refuses `computed`, which has heuristics, in all versions of torch, and an interpreted kernel in some."""

    def f(x, y):
        out = torch.empty_like(x)
        try:
            torch.library.wrap_triton(kernel)[(3,)](x, y, out, 10, BLOCK=4)
        except RuntimeError as error:
            return str(error), x + y
        return "", out

    agree(f, vector(), vector() + 1, backend=backend)
    assert kernel is add or f(vector(), vector())[0]


@pytest.mark.only_eager("others give a kernel no number out of a tensor")
def test_a_number_out_of_a_tensor():
    def f(x, y):
        z = x + y
        scale[(3,)](z, y.max().item(), 10)
        return z

    agree(f, vector(), vector() + 1)
    agree(f, vector(), vector() + 1, backend="aot_eager", fullgraph=False)


class Driver(triton_launch.AnyDevice):
    """Tries the configurations of a choice; the last is the fastest."""

    def get_benchmarker(self):
        times = iter(range(100, 0, -1))

        def benchmark(run, quantiles):
            run()
            return [float(next(times))] * 3

        return benchmark


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_choice_of_configurations(backend, monkeypatch):
    monkeypatch.setattr(triton.runtime.driver, "_active", Driver())

    def f(x, y):
        out = torch.empty_like(x)
        chosen[lambda meta: (triton.cdiv(10, meta["BLOCK"]),)](x, y, out, 10)
        return out + 1

    agree(f, vector(), vector() + 1, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_hook_changes_is_seen(backend):
    def f(x, y):
        z, out = x * 2, torch.empty_like(x)
        hooked[(2,)](z, y, out, 10)
        return out, z + 1

    agree(f, vector(), vector(), backend=backend, fullgraph=backend == "eager")


@pytest.mark.parametrize("backend", BACKENDS)
def test_symbolic_sizes(backend):
    def f(x):
        out = torch.empty_like(x)
        n = x.numel()
        add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, x, out, n, BLOCK=4)
        scale[(triton.cdiv(n, 4),)](out, 2.0, n)
        return out

    framejit.reset()
    compiled = framejit.compile(f, backend=backend, fullgraph=True, dynamic=True)
    for size in (5, 9, 14):
        assert compiled(vector(size)).equal(vector(size) * 4)
    assert framejit.statistics()["graphs"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_that_share_memory_are_told_apart(backend):
    def f(x, y):
        add[(3,)](x, x, y, 10, BLOCK=4)
        return x + y

    def program(compile):
        compiled, x = compile(f), vector()
        return [compiled(x, torch.zeros(10)), compiled(x, x), x]

    for expected, found in zip(program(lambda fn: fn), program(framejit.compile(backend=backend, fullgraph=True)), strict=True):
        assert found.equal(expected)


def test_only_what_is_written_counts_as_changed():
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    def f(x):
        out = torch.empty_like(x)
        add[(3,)](x, x, out, 10, BLOCK=4)
        return out

    x = vector().requires_grad_()
    with torch.no_grad():
        y = framejit.compile(f, backend=backend, fullgraph=True)(x)
    assert y.equal(x * 2) and x._version == 0
    assert [node.op for node in graphs[0].graph.nodes].count("call_function") == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_kernels_in_an_autograd_function(backend):
    class Exponential(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = torch.empty_like(x)
            exp[(1, triton.cdiv(x.numel(), 4))](x, out, 1, x.numel(), BLOCK=4)
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, gradient):
            (out,) = ctx.saved_tensors
            result = torch.zeros_like(out)
            add[(3,)]((gradient * out).contiguous(), result, result, out.numel(), BLOCK=4)
            return result

    def f(x):
        return Exponential.apply(x * 2) * 3

    framejit.reset()
    compiled = framejit.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        x, y = vector().div(9).requires_grad_(), vector().div(9).requires_grad_()
        f(x).sum().backward()
        compiled(y).sum().backward()
        torch.testing.assert_close(y.grad, x.grad, rtol=0, atol=0)
    assert framejit.statistics()["graphs"] == 1


def test_another_kernel_is_another_entry():
    compiled = framejit.compile(lambda kernel, x: (kernel[(3,)](x, 3.0, 10), x + 1)[1], backend="eager", fullgraph=True)
    assert compiled(scale, vector()).equal(vector() * 3 + 1)
    other = triton_launch.import_module("triton.runtime.interpreter").InterpretedFunction(scale.fn)
    assert compiled(other, vector()).equal(vector() * 3 + 1)


def test_a_launcher_outlives_a_break():
    def f(x, y):
        launch = add[(3,)]
        out = torch.empty_like(x)
        framejit.graph_break()
        launch(x, y, out, 10, BLOCK=4)
        return out

    agree(f, vector(), vector(), fullgraph=False)


@torch.library.triton_op("framejit_triton::add", mutates_args={})
def add_operator(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    torch.library.wrap_triton(add)[(3,)](x, y, out, 10, BLOCK=4)
    return out


add_operator.register_autograd(lambda ctx, gradient: (gradient, gradient))


@interpreted_only
@pytest.mark.parametrize("backend", BACKENDS)
def test_operators_made_of_kernels(backend):
    """The function of a triton_op is traced, because an interpreted kernel can't run on tensors without data."""
    framejit.reset()
    agree(lambda x, y: add_operator(x * 2, y=y) + torch.ops.framejit_triton.add(x, y).sum(), vector(), vector(), backend=backend)
    assert framejit.statistics()["graphs"] == 1


@interpreted_only
def test_the_gradient_of_an_operator_made_of_kernels():
    def f(x, y):
        return add_operator(x * 2, y) + 1

    x, y = vector().requires_grad_(), vector().requires_grad_()
    framejit.compile(f, backend="eager")(x, y).sum().backward()
    assert x.grad.equal(torch.full_like(x, 2.0)) and y.grad.equal(torch.ones_like(y))


# Descriptors of tensors.


def double_code(source, target, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK
    target.store([i, 0], source.load([i, 0]) * 2)


def double_in_kernel_code(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x_ptr, shape=[rows, columns], strides=[columns, 1], block_shape=[BLOCK, BLOCK])
    target = tl.make_tensor_descriptor(out_ptr, shape=[rows, columns], strides=[columns, 1], block_shape=[BLOCK, BLOCK])
    i = tl.program_id(0) * BLOCK
    target.store([i, 0], source.load([i, 0]) * 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_descriptors_that_a_kernel_makes(backend):
    kernel = triton_launch.import_module("triton.runtime.interpreter").InterpretedFunction(double_in_kernel_code)

    def f(x):
        out = torch.zeros_like(x)
        kernel[(x.size(0) // 4,)](x, out, x.size(0), x.size(1), BLOCK=4)
        return out + 1

    agree(f, torch.arange(32.0).view(8, 4), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("of_a_part", [False, True])
def test_descriptors_that_a_kernel_is_given(backend, of_a_part):
    """A kernel changes a tensor that it is given only as a descriptor, and this is noticed. With AOTAutograd, that takes a GPU."""
    make = pytest.importorskip("triton.tools.tensor_descriptor").TensorDescriptor
    kernel = triton_launch.import_module("triton.runtime.interpreter").InterpretedFunction(double_code)

    def f(x):
        out = torch.zeros_like(x)
        target = make(out, [4, 4], [4, 1], [4, 4]) if of_a_part else make(out, list(out.shape), list(out.stride()), [4, 4])
        kernel[(x.size(0) // 4,)](make.from_tensor(x, [4, 4]), target, BLOCK=4)
        return out + 1

    framejit.reset()
    agree(f, torch.arange(32.0).view(8, 4), backend=backend, fullgraph=False)
    if backend == "eager":
        assert framejit.statistics()["graphs"] == 1 + of_a_part


# Where a launch is no node.


def test_a_compiled_kernel_on_the_cpu_is_named_with_its_line():
    kernel = triton_launch.import_module("triton.runtime.jit").JITFunction(add_code)

    def f(x):
        out = torch.empty_like(x)
        kernel[(3,)](x, x, out, 10, BLOCK=4)
        return out

    with pytest.raises(framejit.Unsupported, match=r"FJ076 launch of the Triton kernel add_code: its tensors are on the CPU(.|\n)*BLOCK=4"):
        framejit.compile(f, backend="eager", fullgraph=True)(vector())
    if not torch.cuda.is_available():
        agree(f, vector(), fullgraph=False)


def test_inductor_leaves_interpreted_kernels_to_triton():
    with pytest.raises(framejit.Unsupported, match="FJ076 launch of the Triton kernel add_code: this backend compiles launches itself"):
        framejit.compile(with_numbers, backend="inductor", fullgraph=True)(vector(), vector())


def test_arguments_that_no_kernel_takes():
    def too_many(x):
        add[(3,)](x, x, x, 10, 4, 5)

    def of_another_type(x):
        add[(3,)](x, x, x, object(), BLOCK=4)

    for f in (too_many, of_another_type):
        with pytest.raises(Exception):
            f(vector())
        with pytest.raises(Exception) as found:
            framejit.compile(f, backend="eager")(vector())
        assert not isinstance(found.value, framejit.InternalError)


def test_framejit_imports_nothing_of_triton():
    code = "import sys, torch; before = set(sys.modules); import framejit; print(any(name.startswith('triton') for name in set(sys.modules) - before))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"


# On a GPU.


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("backend", (*BACKENDS, "inductor"))
def test_compiled_kernels(backend):
    kernel = triton.jit(add_code)

    def f(x, y):
        out = torch.empty_like(x)
        kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y * 2, out, x.numel(), BLOCK=16)
        return out + 1

    agree(f, vector(100).cuda(), vector(100).cuda(), backend=backend)
