"""Guards, torch's side: whatever of modules, tensors and global state a result depends on, its change is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from change_kinds import Kind
from neighbours import Beside
from scenarios import BACK, EITHER, NEW, NEW_UNSEEN, OTHER, SAME, Adding, Table, each, play, start
from torch import nn
from torch.nn.modules import module as torch_module

table = Table()
scenario = table.scenario
x = torch.arange(6.0).reshape(2, 3)


@pytest.fixture(autouse=True)
def global_state_as_it_was() -> Iterator[None]:
    dtype = torch.get_default_dtype()
    yield
    torch.set_default_dtype(dtype)
    torch.set_default_device(None)
    torch.use_deterministic_algorithms(False)
    torch.set_grad_enabled(True)


class Net(nn.Module):
    """A module with an attribute of each kind."""

    label = "class"

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("offset", torch.zeros(3))
        self.scale: Any = 2
        self.mode: Any = "plain"
        self.extra: Any = None
        self.table: Any = {"a": 1}
        self.items: Any = [1, 2]
        self.plain: Any = torch.ones(3)
        self.function: Any = torch.relu

    def forward(self, t):
        t = self.linear(t) * self.weight + self.offset
        if self.mode == "plain":
            t = t * self.scale
        if self.extra is not None:
            t = t + self.extra
        return self.function(self.body(t) * self.table["a"] + self.plain)

    def body(self, t):
        for item in self.items:
            t = t + item
        return t


def net() -> Any:
    torch.manual_seed(0)
    return type("Net", (Net,), {})()


# ---- modules ----


@scenario(Kind.MODULE_NUMBER)
def an_int_attribute():
    m = net()
    yield start(m, x)
    m.unrelated = 1
    yield SAME
    m.scale = 3
    yield NEW
    m.scale = 2
    yield BACK
    m.scale = 2.5
    yield NEW
    m.scale = True
    yield NEW


@scenario(Kind.MODULE_NUMBER)
def a_string_attribute():
    m = net()
    yield start(m, x)
    m.mode = "other"
    yield NEW
    m.scale = 5
    yield SAME


@scenario(Kind.MODULE_NUMBER)
def none_that_becomes_something():
    m = net()
    yield start(m, x)
    m.extra = 1.5
    yield NEW
    m.extra = torch.full((3,), 7.0)
    yield NEW
    m.extra = torch.full((3,), 8.0)
    yield OTHER
    m.extra = None
    yield BACK


@scenario(Kind.MODULE_TENSOR)
def a_tensor_attribute():
    m = net()
    yield start(m, x)
    m.plain = torch.full((3,), 5.0)
    yield OTHER
    m.plain = torch.full((2, 3), 6.0)
    yield NEW
    m.plain = 4
    yield NEW


@scenario(Kind.MODULE_CONTAINER)
def a_list_attribute():
    m = net()
    yield start(m, x)
    m.items.append(3)
    yield NEW
    m.items = [1, 2]
    yield BACK
    m.items[0] = 10
    yield NEW
    m.items = (10, 2)
    yield NEW_UNSEEN


@scenario(Kind.MODULE_CONTAINER)
def a_dict_attribute():
    m = net()
    yield start(m, x)
    m.table["b"] = 3
    yield SAME
    m.table["a"] = 3
    yield NEW
    m.table = {"a": 1}
    yield BACK


@scenario(Kind.MODULE_FUNCTION)
def a_function_attribute():
    m = net()
    yield start(m, x)
    m.function = torch.sigmoid
    yield NEW
    m.function = lambda t: t - 1
    yield NEW
    m.function = torch.relu
    yield BACK


@scenario(Kind.SUBMODULE)
def a_submodule():
    m = net()
    yield start(m, x)
    torch.manual_seed(1)
    m.linear = nn.Linear(3, 3)
    yield OTHER
    m.linear = nn.Linear(3, 3, bias=False)
    yield NEW
    m.linear = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 3))
    yield NEW
    torch.manual_seed(1)
    m.linear[0] = nn.Linear(3, 4)
    yield OTHER
    m.linear[1] = nn.Identity()
    yield NEW  # it raises


@scenario(Kind.SUBMODULE)
def a_submodule_that_appears_beside():
    m = net()
    yield start(m, x)
    m.another = nn.Linear(3, 3)
    yield SAME
    m.linear.note = 1
    yield SAME


@scenario(Kind.PARAMETER)
def a_parameter_that_is_replaced():
    m = net()
    yield start(m, x)
    m.weight = nn.Parameter(torch.full((3,), 5.0))
    yield OTHER
    m.weight = nn.Parameter(torch.full((1,), 5.0))
    yield NEW_UNSEEN
    m.linear.bias = None
    yield NEW


@scenario(Kind.PARAMETER_VALUES)
def values_of_a_parameter():
    m = net()
    yield start(m, x)
    with torch.no_grad():
        m.weight.add_(1)
    yield OTHER
    m.weight.data = torch.full((3,), 9.0)
    yield OTHER
    m.weight.data = torch.full((3,), 9.0, dtype=torch.float64)
    yield NEW
    m.load_state_dict(net().state_dict())
    yield OTHER


@scenario(Kind.PARAMETER)
def a_parameter_becomes_a_tensor():
    m = net()
    yield start(m, x)
    weight = m.weight.detach().clone()
    del m.weight
    m.weight = weight
    yield NEW_UNSEEN


@scenario(Kind.PARAMETER)
def a_buffer():
    m = net()
    yield start(m, x)
    m.offset = torch.ones(3)
    yield OTHER
    m.offset += 1
    yield OTHER
    m.offset = torch.ones(3, dtype=torch.float64)
    yield NEW
    del m.offset
    yield NEW


@scenario(Kind.PARAMETER_DTYPE)
def the_dtype_of_a_module():
    m = net()
    m.plain = 0
    yield start(m, x)
    m.double()
    yield NEW.of(x.double())


@scenario(Kind.PARAMETER_REQUIRES_GRAD)
def requires_grad_of_a_parameter():
    m = net()
    yield start(lambda t: (m.linear(t), m.linear.weight.requires_grad), x)
    m.linear.weight.requires_grad = False
    yield NEW
    m.requires_grad_(False)
    yield NEW
    m.requires_grad_(True)
    yield BACK


@scenario(Kind.TRAINING)
def training():
    m = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    m.eval()
    yield start(m, x)
    m.train()
    yield NEW
    m.eval()
    yield OTHER
    m[2].train()
    yield NEW


@scenario(Kind.TRAINING)
def a_flag_that_is_not_read():
    m = net()
    yield start(m, x)
    m.eval()
    yield SAME


@scenario(Kind.FORWARD_HOOK)
def forward_hooks():
    m = net()
    yield start(m, x)
    first = m.register_forward_hook(lambda module, args, output: output * 2)
    yield NEW
    second = m.register_forward_hook(lambda module, args, output: output + 1)
    yield NEW
    m._forward_hooks.move_to_end(first.id)
    yield NEW
    first.remove()
    yield NEW
    second.remove()
    yield BACK
    m.linear.register_forward_hook(lambda module, args, output: None)
    yield NEW_UNSEEN


@scenario(Kind.FORWARD_PRE_HOOK)
def forward_pre_hooks():
    m = net()
    yield start(m, x)
    handle = m.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    yield NEW
    handle.remove()
    yield BACK
    m.register_forward_pre_hook(lambda module, args, kwargs: ((args[0] + 2,), kwargs), with_kwargs=True)
    yield NEW


@scenario(Kind.FORWARD_HOOK)
def hooks_of_a_submodule():
    m = net()
    yield start(m, x)
    handle = m.linear.register_forward_hook(lambda module, args, output: output + 100)
    yield NEW
    handle.remove()
    yield BACK


@scenario(Kind.GLOBAL_HOOK)
def global_hooks():
    m = net()
    yield start(m, x)
    handle = torch_module.register_module_forward_hook(lambda module, args, output: output + 1)
    try:
        yield NEW
    finally:
        handle.remove()
    yield BACK
    handle = torch_module.register_module_forward_pre_hook(lambda module, args: (args[0] * 2,))
    try:
        yield NEW
    finally:
        handle.remove()
    yield BACK


@scenario(Kind.BACKWARD_HOOK, looks_at={Beside.MEMBER: "zero_grad goes through all parameters"})
def backward_hooks():
    m = net()
    seen: list[Any] = []

    def step(t):
        m.zero_grad()
        result = m(t)
        return result, len(seen)

    yield start(step, x)
    handle = m.linear.register_full_backward_hook(lambda module, gin, gout: seen.append(1))
    yield NEW_UNSEEN
    handle.remove()
    yield BACK


@scenario(Kind.FORWARD)
def forward_is_patched():
    m = net()
    yield start(m, x)
    original = type(m).forward
    type(m).forward = lambda self, t: t * self.scale
    yield NEW
    type(m).forward = original
    yield BACK
    m.forward = lambda t: t * 55
    yield NEW
    del m.forward
    yield BACK
    m.linear.forward = lambda t: t
    yield NEW


@scenario(Kind.LIBRARY_CLASS)
def a_method_of_torch_is_patched():
    m = net()
    original = nn.Linear.forward
    yield start(m, x)
    try:
        nn.Linear.forward = lambda self, t: t * 3  # type: ignore[method-assign]
        yield NEW
    finally:
        nn.Linear.forward = original  # type: ignore[method-assign]
    yield BACK


@scenario(Kind.MODULE_CLASS)
def the_class_of_a_submodule():
    class Doubling(nn.Linear):
        def forward(self, t):
            return super().forward(t) * 2

    m = net()
    yield start(m, x)
    m.linear.__class__ = Doubling
    yield NEW
    m.linear.__class__ = nn.Linear
    yield BACK


@scenario(Kind.MODULE_LIST)
def how_many_layers():
    m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    yield start(m, x)
    m.append(nn.Linear(3, 3))
    yield NEW
    del m._modules["2"]
    yield BACK
    m[0], m[1] = m[1], m[0]
    yield NEW


@scenario(Kind.MODULE_LIST)
def layers_of_a_list_and_a_dict():
    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.list = nn.ModuleList([nn.Linear(3, 3)])
            self.dict = nn.ModuleDict({"a": nn.ReLU()})
            self.parts = nn.ParameterList([torch.ones(3)])

        def forward(self, t):
            for layer in self.list:
                t = layer(t)
            for name, layer in self.dict.items():
                t = layer(t) * len(name)
            for part in self.parts:
                t = t * part
            return t

    m = Layers()
    yield start(m, x)
    m.list.append(nn.Linear(3, 3))
    yield NEW
    m.dict["bb"] = nn.Sigmoid()
    yield NEW
    m.parts.append(torch.full((3,), 2.0))
    yield NEW


@scenario(Kind.NUMBER_THAT_COUNTS)
def a_counter_of_calls():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.step = 0

        def forward(self, t):
            self.step += 1
            return t * 2

    m = Counting()
    yield start(m, x)
    yield SAME
    yield SAME


@scenario(Kind.TIED_PARAMETERS)
def the_same_parameter_twice():
    a, b = nn.Linear(3, 3), nn.Linear(3, 3)
    m = nn.Sequential(a, b)
    yield start(m, x)
    b.weight = a.weight
    yield OTHER
    b.weight = nn.Parameter(torch.ones(3, 3))
    yield BACK


@scenario(Kind.TIED_PARAMETERS)
def two_parameters_that_were_one():
    a, b = nn.Linear(3, 3), nn.Linear(3, 3)
    a.weight = b.weight
    m = nn.Sequential(a, b)
    yield start(m, x)
    b.weight = nn.Parameter(torch.ones(3, 3))
    yield NEW
    b.weight = a.weight
    yield BACK


# ---- tensors ----


@scenario(Kind.TENSOR_SHAPE)
def the_shape_of_a_tensor():
    yield start(lambda t: t.sum(0) * t.shape[0], x)
    yield OTHER.of(x + 1)
    yield NEW.of(torch.ones(3, 3))
    yield BACK.of(x)
    yield NEW.of(torch.ones(3))


@scenario(Kind.TENSOR_DTYPE)
def the_dtype_of_a_tensor():
    yield start(lambda t: t * 2, x)
    yield NEW.of(x.double())
    yield NEW.of(x.int())
    yield BACK.of(x.double())


@scenario(Kind.TENSOR_STRIDES)
def the_strides_of_a_tensor():
    square = torch.arange(9.0).reshape(3, 3)
    yield start(lambda t: (t * 2, t.is_contiguous()), square)
    yield NEW.of(square.t())
    yield BACK.of(square.clone())


@scenario(Kind.TENSOR_DEVICE)
def the_device_of_a_tensor():
    yield start(lambda t: (t * 2, t.device.type), x)
    yield NEW.of(torch.ones(2, 3, device="meta"))
    yield BACK.of(x)


@scenario(Kind.TENSOR_LAYOUT)
def the_layout_of_a_tensor():
    yield start(lambda t: (t.layout, t.to_dense() * 2 if t.layout is not torch.strided else t), x)
    yield NEW.of(x.to_sparse())


@scenario(Kind.TENSOR_STRIDES)
def the_storage_offset_of_a_tensor():
    whole = torch.arange(12.0)
    yield start(lambda t: t * 2, whole[0:6])
    yield OTHER.of(whole[6:12])


@scenario(Kind.TENSOR_REQUIRES_GRAD)
def requires_grad_of_a_tensor():
    leaf = torch.ones(2, 3, requires_grad=True)
    yield start(lambda t: t * 2, torch.ones(2, 3))
    yield NEW.of(leaf)
    yield BACK.of(torch.ones(2, 3))


@scenario(Kind.TENSOR_REQUIRES_GRAD)
def a_leaf_or_not():
    leaf = torch.ones(2, 3, requires_grad=True)
    yield start(lambda t: (t * 2, t.is_leaf), leaf)
    yield NEW.of(leaf * 1)


class Sub(torch.Tensor):
    """A subclass of Tensor without anything of its own."""


@scenario(Kind.TENSOR_CLASS)
def a_subclass_of_tensor():
    yield start(lambda t: t * 2, x)
    yield NEW.of(x.as_subclass(Sub))
    yield BACK.of(x)


@scenario(Kind.TENSOR_CLASS)
def a_parameter_or_a_tensor():
    yield start(lambda t: (t * 2, isinstance(t, nn.Parameter)), x)
    yield NEW.of(nn.Parameter(x, requires_grad=False))


@scenario(Kind.TENSOR_BITS)
def a_conjugate_view():
    c = torch.ones(3, dtype=torch.complex64) * 1j
    yield start(lambda t: (t * 2, t.is_conj()), c)
    yield NEW.of(c.conj())


@scenario(Kind.TENSOR_ALIASING)
def the_same_tensor_twice():
    yield start(lambda a, b: (a + b, a is b), x, x)
    yield NEW.of(x, x.clone())
    yield BACK.of(x, x)


@scenario(Kind.TENSOR_ALIASING)
def the_same_tensor_twice_written_to():
    def f(a, b):
        a = a.detach()
        a.add_(1)
        result = b * 2
        a.sub_(1)
        return result

    one, other = torch.ones(3), torch.ones(3)
    yield start(f, one, other)
    yield NEW.of(one, one)
    yield BACK.of(one, other)


@scenario(Kind.TENSOR_ALIASING)
def views_that_share_a_storage():
    def f(a, b):
        a.add_(1)
        result = b * 2
        a.sub_(1)
        return result

    base, beside = torch.ones(6), torch.ones(6)
    yield start(f, base[:4], beside[2:])
    yield EITHER.of(base[:4], base[2:])
    yield EITHER.of(base[:4], beside[2:])


@scenario(Kind.TENSOR_DATA)
def swapped_tensors():
    a, b = nn.Parameter(torch.ones(3)), nn.Parameter(torch.full((3,), 5.0))
    c = nn.Parameter(torch.full((1, 3), 5.0, dtype=torch.float64))
    yield start(lambda t: t * a, x)
    torch.utils.swap_tensors(a, b)
    yield OTHER
    torch.utils.swap_tensors(a, c)
    yield NEW


@scenario(Kind.TENSOR_DATA)
def a_tensor_whose_data_is_replaced():
    t = torch.ones(2, 3)
    yield start(lambda t: (t * 2, t.shape[0]), t)
    t.data = torch.full((2, 3), 4.0)
    yield OTHER
    t.data = torch.full((4, 3), 4.0)
    yield NEW
    t.resize_(2, 3)
    yield BACK
    t.t_()
    yield NEW


@scenario(Kind.TENSOR_ATTRIBUTE)
def attributes_of_a_tensor():
    t = torch.ones(3)
    t.scale = 2  # type: ignore[attr-defined]
    yield start(lambda t: t * t.scale, t)
    t.other = 1  # type: ignore[attr-defined]
    yield SAME
    t.scale = 3  # type: ignore[attr-defined]
    yield NEW


@scenario(Kind.PARAMETER_GRAD)
def a_gradient():
    p = nn.Parameter(torch.ones(3))
    yield start(lambda t: t * 2 if p.grad is None else t * p.grad, x)
    p.grad = torch.full((3,), 3.0)
    yield NEW
    p.grad = torch.full((3,), 4.0)
    yield OTHER
    p.grad = None
    yield BACK


# ---- global state ----


@scenario(Kind.GRAD_MODE)
def grad_mode():
    p = nn.Parameter(torch.ones(3))
    f = lambda t: (t * p, torch.is_grad_enabled())
    yield start(f, x)
    with torch.no_grad():
        yield NEW
    yield BACK
    with torch.inference_mode():
        yield NEW
    yield BACK


@scenario(Kind.AUTOCAST)
def autocast():
    a = torch.ones(4, 4)
    yield start(lambda t: t @ t, a)
    with torch.autocast("cpu", torch.bfloat16):
        yield NEW
    yield BACK
    with torch.autocast("cpu", torch.float16):
        yield NEW
    with torch.autocast("cpu", enabled=False):
        yield BACK


@scenario(Kind.DEFAULT_DTYPE)
def default_dtype():
    yield start(lambda n: torch.ones(3) * n, 2)
    torch.set_default_dtype(torch.float64)
    yield NEW
    torch.set_default_dtype(torch.float32)
    yield BACK


@scenario(Kind.DEFAULT_DEVICE)
def default_device():
    yield start(lambda n: torch.ones(3) * n, 2)
    torch.set_default_device("meta")
    yield NEW
    torch.set_default_device(None)
    yield BACK
    with torch.device("meta"):
        yield OTHER


@scenario(Kind.DETERMINISM)
def deterministic_algorithms():
    yield start(lambda t: (t + 1, torch.are_deterministic_algorithms_enabled()), x)
    torch.use_deterministic_algorithms(True)
    yield NEW
    torch.use_deterministic_algorithms(False)
    yield BACK


@scenario(Kind.TORCH_MODE)
def a_torch_function_mode():
    yield start(lambda t: torch.mul(t, 2), x)
    with Adding():
        yield NEW
    yield BACK


@scenario(Kind.RANDOMNESS)
def seeds_do_not_matter():
    yield start(lambda t: torch.nn.functional.dropout(t, 0.5), x)
    yield SAME
    torch.manual_seed(7)
    yield SAME


@each(table.scenarios)
def test_change(row):
    play(row)


@each([swapped_tensors, views_that_share_a_storage, the_same_tensor_twice_written_to, training, autocast,
                                     a_buffer, values_of_a_parameter, a_torch_function_mode])  # fmt: skip
def test_change_with_aot_autograd(row):
    play(row, backend="aot_eager")
