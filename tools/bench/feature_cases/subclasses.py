"""Tensor subclasses and modes: what overrides torch's functions, what wraps tensors, and how tensors of other kinds pass through."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from tools.bench.feature_cases.feature import feature


class Tagged(torch.Tensor):
    """A subclass with nothing of its own."""


class Logged(torch.Tensor):
    """A subclass that answers one function itself, and scales the results of another."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.sum:
            return super().__torch_function__(torch.mean, types, args, kwargs or {})
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result * 1 if func in (torch.sin, torch.Tensor.sin) else result


def tagged() -> tuple[Any, ...]:
    return (torch.randn(4, 6).as_subclass(Tagged).requires_grad_(), torch.randn(4, 6, requires_grad=True))


def logged() -> tuple[Any, ...]:
    return (torch.randn(4, 6).as_subclass(Logged), torch.randn(4, 6, requires_grad=True))


@feature("a plain subclass as input", tagged)
def plain_subclass(x: torch.Tensor, y: torch.Tensor) -> Any:
    return (x * 2 + y).relu(), y @ x.T, torch.cat([y, x]), nn.functional.gelu(x)


@feature("a subclass with an override", logged)
def an_override(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.sin(x) + y, torch.sum(x), x.sum(), x.shape[0] * y


@feature("as_subclass and back")
def made_inside(x: torch.Tensor) -> Any:
    y = x.as_subclass(Logged)
    return torch.sum(y), y.as_subclass(torch.Tensor) * 2, (y + 1).sin()


class Scaled(torch.Tensor):
    """A subclass whose tensors have an attribute."""

    scale: float

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(result, Scaled) and not hasattr(result, "scale"):
            result.scale = max([a.scale for a in args if isinstance(a, Scaled)], default=1.0)
        return result


def scaled() -> tuple[Any, ...]:
    x = torch.randn(4, 6).as_subclass(Scaled)
    x.scale = 3.0
    return (x,)


@feature("attributes on tensors of a subclass", scaled)
def with_attributes(x: Any) -> Any:
    y = x + 1
    return y * y.scale, y.scale


class Quiet(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


@feature("overrides switched off", lambda: (torch.randn(4, 6).as_subclass(Quiet), torch.randn(4, 6)))
def switched_off(x: torch.Tensor, y: torch.Tensor) -> Any:
    with torch._C.DisableTorchFunction():
        z = x + y
    return z * 2, x * y, x.T @ y


class Duck:
    """No tensor, but it takes part in torch's functions."""

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args = [a.inner if isinstance(a, Duck) else a for a in args]
        return Duck(func(*args, **(kwargs or {})))


@feature("a class with an override that is no tensor")
def a_duck(x: torch.Tensor) -> Any:
    return (torch.add(x, Duck(x)).inner, torch.cat([Duck(x).inner, x]), torch.mul(Duck(x), 2).inner)


class Doubling(TorchFunctionMode):
    """Doubles what sin gives."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 2 if func in (torch.sin, torch.Tensor.sin) else result


@feature("a TorchFunctionMode entered inside")
def mode_inside(x: torch.Tensor) -> Any:
    with Doubling():
        y = torch.sin(x)
        with Doubling():
            y = y + x.sin()
    return y.sin()


@feature("with torch.device inside", lambda: (torch.randn(4, 6),))
def default_device(x: torch.Tensor) -> Any:
    with torch.device("cpu"):
        y = torch.ones(6)
    with torch.device("meta"):
        z = torch.empty(3)
    return x + y, z.device.type


@feature("torch.set_default_device inside", lambda: (torch.randn(4, 6),))
def default_device_set(x: torch.Tensor) -> Any:
    torch.set_default_device("meta")
    y = torch.empty(3)
    torch.set_default_device(None)
    return x + torch.ones(6), y.device.type


@feature("flags of torch.backends inside", lambda: (torch.randn(4, 6),))
def flags(x: torch.Tensor) -> Any:
    with torch.backends.cudnn.flags(enabled=False):
        y = x @ x.T
    return y.relu(), torch.backends.cudnn.enabled


class TwoTensors(torch.Tensor):
    """A wrapper of two tensors: each operator runs on both."""

    @staticmethod
    def __new__(cls, a: torch.Tensor, b: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, device=a.device, requires_grad=a.requires_grad)

    def __init__(self, a: torch.Tensor, b: torch.Tensor) -> None:
        self.a = a
        self.b = b

    def __tensor_flatten__(self) -> Any:
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return TwoTensors(inner["a"], inner["b"])

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        first = func(*pytree.tree_map_only(TwoTensors, lambda t: t.a, args), **(kwargs or {}))
        second = func(*pytree.tree_map_only(TwoTensors, lambda t: t.b, args), **(kwargs or {}))
        flat, structure = pytree.tree_flatten(first)
        others = pytree.tree_leaves(second)
        return pytree.tree_unflatten([TwoTensors(a, b) if isinstance(a, torch.Tensor) else a for a, b in zip(flat, others)], structure)


@feature("a wrapper subclass as input", lambda: (TwoTensors(torch.randn(4, 6), torch.randn(4, 6)), torch.randn(6, requires_grad=True)))
def wrapper(x: Any, y: torch.Tensor) -> Any:
    z = (x * y).sin() + 1
    return z.a, z.b.sum()


@feature("a wrapper subclass that is returned", lambda: (TwoTensors(torch.randn(4, 6), torch.randn(4, 6)),))
def wrapper_returned(x: Any) -> Any:
    z = x.relu() @ x.T
    return [z.a, z.b], type(z).__name__, isinstance(z, TwoTensors)


@feature("a wrapper subclass made inside", lambda: (torch.randn(4, 6, requires_grad=True),))
def wrapper_inside(x: torch.Tensor) -> Any:
    z = TwoTensors(x * 2, x + 1) * 3
    return z.a, z.b


class Int8(torch.Tensor):
    """A weight in eight bits and its scales, as torchao keeps them."""

    @staticmethod
    def __new__(cls, data: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=dtype, device=data.device)

    def __init__(self, data: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype) -> None:
        self.int_data = data
        self.scale = scale
        self.of_type = dtype

    def __tensor_flatten__(self) -> Any:
        return ["int_data", "scale"], [self.of_type]

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any = None, stride: Any = None) -> Any:
        return cls(inner["int_data"], inner["scale"], context[0])

    def dequantize(self) -> torch.Tensor:
        return self.int_data.to(self.of_type) * self.scale[:, None]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is nn.functional.linear:
            x, weight = args[:2]
            bias = args[2] if len(args) > 2 else kwargs.get("bias")
            y = (x @ weight.int_data.to(x.dtype).T) * weight.scale
            return y if bias is None else y + bias
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return cls(args[0].int_data, args[0].scale, args[0].of_type)
        return func(*pytree.tree_map_only(Int8, lambda t: t.dequantize(), args), **(kwargs or {}))


def quantized() -> tuple[Any, ...]:
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    for layer in (model[0], model[2]):
        weight = layer.weight.detach()
        scale = weight.abs().amax(1) / 127
        data = (weight / scale[:, None]).round().to(torch.int8)
        layer.weight = nn.Parameter(Int8(data, scale, torch.float32), requires_grad=False)
    return model, torch.randn(4, 6)


@feature("a model with quantised weights", quantized)
def quantized_model(model: nn.Module, x: torch.Tensor) -> Any:
    return model(x)


@feature("a quantised weight outside of layers", lambda: (quantized()[0][0].weight, torch.randn(4, 6)))
def quantized_weight(weight: Any, x: torch.Tensor) -> Any:
    return x @ weight.dequantize().T, weight.shape, weight.dtype


@feature("jagged nested tensors as input", lambda: (torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)], layout=torch.jagged),))
def jagged(x: torch.Tensor) -> Any:
    return (x * 2 + 1).relu()


@feature("jagged nested tensors made inside", lambda: (torch.randn(2, 3), torch.randn(4, 3)))
def jagged_inside(a: torch.Tensor, b: torch.Tensor) -> Any:
    return torch.nested.nested_tensor([a, b], layout=torch.jagged).sin()


@feature("masked tensors", lambda: (torch.randn(4, 6),))
def masked(x: torch.Tensor) -> Any:
    return torch.masked.masked_tensor(x, x > 0).sum(1).get_data()


@feature("a sparse matrix as input", lambda: (torch.eye(4).to_sparse(), torch.randn(4, 6, requires_grad=True)))
def sparse(matrix: torch.Tensor, x: torch.Tensor) -> Any:
    return torch.sparse.mm(matrix, x) * 2


@feature("a CSR matrix as input", lambda: (torch.eye(4).to_sparse_csr(), torch.randn(4, 6)))
def sparse_csr(matrix: torch.Tensor, x: torch.Tensor) -> Any:
    return matrix @ x + 1


class Lazily(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LazyLinear(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).relu()


@feature("lazy modules", lambda: (Lazily(), torch.randn(4, 6)))
def lazy(model: nn.Module, x: torch.Tensor) -> Any:
    return model(x)


@feature("a Parameter that is trained on", lambda: (torch.randn(4, 6),))
def parameter_kept(x: torch.Tensor) -> Any:
    weight = nn.Parameter(x * 2)
    return (x * weight).sum(), weight


@feature("torch.Tensor as a constructor")
def constructor(x: torch.Tensor) -> Any:
    return x[:, :3] * torch.Tensor([1.0, 2.0, 3.0]), torch.Tensor(2, 3).shape
