"""Guards, state that nobody passes in: torch's modes and settings, what libraries hold, what a thread has; and kinds of tensors."""

from __future__ import annotations

import builtins
import contextlib
import logging
import random
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from change_kinds import Kind
from handmade import run_python
from scenarios import BACK, EITHER, NEW, NEW_UNSEEN, OTHER, SAME, Adding, Table, each, play, start, start_any
from torch import nn
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

table = Table()
scenario = table.scenario
x = torch.arange(6.0).reshape(2, 3)


@contextlib.contextmanager
def put(owner: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute changed for a while."""
    own = name in vars(owner)
    was = vars(owner).get(name) if isinstance(owner, type) else getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own or not isinstance(owner, type):
            setattr(owner, name, was)
        else:
            delattr(owner, name)


# ---- functions and methods of torch, and of Python, patched ----


@scenario(Kind.LIBRARY_FUNCTION)
def functional_patched():
    m = nn.Linear(3, 3)
    yield start(lambda t: m(t), x)
    with put(F, "relu", lambda t: t):
        yield SAME
    with put(F, "linear", lambda t, w, b: t * 3):
        yield NEW
    yield BACK


@scenario(Kind.LIBRARY_CLASS)
def a_method_of_tensors_patched():
    yield start(lambda t: t.relu() + t.sum(), x)
    with put(torch.Tensor, "relu", lambda self: self * 4):
        yield NEW
    yield BACK


@scenario(Kind.LIBRARY_CLASS)
def an_operator_of_tensors_patched():
    yield start(lambda t: t + 1, x)
    with put(torch.Tensor, "__sub__", lambda self, other: torch.mul(self, 5)):
        yield SAME
    with put(torch.Tensor, "__add__", lambda self, other: torch.mul(self, 5)):
        yield NEW
    yield BACK


@scenario(Kind.LIBRARY_CLASS)
def the_length_of_tensors_patched():
    yield start(lambda t: t[0] + len(t), x)
    with put(torch.Tensor, "__len__", lambda self: 50):
        yield NEW
    yield EITHER


INDEXING_PATCHED = """
import framejit, torch

x = torch.arange(6.0).view(2, 3)
original = torch.Tensor.__getitem__
program = lambda t: t[0] + len(t)
compiled = framejit.compile(program, backend="eager")
assert torch.equal(compiled(x), program(x))
torch.Tensor.__getitem__ = lambda self, key: original(self, key) * 5
assert compiled(x).tolist() == program(x).tolist() == [2.0, 7.0, 12.0]
"""


def test_indexing_of_tensors_patched() -> None:
    """In a process of its own: once torch.Tensor has had a `__getitem__`, torch.tensor() takes tensors for sequences."""
    run_python(INDEXING_PATCHED)


@scenario(Kind.LIBRARY_CLASS)
def a_property_of_tensors_patched():
    yield start(lambda t: t * t.nbytes, x)
    with put(torch.Tensor, "unrelated", 1):
        yield SAME
    with put(torch.Tensor, "nbytes", property(lambda self: 3)):
        yield NEW
    yield EITHER


@scenario(Kind.BUILTIN)
def a_builtin_patched():
    yield start(lambda t: t * divmod(7, 2)[0], x)
    with put(builtins, "callable", lambda v: v):
        yield SAME
    with put(builtins, "divmod", lambda a, b: (50, 1)):
        yield NEW
    yield BACK


@scenario(Kind.PYTHON_MODULE)
def a_module_swapped():
    first, second = types.ModuleType("framejit_made_up"), types.ModuleType("framejit_made_up")
    first.scale, second.scale = 2, 3  # type: ignore[attr-defined]
    sys.modules["framejit_made_up"] = first
    sys.modules["framejit_beside"] = first

    def f(t):
        import framejit_made_up

        return t * framejit_made_up.scale

    try:
        yield start(f, x)
        sys.modules["framejit_beside"] = second
        yield SAME
        sys.modules["framejit_made_up"] = second
        yield NEW
        sys.modules["framejit_made_up"] = first
        yield BACK
    finally:
        del sys.modules["framejit_made_up"], sys.modules["framejit_beside"]


@scenario(Kind.PYTHON_MODULE)
def a_getattr_of_a_module():
    made: Any = types.ModuleType("made_up")
    made.__getattr__ = lambda name: len(name)
    yield start(lambda t: t * made.four, x)
    made.__getattr__ = lambda name: 7
    yield NEW
    made.four = 8
    yield NEW


# ---- modes and settings of torch ----


@scenario(Kind.BACKEND_SETTING)
def matmul_precision():
    was = torch.get_float32_matmul_precision()
    yield start(lambda t: t * len(torch.get_float32_matmul_precision()), x)
    torch.set_printoptions(precision=5)
    yield SAME
    torch.set_printoptions(profile="default")
    torch.set_float32_matmul_precision("high")
    try:
        yield NEW
    finally:
        torch.set_float32_matmul_precision(was)
    yield BACK


@scenario(Kind.BACKEND_SETTING)
def tf32_flags():
    yield start_any(lambda t: t + 1 if torch.backends.cuda.matmul.allow_tf32 else t, x)
    with put(torch.backends.cuda.matmul, "allow_tf32", not torch.backends.cuda.matmul.allow_tf32):
        yield EITHER
    yield EITHER


@scenario(Kind.BACKEND_SETTING)
def reduced_precision_flags():
    flags = torch.backends.cuda.matmul
    yield start_any(lambda t: t + 1 if flags.allow_fp16_reduced_precision_reduction else t, x)
    with put(flags, "allow_fp16_reduced_precision_reduction", False):
        yield EITHER
    yield EITHER


@scenario(Kind.BACKEND_SETTING)
def cudnn_flags():
    yield start_any(lambda t: t + 1 if torch.backends.cudnn.enabled else t, x)
    with torch.backends.cudnn.flags(enabled=not torch.backends.cudnn.enabled):
        yield EITHER
    with torch.backends.cudnn.flags(benchmark=not torch.backends.cudnn.benchmark):
        yield EITHER
    yield EITHER


@scenario(Kind.BACKEND_SETTING)
def mkldnn_flags():
    yield start_any(lambda t: t + 1 if torch.backends.mkldnn.enabled else t, x)
    with torch.backends.mkldnn.flags(enabled=False):
        yield EITHER
    yield EITHER


@scenario(Kind.BACKEND_SETTING)
def attention_kernels_that_are_read():
    yield start_any(lambda t: t + 1 if torch.backends.cuda.flash_sdp_enabled() else t, x)
    with sdpa_kernel(SDPBackend.MATH):
        yield EITHER
    yield EITHER


@scenario(Kind.BACKEND_SETTING)
def attention_kernels():
    torch.manual_seed(0)
    q = torch.randn(1, 2, 8, 4)

    def f(q):
        return F.scaled_dot_product_attention(q, q, q)

    yield start(f, q)
    with sdpa_kernel(SDPBackend.MATH):
        yield EITHER
    yield EITHER


@scenario(Kind.BACKEND_SETTING)
def the_fast_path_of_transformers():
    yield start(lambda t: t * torch.backends.mha.get_fastpath_enabled(), x)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield NEW
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    yield BACK


@scenario(Kind.TORCH_MODE)
def anomaly_mode():
    yield start_any(lambda t: t + 1 if torch.is_anomaly_enabled() else t, x)
    with pytest.warns(UserWarning), torch.autograd.detect_anomaly():
        yield EITHER
    yield EITHER


@scenario(Kind.DETERMINISM)
def deterministic_warnings_only():
    yield start(lambda t: (t + 1, torch.is_deterministic_algorithms_warn_only_enabled()), x)
    torch.use_deterministic_algorithms(True)
    try:
        yield NEW_UNSEEN
        torch.use_deterministic_algorithms(True, warn_only=True)
        yield NEW
    finally:
        torch.use_deterministic_algorithms(False)
    yield BACK


class Noting(TorchDispatchMode):
    """Adds to what every operator gives."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result + 100 if isinstance(result, torch.Tensor) else result


@scenario(Kind.TORCH_MODE)
def a_dispatch_mode():
    yield start(lambda t: t * 2, x)
    with Noting():
        yield EITHER
    yield BACK


@scenario(Kind.TORCH_MODE)
def two_function_modes():
    yield start(lambda t: torch.mul(t, 2), x)
    one, other = Adding(), Adding()
    with one:
        yield NEW
        with other:
            yield NEW
        yield BACK
    with other:
        yield BACK
    yield BACK


@scenario(Kind.TENSOR_CLASS)
def torch_function_disabled():
    class Tripled(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            result = super().__torch_function__(func, types, args, kwargs or {})
            return result * 3 if func is torch.sin else result

    t = x.as_subclass(Tripled)
    yield start_any(lambda t: torch.sin(t), t)
    with torch._C.DisableTorchFunctionSubclass():
        yield EITHER
    yield EITHER


@scenario(Kind.TENSOR_CLASS)
def a_torch_function_that_changes():
    class Tripled(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {})).as_subclass(torch.Tensor) * 3

    t = x.as_subclass(Tripled)
    yield start_any(lambda t: torch.sin(t), t)

    def other(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {})).as_subclass(torch.Tensor) * 7

    Tripled.__torch_function__ = classmethod(other)  # type: ignore[assignment]
    yield EITHER


@scenario(Kind.TORCH_MODE)
def hooks_on_saved_tensors():
    p = torch.full((3,), 3.0, requires_grad=True)

    def f(t):
        [result] = torch.autograd.grad((t * p).exp().sum(), p)
        return result

    yield start(f, x)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 2):
        yield EITHER
    yield BACK


@scenario(Kind.TORCH_MODE)
def functorch_levels():
    yield start(lambda t: t.sum(0) * 2, x)
    level = torch._C._functorch._vmap_increment_nesting(2, "error")
    try:
        yield NEW_UNSEEN
    finally:
        torch._C._functorch._vmap_decrement_nesting()
    assert level == 1
    yield BACK


@scenario(Kind.TORCH_MODE)
def forward_mode_differentiation():
    tangent = torch.ones(2, 3)
    yield start(lambda t: t * t, x)
    with forward_ad.dual_level():
        yield EITHER.of(forward_ad.make_dual(x, tangent))
    yield BACK.of(x)


@scenario(Kind.AUTOCAST)
def autocast_of_another_device():
    a = torch.ones(4, 4)
    yield start(lambda t: t @ t, a)
    with torch.autocast("cpu", torch.bfloat16):
        yield NEW
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            yield EITHER
        with torch.autocast("cpu", enabled=False):
            yield BACK
    yield BACK


@scenario(Kind.AUTOCAST)
def the_autocast_dtype_while_it_is_off():
    a = torch.ones(4, 4)
    yield start(lambda t: t @ t, a)
    was = torch.get_autocast_dtype("cpu")
    torch.set_autocast_dtype("cpu", torch.float16)
    try:
        yield SAME
    finally:
        torch.set_autocast_dtype("cpu", was)


@scenario(Kind.GRAD_MODE)
def grad_mode_in_another_thread():
    p = nn.Parameter(torch.ones(3))
    yield start(lambda t: (t * p).requires_grad, x)
    done = threading.Event()
    thread = threading.Thread(target=lambda: (torch.set_grad_enabled(False), done.wait(30)))
    thread.start()
    yield SAME
    done.set()
    thread.join()
    torch.set_grad_enabled(False)
    try:
        yield NEW
    finally:
        torch.set_grad_enabled(True)
    yield BACK


@scenario(Kind.PROCESS_STATE)
def number_of_threads_of_torch():
    was = torch.get_num_threads()
    yield start(lambda t: t * 2, x)
    torch.set_num_threads(was + 1)
    yield SAME
    torch.set_num_threads(was)


# ---- random numbers ----


@scenario(Kind.RANDOMNESS)
def a_random_generator():
    r, beside = random.Random(3), random.Random(3)

    def f(t):
        r.seed(seed[0])
        return t * r.random()

    seed = [3]
    yield start_any(f, x)
    beside.seed(4)
    yield SAME
    seed[0] = 4
    yield EITHER


@scenario(Kind.RANDOMNESS)
def random_of_python():
    def f(t, seed):
        random.seed(seed)
        return t * random.random(), t * random.randint(1, 100)

    yield start_any(f, x, 1)
    np.random.seed(5)
    yield SAME
    yield EITHER.of(x, 2)


@scenario(Kind.RANDOMNESS)
def random_of_numpy():
    def f(t, seed):
        np.random.seed(seed)
        return t * float(np.random.rand())

    yield start_any(f, x, 1)
    random.seed(5)
    yield SAME
    yield EITHER.of(x, 2)


@scenario(Kind.RANDOMNESS)
def random_of_torch():
    def f(t, seed):
        torch.manual_seed(seed)
        return torch.rand(3) + t

    yield start_any(f, x, 1)
    torch.Generator().manual_seed(7)
    random.seed(5)
    yield SAME
    yield EITHER.of(x, 2)


@scenario(Kind.RANDOMNESS)
def a_generator_of_torch():
    def f(t, generator):
        return torch.rand(3, generator=generator) * t

    def again(seed):
        return lambda t: f(t, torch.Generator().manual_seed(seed))

    yield start_any(lambda t, make: make(t), x, again(1))
    torch.manual_seed(7)
    yield SAME
    yield EITHER.of(x, again(2))


# ---- libraries ----


@scenario(Kind.PROCESS_STATE)
def the_level_of_a_logger():
    log = logging.getLogger("framejit.made_up.one")
    beside = logging.getLogger("framejit.made_up.other")
    log.setLevel(logging.WARNING)
    log.isEnabledFor(logging.INFO)  # the logger keeps the answer
    yield start_any(lambda t: t + 1 if log.isEnabledFor(logging.INFO) else t, x)
    log.propagate = False
    yield SAME
    beside.setLevel(logging.ERROR)
    yield EITHER  # empties what all loggers keep
    log.setLevel(logging.INFO)
    yield EITHER
    logging.disable(logging.CRITICAL)
    try:
        yield EITHER
    finally:
        logging.disable(logging.NOTSET)
        log.propagate = True


@scenario(Kind.NUMPY)
def numpy_arrays():
    a = np.ones(3, dtype=np.float32)
    yield start_any(lambda t, a, beside: t + torch.from_numpy(a), x, a, np.ones(3))
    yield SAME.of(x, a, np.zeros((2, 2)))
    a[0] = 5
    yield OTHER
    yield EITHER.of(x, np.ones(3, dtype=np.float64), None)
    yield EITHER.of(x, np.ones(6, dtype=np.float32)[::2], None)
    yield EITHER.of(x, np.ones((1, 3), dtype=np.float32), None)
    yield OTHER.of(x, np.full(3, 7, dtype=np.float32), None)


@scenario(Kind.NUMPY)
def numpy_numbers():
    n = np.float32(2)
    yield start_any(lambda t, n, beside: t * n, x, n, np.float32(4))
    yield SAME.of(x, n, np.float32(5))
    yield EITHER.of(x, np.float32(3), None)
    yield EITHER.of(x, np.float64(3), None)
    yield EITHER.of(x, np.int64(3), None)
    yield EITHER.of(x, 3, None)


# ---- kinds of tensors ----


@scenario(Kind.TENSOR_BITS)
def a_negative_view():
    c = torch.ones(3, dtype=torch.complex64) * 1j
    yield start(lambda t: (t * 2, t.is_neg()), c.imag)
    yield NEW.of(c.conj().imag)
    yield BACK.of(c.imag)


@scenario(Kind.TENSOR_SHAPE)
def a_scalar_tensor():
    yield start(lambda t: t * torch.ones(1, dtype=torch.int64) / 2, torch.tensor([3.0]))
    yield NEW.of(torch.tensor(3.0, dtype=torch.float64))
    yield NEW_UNSEEN.of(torch.tensor([3.0], dtype=torch.float64))
    yield SAME.of(torch.tensor([3.0], dtype=torch.float64))


@scenario(Kind.TENSOR_SHAPE)
def an_empty_tensor():
    yield start(lambda t: t.sum() + t.numel(), torch.ones(3))
    yield NEW.of(torch.ones(0))
    yield BACK.of(torch.ones(3))


@scenario(Kind.TENSOR_STRIDES)
def an_expanded_tensor():
    def f(t):
        return t + 1, t.stride()

    yield start(f, torch.ones(3, 3))
    yield NEW.of(torch.ones(3).expand(3, 3))
    yield BACK.of(torch.full((3, 3), 1.0))


@scenario(Kind.TENSOR_STRIDES)
def a_memory_format():
    def f(t):
        return t * 2, t.is_contiguous(memory_format=torch.channels_last)

    image = torch.ones(1, 2, 3, 3)
    yield start(f, image)
    yield NEW.of(image.to(memory_format=torch.channels_last))
    yield BACK.of(image.clone())


@scenario(Kind.TENSOR_LAYOUT)
def a_compressed_layout():
    yield start(lambda t: (t.to_dense() if t.layout is not torch.strided else t) * 2, x)
    yield NEW_UNSEEN.of(x.to_sparse_csr())
    yield NEW_UNSEEN.of(x.to_sparse_csc())
    yield BACK.of(x)


@scenario(Kind.TENSOR_LAYOUT)
def the_elements_of_a_sparse_tensor():
    def f(t, dense):
        return t.is_coalesced(), t._nnz(), t._values() * 2, t.sparse_dim(), t.to_dense() + 1, dense * 2

    values = torch.ones(3, 2)
    yield start_any(f, torch.sparse_coo_tensor([[0, 1, 2]], values, (4, 2)), x)
    yield NEW.of(torch.sparse_coo_tensor([[0, 1, 2]], values, (4, 2)).coalesce(), x)
    yield NEW.of(torch.sparse_coo_tensor([[0, 1]], values[:2], (4, 2), is_coalesced=True), x)
    yield BACK.of(torch.sparse_coo_tensor([[1, 2, 3]], values * 2, (4, 2), is_coalesced=True), x)
    yield NEW.of(torch.eye(4)[:, :2].to_sparse(), x)


@scenario(Kind.TENSOR_LAYOUT)
def types_and_dimensions_of_the_parts_of_a_sparse_tensor():
    def made(index_dtype, *dense):
        rows = torch.tensor([0, 1, 1], dtype=index_dtype)
        return torch.sparse_csr_tensor(rows, torch.zeros(1, dtype=index_dtype), torch.ones(1, *dense), (2, 3, *dense))

    yield start_any(lambda t, dense: (t.to_dense(), t.dense_dim(), t.crow_indices(), dense * 2), made(torch.int64), x)
    yield NEW.of(made(torch.int32), x)
    yield BACK.of(made(torch.int64) * 2, x)
    yield NEW.of(made(torch.int64, 2), x)


@scenario(Kind.TENSOR_LAYOUT)
def a_nested_tensor():
    yield start_any(lambda t: t * 2 if not t.is_nested else t, x)
    yield EITHER.of(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged))
    yield EITHER.of(x)


@scenario(Kind.TENSOR_BITS)
def a_view_or_not():
    base = torch.zeros(3, 3)
    yield start_any(lambda t: (t * 2, t._is_view()), base[0])
    yield EITHER.of(torch.zeros(3))


@scenario(Kind.TENSOR_ATTRIBUTE)
def a_tensor_with_a_gradient():
    p = torch.ones(3, requires_grad=True)
    beside = torch.ones(3, requires_grad=True)
    yield start(lambda t: t * 2 if t.grad is None else t * t.grad, p)
    beside.grad = torch.ones(3)
    yield SAME
    p.grad = torch.full((3,), 4.0)
    yield NEW
    p.grad = torch.full((3,), 5.0)
    yield OTHER


@scenario(Kind.TENSOR_REQUIRES_GRAD)
def the_gradient_mode_of_an_input_in_place():
    t = torch.ones(3)
    beside = torch.ones(3)
    yield start(lambda t: (t * 2).requires_grad, t)
    beside.requires_grad_(True)
    yield SAME
    t.requires_grad_(True)
    yield NEW
    t.requires_grad_(False)
    yield BACK


@scenario(Kind.OUTER_TENSOR)
def a_tensor_of_an_outer_scope():
    t = torch.ones(3)
    yield start(lambda a: a * t, x)
    t.add_(1)
    yield OTHER
    t.data = torch.ones(3, dtype=torch.float64)
    yield NEW
    t.data = torch.full((3,), 5.0)
    yield BACK
    t.requires_grad_(True)
    yield NEW


@scenario(Kind.TENSOR_DATA)
def a_tensor_written_through_its_alias():
    t = torch.ones(3)
    alias = t.view(3)
    yield start(lambda a: a * t, x)
    alias.fill_(7)
    yield OTHER
    t.set_(torch.full((3,), 9.0))
    yield OTHER
    t.resize_(1)
    yield NEW_UNSEEN


@scenario(Kind.TENSOR_CLASS)
def class_of_a_tensor():
    class Sub(torch.Tensor):
        factor = 2

        def scaled(self):
            return self.as_subclass(torch.Tensor) * type(self).factor

    t = torch.ones(3).as_subclass(Sub)
    yield start_any(lambda t: t.scaled() if isinstance(t, Sub) else t, t)
    Sub.factor = 3
    yield EITHER
    Sub.scaled = lambda self: torch.zeros(1)  # type: ignore[method-assign]
    yield EITHER
    yield EITHER.of(torch.ones(3))


@each(table.scenarios)
def test_change(row):
    play(row)


@each([a_negative_view, attention_kernels, two_function_modes, a_tensor_of_an_outer_scope, an_expanded_tensor,
                                     a_memory_format, a_tensor_written_through_its_alias, forward_mode_differentiation, hooks_on_saved_tensors,
                                     a_dispatch_mode])  # fmt: skip
def test_change_with_aot_autograd(row):
    play(row, backend="aot_eager")
