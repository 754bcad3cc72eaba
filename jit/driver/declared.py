"""The declarations of `compile(shapes=...)` about sizes of tensors among the arguments. They are parsed once, and looked up in each call that is compiled."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import field
from types import FunctionType
from typing import Any

import torch

from framejit.driver.compiled_module import module_in
from framejit.errors import BadArgument, ConstraintViolation, suggestion
from framejit.guards.dynamic import Size, Sizes
from framejit.guards.source import MISSING, Call, Index, Item, Local, Path, Root, Slot, Source
from framejit.program.naming import kind_of
from framejit.quick_dataclass import dataclass
from framejit.report import counted


@dataclass(frozen=True, slots=True)
class OfTensor:
    """The declaration for one tensor. `dims` is its number of dimensions, or None if only some are named."""

    sizes: tuple[tuple[int, Size], ...]
    dims: int | None


@dataclass(frozen=True, slots=True)
class OfContainer:
    """The declarations for the items of a list, tuple or dict, by index or key."""

    items: tuple[tuple[Any, OfTensor | OfContainer], ...]


Declaration = OfTensor | OfContainer


@dataclass(frozen=True, slots=True)
class FoundShapes:
    """The declarations applied to one call.

    Attributes:
        tensors: the declaration for each tensor, by its id.
        varying: the dimensions that are to be symbolic, by path.
    """

    tensors: Mapping[int, Sizes] = field(default_factory=dict)
    varying: Mapping[Path, frozenset[int]] = field(default_factory=dict)


NOTHING = FoundShapes()


@dataclass(frozen=True, slots=True)
class DeclaredShapes:
    """The declarations of a `compile()`, by the arguments' names."""

    arguments: tuple[tuple[str, Declaration], ...] = ()

    def check_names(self, target: Any) -> None:
        """Raise BadArgument for names that aren't arguments of the target."""
        try:
            function = target.forward if isinstance(target, torch.nn.Module) else target.__call__ if isinstance(target, type) else target
            known = inspect.signature(function).parameters
        except (TypeError, ValueError):
            return
        for name, _ in self.arguments:
            if name not in known:
                raise BadArgument(f"compile(): shapes names {name!r}, which is no argument{suggestion(name, known, listing=True)}")

    def keys(self) -> Iterator[Any]:
        """The indices and keys of the items of containers that have declarations."""
        waiting: list[Declaration] = [declared for _, declared in self.arguments]
        while waiting:
            declared = waiting.pop()
            for key, item in declared.items if isinstance(declared, OfContainer) else ():
                yield key
                waiting.append(item)

    def find(self, call: Call) -> FoundShapes:
        """The declarations for a call. Raises ConstraintViolation where a size is another than was declared."""
        if not self.arguments:
            return NOTHING
        tensors: dict[int, Sizes] = {}
        varying: dict[Path, frozenset[int]] = {}
        equal: dict[str, tuple[int, str]] = {}
        sources = argument_sources(call)
        for name, declared in self.arguments:
            for source, tensor, wanted, path in tensors_in(declared, sources.get(name), name, call):
                if wanted.dims not in (None, tensor.dim()):
                    raise ConstraintViolation(f"{path} has {counted(tensor.dim(), 'dimension')}; {wanted.dims} were declared (compile(shapes=...))")
                for dim, size in wanted.sizes:
                    check_size(f"{path}.size({dim})", tensor.size(dim) if dim < tensor.dim() else None, size, equal)
                tensors[id(tensor)] = dict(wanted.sizes)
                varying[source.path()] = frozenset(dim for dim, size in wanted.sizes if size.exact is None)
        return FoundShapes(tensors, varying)


def check_size(what: str, found: int | None, wanted: Size, equal: dict[str, tuple[int, str]]) -> None:
    """Raise ConstraintViolation if a size isn't as declared. `equal` has the sizes of the names that have occurred so far."""
    if found is None or not wanted.allows(found):
        raise ConstraintViolation(f"{what} is {'missing' if found is None else found}; it was declared to be {wanted.describe()} (compile(shapes=...))")
    other, where = equal.setdefault(wanted.name or what, (found, what))
    if other != found:
        raise ConstraintViolation(f"{what} is {found} and {where} is {other}; both were declared to be {wanted.name!r} (compile(shapes=...))")


def argument_sources(call: Call) -> dict[str, Source]:
    """The sources of a call's arguments, by name. A module's call has the arguments of its forward in a tuple and a dict."""
    root, code = Root(), call.function.__code__
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    found: dict[str, Source] = {name: root.child(Local, Slot(i, name)) for i, name in enumerate(code.co_varnames[:count])}
    module = module_in(call.locals[0]) if call.locals else None
    forward = getattr(type(module), "forward", None)
    if module is not None and code.co_varnames[1:count] == ("args", "kwargs") and isinstance(forward, FunctionType) and call.function is not forward:
        names = list(inspect.signature(forward).parameters)[1:]
        found |= {name: found["args"].child(Index, i) for i, name in enumerate(names[: len(call.locals[1])])}
        found |= {name: found["kwargs"].child(Item, name) for name in call.locals[2]}
    return found


def tensors_in(declared: Declaration, source: Source | None, path: str, call: Call) -> Iterator[tuple[Source, torch.Tensor, OfTensor, str]]:
    """The tensors that a declaration is about, with their sources and their names for users. Raises ConstraintViolation if something there isn't a tensor."""
    value = MISSING if source is None else source.fetch(call)
    if source is None or value is None or value is MISSING:
        return
    if isinstance(declared, OfContainer):
        for key, inner in declared.items:
            step: Source = source.child(Index, key) if isinstance(value, (list, tuple)) else source.child(Item, key)
            if step.fetch(call) is MISSING:
                raise ConstraintViolation(f"{path} has no item {key!r}; its shape was declared (compile(shapes=...))")
            yield from tensors_in(inner, step, f"{path}[{key!r}]", call)
    elif isinstance(value, torch.Tensor):
        yield source, value, declared, path
    else:
        raise ConstraintViolation(f"{path} is {kind_of(value)}; the shape of a tensor was declared (compile(shapes=...))")


def parse(shapes: Any) -> DeclaredShapes:
    """Parse the argument `shapes` of `compile()`. Raises BadArgument."""
    if not isinstance(shapes, Mapping) or not all(isinstance(name, str) for name in shapes):
        raise BadArgument(f"compile(): shapes must be a dict of arguments' names, as in {{'x': ('batch', 8)}}; got {shapes!r:.80}")
    named: dict[str, Size] = {}
    return DeclaredShapes(tuple((name, parse_one(spec, f"shapes[{name!r}]", named)) for name, spec in shapes.items() if spec is not None))


def parse_one(spec: Any, where: str, named: dict[str, Size]) -> Declaration:
    """Parse the declaration of a tensor, or of a container of tensors."""
    if isinstance(spec, (tuple, list)):
        if all(is_size(item) for item in spec):
            sizes = [(dim, parse_size(item, f"{where}[{dim}]", named)) for dim, item in enumerate(spec)]
            return OfTensor(tuple((dim, size) for dim, size in sizes if size is not None), len(spec))
        return OfContainer(tuple((i, parse_one(item, f"{where}[{i}]", named)) for i, item in enumerate(spec) if item is not None))
    if isinstance(spec, Mapping) and spec and all(type(dim) is int and dim >= 0 and is_size(item) for dim, item in spec.items()):
        sizes = [(dim, parse_size(item, f"{where}[{dim}]", named)) for dim, item in spec.items()]
        return OfTensor(tuple((dim, size) for dim, size in sizes if size is not None), None)
    if isinstance(spec, Mapping):
        return OfContainer(tuple((key, parse_one(item, f"{where}[{key!r}]", named)) for key, item in spec.items() if item is not None))
    raise BadArgument(
        f"compile(): {where} must say the sizes of a tensor, as in ('batch', 8, None), or be a list, tuple or dict of such; got {spec!r:.80}"
    )


def is_size(item: Any) -> bool:
    """Return whether a value declares a size: a name, a `torch.export.Dim`, an int or None."""
    return item is None or isinstance(item, (str, int, torch.export.Dim))


def parse_size(item: Any, where: str, named: dict[str, Size]) -> Size | None:
    """The declaration of one size; None if nothing is declared about it."""
    if item is None:
        return None
    if isinstance(item, int):
        if type(item) is not int or item < 0:
            raise BadArgument(f"compile(): {where} must be a size; got {item!r}")
        return Size(exact=item)
    size = Size(item) if isinstance(item, str) else Size(item.__name__, bound(item.min), bound(item.max))
    if size.min is not None and size.max is not None and size.min > size.max:
        raise BadArgument(f"compile(): {where} is from {size.min} to {size.max}, which no size is")
    known = named.setdefault(size.name, size)
    if known != size:
        raise BadArgument(f"compile(): {where} is declared to be {size.describe()}, and elsewhere to be {known.describe()}")
    return size


def bound(value: Any) -> int | None:
    """A bound of a `torch.export.Dim`, or None if it is infinite."""
    return int(value) if isinstance(value, int) and value < 2**62 else None
