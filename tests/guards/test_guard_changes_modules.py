"""Guards, models: what people do to modules between calls - parametrize, prune, convert, load, rewire - is noticed; what is beside it isn't."""

from __future__ import annotations

import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from change_kinds import Kind
from neighbours import Beside
from scenarios import BACK, EITHER, NEW, NEW_UNSEEN, OTHER, SAME, Table, each, play, start
from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.utils import parametrizations, parametrize, prune

table = Table()
scenario = table.scenario
x = torch.arange(6.0).reshape(2, 3)


class Block(nn.Module):
    """A module with a parameter, a buffer and a submodule."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("offset", torch.zeros(3))
        self.beside = nn.Linear(3, 3)

    def forward(self, t):
        return self.linear(t) * self.weight + self.offset


def block() -> Any:
    """A Block of a class of its own, always with the same values."""
    torch.manual_seed(0)
    return type("Block", (Block,), {})()


class Doubled(nn.Module):
    def forward(self, t):
        return t * 2


class Shifted(nn.Module):
    def forward(self, t):
        return t + 1


# ---- parameters and buffers ----


@scenario(Kind.PARAMETER_DTYPE)
def dtype_of_a_parameter():
    m = block()
    yield start(m, x)
    m.beside.weight.data = m.beside.weight.data.double()
    yield SAME
    m.weight.data = m.weight.data.double()
    yield NEW
    m.weight.data = m.weight.data.float()
    yield BACK


@scenario(Kind.PARAMETER_DEVICE)
def device_of_a_parameter():
    m = block()
    yield start(lambda t: m(t) if m.linear.weight.device.type == "cpu" else t, x)
    m.beside.to("meta")
    yield SAME
    m.linear.to("meta")
    yield NEW


@scenario(Kind.PARAMETER_LAYOUT)
def strides_of_a_parameter():
    m = block()
    yield start(lambda t: (m(t), m.linear.weight.is_contiguous()), x)
    m.beside.weight.data = m.beside.weight.data.t()
    yield SAME
    m.linear.weight.data = m.linear.weight.data.t()
    yield NEW


@scenario(Kind.PARAMETER_LAYOUT)
def shape_of_a_parameter():
    m = block()
    yield start(m, x)
    m.beside.weight.data = torch.ones(7, 3)
    yield SAME
    m.weight.data = torch.ones(2, 1)
    yield NEW_UNSEEN


@scenario(Kind.PARAMETER_REQUIRES_GRAD)
def requires_grad_of_a_parameter_that_is_used():
    m = block()
    yield start(lambda t: m(t).requires_grad, x)
    m.beside.requires_grad_(False)
    yield SAME
    m.linear.requires_grad_(False)
    yield NEW_UNSEEN
    m.weight.requires_grad_(False)
    yield NEW
    m.requires_grad_(True)
    yield BACK


@scenario(Kind.PARAMETER_TYPE)
def type_of_a_parameter():
    class Special(nn.Parameter):
        pass

    m = block()
    yield start(lambda t: (m(t), type(m.weight).__name__), x)
    m.beside.weight = Special(torch.ones(3, 3))
    yield SAME
    m.weight = Special(torch.ones(3))
    yield NEW


@scenario(Kind.BUFFER_METADATA)
def layout_of_a_buffer():
    m = block()
    yield start(lambda t: t + m.offset.to_dense() if m.offset.layout is not torch.strided else t, x)
    m.weight.data = torch.ones(3) * 2
    yield SAME
    m.offset = torch.ones(3).to_sparse()
    yield NEW


@scenario(Kind.BUFFER_METADATA)
def dtype_device_and_strides_of_a_buffer():
    m = block()
    m.offset = torch.ones(3, 3)
    yield start(lambda t: (t @ m.offset.to(t.dtype).cpu() if m.offset.device.type == "cpu" else t, m.offset.stride()), x)
    m.linear.register_buffer("offset", torch.ones(3))
    yield SAME
    m.offset = torch.ones(3, 3).t()
    yield OTHER if m.offset.is_contiguous() else NEW_UNSEEN
    m.offset = torch.ones(3, 3, dtype=torch.float64)
    yield NEW_UNSEEN
    m.offset = torch.ones(3, 3, device="meta")
    yield NEW


@scenario(Kind.BUFFER_REQUIRES_GRAD)
def requires_grad_of_a_buffer():
    m = block()
    m.requires_grad_(False)
    yield start(lambda t: m(t).requires_grad, x)
    m.offset.requires_grad_(True)
    yield NEW
    m.offset.requires_grad_(False)
    yield BACK


@scenario(Kind.PARAMETER)
def a_buffer_registered_anew():
    m = block()
    yield start(m, x)
    m.register_buffer("unused", torch.ones(1))
    yield SAME
    m.register_buffer("offset", torch.full((3,), 4.0), persistent=False)
    yield OTHER
    m.register_buffer("offset", None)
    yield NEW  # it raises
    m.register_buffer("offset", torch.zeros(3))
    yield BACK


@scenario(Kind.PARAMETER)
def a_parameter_registered_anew():
    m = block()
    yield start(lambda t: t if m.linear.bias is None else t + m.linear.bias, x)
    m.register_parameter("unused", nn.Parameter(torch.ones(1)))
    yield SAME
    m.linear.register_parameter("bias", None)
    yield NEW
    m.linear.register_parameter("bias", nn.Parameter(torch.full((3,), 2.0)))
    yield OTHER


@scenario(Kind.PARAMETER)
def a_parameter_shadowed_by_the_instance():
    m = block()
    yield start(m, x)
    m.__dict__["other"] = torch.full((3,), 9.0)
    yield SAME
    m.__dict__["weight"] = torch.full((3,), 9.0)
    yield NEW
    del m.__dict__["weight"]
    yield BACK


@scenario(Kind.PARAMETER)
def a_parameter_shadowed_by_the_class():
    m = block()
    yield start(m, x)
    type(m).other = 9
    yield SAME
    type(m).weight = 9
    yield NEW
    del type(m).weight
    yield BACK
    type(m).linear = property(lambda self: lambda t: t)
    yield NEW
    del type(m).linear
    yield BACK


@scenario(Kind.MODULE_DICT)
def dicts_of_a_module_replaced():
    m = block()
    yield start(m, x)
    m._parameters = dict(m._parameters)
    yield SAME
    m._parameters = {"weight": nn.Parameter(torch.full((3,), 5.0))}
    yield OTHER
    m._buffers = OrderedDict(offset=torch.ones(3))
    yield NEW  # it is of another type
    m._modules = {"linear": nn.Identity()}
    yield NEW
    del m._modules["linear"]
    yield NEW  # it raises


@scenario(Kind.MODULE_DICT)
def a_whole_module_dict_replaced():
    m, other = block(), block()
    yield start(lambda t: m.linear(t), x)
    m.linear.__dict__ = dict(m.linear.__dict__)
    yield SAME
    other.linear.weight.data += 1
    m.linear.__dict__ = other.linear.__dict__
    yield OTHER
    m.linear.__dict__ = nn.Linear(3, 3, bias=False).__dict__
    yield NEW


@scenario(Kind.PARAMETER_VALUES)
def load_state_dict():
    m, other = block(), block()
    with torch.no_grad():
        other.weight.fill_(3)
        other.linear.bias.fill_(2)
    yield start(m, x)
    m.load_state_dict(other.state_dict())
    yield OTHER
    other.weight.data.fill_(4)
    m.load_state_dict(other.state_dict(), assign=True)
    yield OTHER
    m.load_state_dict(other.double().state_dict(), assign=True)
    yield NEW


@scenario(Kind.PARAMETER_DTYPE)
def converted_to_another_dtype():
    m = block()
    yield start(m, x)
    m.to(torch.bfloat16)
    yield NEW.of(x.bfloat16())
    m.float()
    yield BACK.of(x)
    m.half()
    yield NEW.of(x.half())


@scenario(Kind.PARAMETER_DTYPE)
def converted_by_swapping():
    m = block()
    m.requires_grad_(False)
    yield start(m, x)
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        m.beside.double()
        yield SAME
        m.double()
        yield NEW.of(x.double())
        m.float()
        yield BACK.of(x)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


@scenario(Kind.PARAMETER_LAYOUT)
def converted_to_channels_last():
    torch.manual_seed(0)
    m = nn.Conv2d(3, 4, 2)
    image = torch.ones(1, 3, 4, 4)
    yield start(lambda t: (m(t), m.weight.stride()), image)
    m.to(memory_format=torch.channels_last)
    yield NEW
    m.to(memory_format=torch.contiguous_format)
    yield BACK


@scenario(Kind.PARAMETER_VALUES)
def swapped_parameters_of_modules():
    m, other = block(), block()
    m.requires_grad_(False)
    other.requires_grad_(False)
    other.weight.data.fill_(5)
    yield start(m, x)
    torch.utils.swap_tensors(m.beside.weight, other.beside.weight)
    yield SAME
    torch.utils.swap_tensors(m.weight, other.weight)
    yield OTHER


@scenario(Kind.MODULE_TENSOR)
def a_parameter_of_the_class():
    m = block()
    type(m).gain = torch.ones(3)
    yield start(lambda t: m(t) * m.gain, x)
    type(m).other = torch.ones(3)
    yield SAME
    type(m).gain = torch.full((3,), 2.0)
    yield NEW


# ---- parametrizations, pruning ----


@scenario(Kind.PARAMETRIZATION)
def a_parametrization():
    m = block()
    yield start(lambda t: m(t), x)
    parametrize.register_parametrization(m.beside, "weight", Doubled())
    yield SAME
    parametrize.register_parametrization(m.linear, "weight", Doubled())
    yield NEW
    m.linear.parametrizations.weight.original.data += 1
    yield OTHER
    parametrize.register_parametrization(m.linear, "weight", Shifted())
    yield NEW
    m.linear.parametrizations.weight[1] = Doubled()
    yield NEW
    parametrize.remove_parametrizations(m.linear, "weight", leave_parametrized=False)
    yield BACK


@scenario(Kind.PARAMETRIZATION)
def a_parametrization_of_the_model_itself():
    torch.manual_seed(0)
    m = nn.Linear(3, 3)
    yield start(m, x)
    parametrize.register_parametrization(m, "weight", Doubled())
    yield NEW
    parametrize.remove_parametrizations(m, "weight", leave_parametrized=False)
    yield EITHER  # what was compiled for the class may be gone


@scenario(Kind.PARAMETRIZATION)
def a_parametrization_of_the_model_itself_by_another_name():
    m = block()
    yield start(m, x)
    parametrize.register_parametrization(m, "weight", Doubled())
    yield NEW
    m.parametrizations.weight.original.data += 1
    yield OTHER
    m.parametrizations.weight[0] = Shifted()
    yield NEW


@scenario(Kind.PARAMETRIZATION)
def weight_norm():
    m = block()
    yield start(lambda t: m(t), x)
    parametrizations.weight_norm(m.beside)
    yield SAME
    parametrizations.weight_norm(m.linear)
    yield NEW_UNSEEN
    m.linear.parametrizations.weight.original0.data *= 2
    yield OTHER


@scenario(Kind.PARAMETRIZATION)
def weight_norm_by_hooks():
    m = block()
    yield start(lambda t: m(t), x)
    with pytest.warns(FutureWarning):
        nn.utils.weight_norm(m.linear)
    yield NEW_UNSEEN
    m.linear.weight_g.data *= 2
    yield OTHER
    nn.utils.remove_weight_norm(m.linear)
    yield BACK


@scenario(Kind.PARAMETRIZATION)
def pruning():
    m = block()
    yield start(lambda t: m(t), x)
    prune.l1_unstructured(m.beside, "weight", 0.5)
    yield SAME
    prune.l1_unstructured(m.linear, "weight", 0.5)
    yield NEW
    m.linear.weight_mask.fill_(1)
    yield OTHER
    prune.remove(m.linear, "weight")
    yield BACK


# ---- containers ----


@scenario(Kind.MODULE_LIST)
def a_module_list():
    m = nn.ModuleList([nn.Linear(3, 3), nn.ReLU()])

    def f(t):
        for layer in m:
            t = layer(t)
        return t

    yield start(f, x)
    m.note = 1
    yield SAME
    m[0] = nn.Linear(3, 3)
    yield BACK
    m[1] = nn.Sigmoid()
    yield NEW
    m[1] = nn.ReLU()
    yield BACK
    m.insert(1, nn.Tanh())
    yield NEW
    m.pop(1)
    yield NEW  # torch puts an OrderedDict in place of the dict
    m.extend([nn.Tanh()])
    yield NEW
    del m[2]
    yield BACK


@scenario(Kind.MODULE_LIST)
def one_module_of_a_list():
    m = nn.ModuleList([nn.Linear(3, 3), nn.ReLU()])
    yield start(lambda t: m[0](t), x)
    m[1] = nn.Sigmoid()
    yield SAME
    m[0] = nn.Identity()
    yield NEW


@scenario(Kind.MODULE_LIST)
def a_module_dict():
    m = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.ReLU()})

    def f(t):
        for name, layer in m.items():
            t = layer(t) * len(name)
        return t

    yield start(f, x)
    m["a"] = nn.Linear(3, 3)
    yield BACK
    m["b"] = nn.Sigmoid()
    yield NEW
    m["b"] = nn.ReLU()
    yield BACK
    m["a"] = m.pop("a")
    yield NEW  # the order
    m.clear()
    yield NEW


@scenario(Kind.MODULE_LIST)
def one_module_of_a_dict():
    m = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.ReLU()})
    yield start(lambda t: m["a"](t) if "z" not in m else t, x)
    m["b"] = nn.Sigmoid()
    yield SAME
    m["c"] = nn.Sigmoid()
    yield SAME
    m["z"] = nn.Sigmoid()
    yield NEW


@scenario(Kind.MODULE_LIST)
def a_sequential():
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    yield start(m, x)
    m[0] = nn.Linear(3, 3)
    yield BACK
    m[1] = nn.Tanh()
    yield NEW
    m[1] = nn.ReLU()
    yield BACK
    m.insert(0, nn.Tanh())
    yield NEW
    del m[0]
    yield NEW  # torch puts an OrderedDict in place of the dict


@scenario(Kind.MODULE_LIST)
def parameter_lists_and_dicts():
    some = nn.ParameterList([torch.ones(3), torch.ones(3)])
    named = nn.ParameterDict({"a": torch.ones(3), "b": torch.ones(3)})

    def f(t):
        for part in some:
            t = t * part
        return t + named["a"]

    yield start(f, x)
    named["b"] = torch.ones(5)
    yield SAME
    named["a"] = torch.full((3,), 2.0)
    yield OTHER
    some[0] = nn.Parameter(torch.full((3,), 3.0))
    yield OTHER
    some[1] = nn.Parameter(torch.ones(1))
    yield NEW_UNSEEN
    some.append(torch.full((3,), 5.0))
    yield NEW


@scenario(Kind.SUBMODULE)
def a_submodule_deleted():
    m = block()
    yield start(m, x)
    del m.beside
    yield SAME
    linear = m.linear
    del m.linear
    yield NEW  # it raises
    m.linear = linear
    yield BACK


@scenario(Kind.SUBMODULE)
def a_submodule_wrapped():
    """As adapters do."""

    class Adapter(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base
            self.down = nn.Parameter(torch.full((3, 1), 0.5))
            self.scale = 1.0
            self.active = True

        def forward(self, t):
            result = self.base(t)
            return result + (t @ self.down) * self.scale if self.active else result

    m = block()
    yield start(m, x)
    m.beside = Adapter(m.beside)
    yield SAME
    m.linear = Adapter(m.linear)
    yield NEW
    m.linear.down.data += 1
    yield OTHER
    m.linear.scale = 2.0
    yield NEW
    m.linear.active = False
    yield NEW
    m.linear = m.linear.base
    yield BACK


@scenario(Kind.SUBMODULE, looks_at={Beside.MEMBER: "it goes through all submodules"})
def submodules_that_are_iterated():
    m = block()
    yield start(lambda t: [t * len(name) for name, child in m.named_children()], x)
    m.linear.extra = nn.ReLU()
    yield SAME
    m.more = nn.ReLU()
    yield NEW


@scenario(Kind.PARAMETER, looks_at={Beside.MEMBER: "it goes through all parameters"})
def parameters_that_are_iterated():
    m = block()
    yield start(lambda: sum(p.sum() for p in m.parameters()))
    m.linear.weight.data += 1
    yield OTHER
    m.register_buffer("unused", torch.ones(1))
    yield SAME
    m.linear.extra = nn.Parameter(torch.ones(2))
    yield NEW


# ---- classes of modules ----


@scenario(Kind.MODULE_CLASS)
def a_getattr_of_a_module_class():
    m = block()
    original = nn.Module.__getattr__
    yield start(m, x)
    type(m).__getattr__ = lambda self, name: 3 if name == "weight" else original(self, name)
    yield NEW
    del type(m).__getattr__
    yield BACK


@scenario(Kind.MODULE_CLASS)
def a_getattribute_of_a_module_class():
    m = block()
    yield start(m, x)
    type(m).__getattribute__ = lambda self, name: 3 if name == "weight" else object.__getattribute__(self, name)
    yield NEW
    del type(m).__getattribute__
    yield BACK


@scenario(Kind.MODULE_CLASS)
def a_call_of_a_module_class():
    m = block()
    yield start(lambda t: m(t), x)
    type(m).unrelated = 1
    yield SAME
    type(m).__call__ = lambda self, t: self.forward(t) * 5
    yield NEW
    del type(m).__call__
    yield BACK
    type(m)._call_impl = lambda self, t: self.forward(t) * 6
    yield NEW_UNSEEN
    del type(m)._call_impl
    yield BACK


@scenario(Kind.LIBRARY_CLASS)
def torch_module_itself_patched():
    m = block()
    call, getattribute = nn.Module.__call__, nn.Module.__getattr__
    yield start(lambda t: m(t), x)
    try:
        nn.Module.__call__ = lambda self, *args: call(self, *args) * 2
        yield NEW
    finally:
        nn.Module.__call__ = call
    yield BACK
    try:
        nn.Module.__getattr__ = lambda self, name: 4 if name == "weight" else getattribute(self, name)
        yield NEW
    finally:
        nn.Module.__getattr__ = getattribute
    yield BACK


@scenario(Kind.MODULE_CLASS)
def the_bases_of_a_module_class():
    class Left(nn.Module):
        def forward(self, t):
            return t + 1

    class Right(nn.Module):
        def forward(self, t):
            return t - 1

    class Both(Left):
        pass

    m = Both()
    yield start(lambda t: m(t), x)
    Both.__bases__ = (Right,)
    yield NEW
    Right.forward = lambda self, t: t * 7
    yield NEW
    Both.__bases__ = (Left,)
    yield BACK


@scenario(Kind.FORWARD)
def a_method_of_an_instance():
    m = block()
    yield start(lambda t: m(t), x)
    m.beside.forward = lambda t: t
    yield SAME
    m.forward = types.MethodType(lambda self, t: t * self.weight, m)
    yield NEW
    m.linear.forward = lambda t: t
    yield SAME
    del m.forward
    yield NEW_UNSEEN
    del m.linear.forward
    yield BACK


# ---- hooks ----


@scenario(Kind.FORWARD_HOOK)
def kinds_of_forward_hooks():
    m = block()
    yield start(lambda t: m(t), x)
    m.beside.register_forward_hook(lambda module, args, output: output * 9)
    yield SAME
    handle = m.linear.register_forward_hook(lambda module, args, kwargs, output: output * 2, with_kwargs=True)
    yield NEW
    handle.remove()
    yield BACK
    handle = m.linear.register_forward_hook(lambda module, args, output: output * 3, always_call=True)
    yield NEW
    handle.remove()
    yield BACK
    handle = m.linear.register_forward_hook(lambda module, args, output: output * 4, prepend=True)
    yield NEW
    handle.remove()
    yield BACK


@scenario(Kind.FORWARD_HOOK)
def a_hook_replaced_in_place():
    m = block()
    handle = m.linear.register_forward_hook(lambda module, args, output: output * 2)
    yield start(lambda t: m(t), x)
    m.linear._forward_hooks[handle.id] = lambda module, args, output: output * 3
    yield NEW


@scenario(Kind.FORWARD_HOOK)
def what_a_hook_reads():
    m = block()
    m.linear.factor = 2
    m.linear.register_forward_hook(lambda module, args, output: output * module.factor)
    yield start(lambda t: m(t), x)
    m.linear.other = 2
    yield SAME
    m.linear.factor = 3
    yield NEW


def training_step(m: Any, parameter: Any) -> Callable[[Any], Any]:
    """Return a training step that gives a parameter's gradient. The step has run once, so that there are gradients to be cleared."""

    def step(t):
        m.zero_grad()
        m(t).sum().backward()
        return parameter.grad.clone()

    step(x)
    return step


@scenario(Kind.BACKWARD_HOOK, looks_at={Beside.MEMBER: "zero_grad goes through all parameters"})
def backward_pre_hooks():
    m = block()
    scale = [1]
    step = training_step(m, m.linear.bias)
    yield start(step, x)
    m.beside.register_full_backward_pre_hook(lambda module, grads: None)
    yield SAME
    handle = m.register_full_backward_pre_hook(lambda module, grads: (grads[0] * 2 * scale[0],))
    yield NEW
    handle.remove()
    yield BACK


@scenario(Kind.GLOBAL_HOOK, looks_at={Beside.MEMBER: "zero_grad goes through all parameters"})
def global_backward_hooks():
    m = block()
    step = training_step(m, m.linear.bias)
    yield start(step, x)
    handle = torch_module.register_module_full_backward_hook(lambda module, gin, gout: None)
    try:
        yield NEW_UNSEEN
    finally:
        handle.remove()
    yield BACK


@scenario(Kind.FORWARD_HOOK)
def hooks_that_have_no_part_in_a_call():
    m = block()
    yield start(lambda t: m(t), x)
    m.linear._register_state_dict_hook(lambda *args: None)
    yield SAME
    m.linear.register_load_state_dict_post_hook(lambda *args: None)
    yield SAME
    m._non_persistent_buffers_set.add("offset")
    yield SAME


@scenario(Kind.PARAMETER_GRAD, looks_at={Beside.MEMBER: "zero_grad goes through all parameters"})
def hooks_of_a_parameter():
    m = block()
    step = training_step(m, m.weight)
    yield start(step, x)
    handle = m.weight.register_hook(lambda grad: grad * 3)
    yield NEW
    handle.remove()  # leaves an empty dict where there was none
    yield NEW
    m.weight.register_post_accumulate_grad_hook(lambda p: (p.grad.mul_(5), None)[1])
    yield NEW


@scenario(Kind.PARAMETER_GRAD)
def a_gradient_of_a_parameter():
    m = block()
    m.zero_grad()

    def step(t):
        return m(t) if m.weight.grad is None else m(t) - m.weight.grad

    yield start(step, x)
    m.beside.weight.grad = torch.ones(3, 3)
    yield SAME
    m.weight.grad = torch.ones(3)
    yield NEW
    m.weight.grad = torch.full((3,), 2.0)
    yield OTHER
    m.weight.grad = None
    yield BACK


# ---- flags ----


@scenario(Kind.TRAINING)
def training_of_one_submodule():
    m = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3)).eval()
    yield start(m, x)
    m[1].train()
    yield SAME
    m[0].train()
    yield NEW
    m[0].eval()
    yield OTHER  # the running mean has moved


@scenario(Kind.MODULE_SETTING)
def settings_of_a_batch_norm():
    m = nn.BatchNorm1d(3).eval()
    m.running_mean += 1
    yield start(lambda t: m(t), x)
    m.affine = False
    yield SAME
    m.eps = 0.5
    yield NEW
    m.track_running_stats = False
    yield SAME
    m.running_mean = m.running_var = None
    yield NEW


@scenario(Kind.MODULE_SETTING)
def the_probability_of_a_dropout():
    m = nn.Dropout(0.5).train()

    def f(t):
        torch.manual_seed(0)
        return m(t)

    yield start(f, x)
    m.note = 1
    yield SAME
    m.p = 0.0
    yield NEW
    m.inplace = True
    yield NEW_UNSEEN
    m.eval()
    yield NEW_UNSEEN


@scenario(Kind.MODULE_SETTING)
def settings_of_a_convolution():
    torch.manual_seed(0)
    m = nn.Conv2d(2, 2, 1)
    yield start(m, torch.ones(1, 2, 4, 4))
    m.output_padding = (1, 1)
    yield SAME
    m.stride = (2, 2)
    yield NEW
    m.padding_mode = "circular"
    yield NEW_UNSEEN


@scenario(Kind.MODULE_OBJECT)
def a_configuration_object():
    """As models of libraries have it: one object that many modules read."""

    class Config:
        def __init__(self):
            self.scale, self.kind, self.name = 2, "plain", "model"

    table = {"plain": lambda t: t + 1, "other": lambda t: t - 1}

    class Layer(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.config = config

        def forward(self, t):
            return table[self.config.kind](t) * self.config.scale

    config = Config()
    m = nn.Sequential(Layer(config), Layer(config))
    yield start(m, x)
    config.name = "renamed"
    yield SAME
    config.scale = 3
    yield NEW
    config.kind = "other"
    yield NEW
    table["other"] = lambda t: t * 0
    yield NEW
    table["third"] = lambda t: t
    yield SAME
    m[0].note = 1
    yield SAME
    table["other"] = lambda t: t + 5
    yield NEW
    m[0].config = Config()
    yield NEW


@each(table.scenarios)
def test_change(row):
    play(row)


@each([dtype_of_a_parameter, requires_grad_of_a_buffer, a_parametrization, converted_by_swapping, load_state_dict,
                                     training_of_one_submodule, swapped_parameters_of_modules])  # fmt: skip
def test_change_with_aot_autograd(row):
    play(row, backend="aot_eager")
