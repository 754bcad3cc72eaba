"""Compiles a program for all calls with sizes in declared ranges, and proves with z3 that each of these calls has an entry."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch

from framejit._runtime import Entry
from framejit.driver.artifact_file import Domain
from framejit.driver.declared import DeclaredShapes, OfContainer, OfTensor, check_size
from framejit.driver.recorded import is_of_arguments, is_of_data
from framejit.errors import BadArgument, FramejitError
from framejit.guards.dynamic import Size
from framejit.guards.input_sets import Undecided, negations
from framejit.program.naming import kind_of
from framejit.quick_dataclass import dataclass
from framejit.user.exploring.conditions import Conditions
from framejit.user.exploring.example_inputs import ExampleInputs, argument_names
from framejit.user.exploring.regions import MOST_ELEMENTS, Sizes, holds, smallest_sizes, symbols_of, text_of
from framejit.user.precompiling.record import RecordedProgram

MOST_REGIONS = 64
"""The most sets of sizes for which the program is compiled."""


@dataclass(frozen=True)
class CompiledRegion:
    """A set of sizes for which the program was compiled once.

    Attributes:
        guards: conditions on the sizes.
        entry: the entry for these sizes; None if an older entry serves them, or none does.
        raises: the error that the program raises there, in words, with the sizes that were tried; empty if it returns.
        unproved: why the artifact isn't known to have an entry for all of these sizes.
    """

    guards: tuple[Any, ...]
    entry: Entry | None = None
    raises: str = ""
    unproved: tuple[str, ...] = ()


class DeclaredDomain:
    """All calls that differ from an example call only in declared sizes. Each size that varies has the name that it was declared by."""

    def __init__(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: DeclaredShapes) -> None:
        self.shapes = shapes
        shapes.check_names(target)
        named = {name: args[place] if isinstance(place, int) else kwargs[place] for place, name in argument_names(target, args, kwargs).items()}
        for name, _ in shapes.arguments:
            if name not in named:
                raise BadArgument(f"precompile(): shapes declares {name!r}, which the example call doesn't pass")
        declared = [found for name, each in shapes.arguments for found in tensors_in(each, name, named[name])]
        varying: dict[str, list[int]] = {}
        sizes: dict[str, Size] = {}
        names: dict[tuple[int, int], str] = {}
        equal: dict[str, tuple[int, str]] = {}
        for path, tensor, wanted in declared:
            if wanted.dims not in (None, tensor.dim()):
                raise BadArgument(f"precompile(): {path} has {tensor.dim()} dimensions, and shapes declares {wanted.dims}")
            for dim, size in wanted.sizes:
                check_size(f"{path}.size({dim})", tensor.size(dim) if dim < tensor.dim() else None, size, equal)
                if size.exact is None:
                    varying.setdefault(path, []).append(dim)
                    names.setdefault((id(tensor), dim), size.name)
                    sizes[size.name] = size
        self.example = renamed(ExampleInputs(target, args, kwargs, varying), names, sizes)

    def described(self, raising: Sequence[str], unproved: Sequence[str]) -> Domain:
        """The domain in words."""
        calls = []
        for tensor in self.example.tensors:
            shape = [tensor.symbols.get(dim, str(size)) for dim, size in enumerate(tensor.example.shape)]
            calls.append(f"{tensor.name} of ({', '.join(shape)}{',' if len(shape) == 1 else ''})")
        bounds = [f"{name} is from {lower or 0} {'on' if upper is None else f'to {upper}'}" for name, (lower, upper) in self.example.bounds.items()]
        return Domain(tuple(calls), tuple(bounds), tuple(raising), tuple(unproved))


def tensors_in(declared: OfTensor | OfContainer, path: str, value: Any) -> Iterator[tuple[str, torch.Tensor, OfTensor]]:
    """The tensors that a declaration is about, with their names. Raises BadArgument if something there isn't a plain tensor."""
    if isinstance(declared, OfContainer):
        for key, inner in declared.items:
            try:
                item = value[key]
            except (LookupError, TypeError):
                raise BadArgument(f"precompile(): {path} has no item {key!r}, whose shape was declared") from None
            yield from tensors_in(inner, f"{path}[{key!r}]", item)
    elif type(value) is torch.Tensor and value.layout is torch.strided:
        yield path, value, declared
    elif value is not None:
        raise BadArgument(f"precompile(): {path} is {kind_of(value)}; the shape of a plain tensor was declared")


def renamed(example: ExampleInputs, names: Mapping[tuple[int, int], str], sizes: Mapping[str, Size]) -> ExampleInputs:
    """An example whose varying sizes have the names that are given for the tensors' ids and dimensions, and the bounds of these names."""
    example.tensors = [
        dataclasses.replace(tensor, symbols={dim: names[id(tensor.example), dim] for dim in tensor.symbols}) for tensor in example.tensors
    ]  # fmt: skip
    example.sizes = {name: tensor.example.size(dim) for tensor in example.tensors for dim, name in tensor.symbols.items()}
    example.bounds = {name: (sizes[name].min or 0, sizes[name].max) for name in example.sizes}
    return example


class DomainCompiler:
    """Compiles a program for one set of sizes after another, until none is left in the domain."""

    def __init__(self, program: RecordedProgram, domain: DeclaredDomain) -> None:
        self.program = program
        self.domain = domain
        self.example = domain.example
        self.regions: list[CompiledRegion] = []
        self.unproved: dict[str, None] = {}

    def compile_all(self) -> Domain:
        """Compile for all sizes, and prove that all are served."""
        left: deque[tuple[Any, ...]] = deque([()])
        while left:
            assumed = left.popleft()
            region = self._region_for(assumed)
            if region is not None:
                left.extend((*assumed, *failing) for failing in negations(region.guards))
        self.unproved |= dict.fromkeys(text for region in self.regions for text in region.unproved)
        if not self.unproved:
            self._prove()
        return self.domain.described([region.raises for region in self.regions if region.raises], list(self.unproved))

    def _region_for(self, assumed: Sequence[Any]) -> CompiledRegion | None:
        """The region of some sizes that satisfy what is assumed, which is compiled if it isn't known yet; None if there are no such sizes, or none that can be
        compiled."""
        try:
            sizes = smallest_sizes(self.example, assumed, self.example.sizes)
        except Undecided:
            self.unproved[f"z3 finds no sizes for which {' and '.join(map(str, assumed))}, and doesn't rule them out"] = None
            return None
        if sizes is None:
            return None
        known = next((region for region in self.regions if holds(region.guards, sizes)), None)
        if known is not None:
            return known
        if len(self.regions) == MOST_REGIONS:
            self.unproved[f"it was compiled for {MOST_REGIONS} sets of sizes, and there are more, as {text_of(sizes)}"] = None
            return None
        if self.example.elements(sizes) > MOST_ELEMENTS:
            self.unproved[f"tensors of {self.example.elements(sizes)} elements are too large to be tried: {text_of(sizes)}; declare a lower maximum"] = None
            return None
        region = self._compile(sizes)
        self.regions.append(region)
        return region

    def _compile(self, sizes: Sizes) -> CompiledRegion:
        """Compile for these sizes."""
        (args, kwargs), tensors = self.example.make(sizes)
        left_out = self.program.recorded.left_out
        known, raised = len(left_out), ""
        try:
            self.program.compile(args, kwargs, {id(made): frozenset(like.symbols) for made, like in zip(tensors, self.example.tensors, strict=True)})
        except FramejitError:
            raise
        except Exception as error:
            raised = f"{type(error).__qualname__}: {error} (tried with {text_of(sizes)})"
            del left_out[known:]
        call, entry = self.program.compiled or (None, None)
        if call is None or entry is None or not entry.spec.guards:
            symbols = symbols_of(self.example)
            here = tuple([sympy.Eq(symbols[name], value) for name, value in sizes.items()])
            if raised or call is None:  # the latter: an entry serves these sizes already
                return CompiledRegion(here, None, f"{text_of(sizes)}: {raised}" if raised else "")
            return CompiledRegion(here, None, "", (f"{text_of(sizes)}: the call runs uncompiled",))
        conditions = Conditions(self.example, call, tensors, {})
        found = conditions.of(entry.spec.guards)
        where = " and ".join(dict.fromkeys(condition.text for condition in found)) or "all sizes"
        data = [guard.source.name_in_reports() for guard in entry.spec.guards if is_of_data(guard.source) and is_of_arguments(guard.source, call)]
        unproved = [f"{where}: {left.why}" for left in left_out[known:]]
        unproved += [f"what depends on {text} isn't known" for text in dict.fromkeys(conditions.unfollowed + data)]
        return CompiledRegion(tuple([condition.expression for condition in found]), entry, f"{where}: {raised}" if raised else "", tuple(unproved))

    def _prove(self) -> None:
        """Ask z3 for sizes in the domain that no entry of the artifact is for, and for which the program wasn't seen to raise. There are none, if all went
        well: entries that later ones have superseded aren't needed."""
        kept = [region for region in self.regions if region.raises or region.entry in self.program.recorded.entries]
        outside = [sympy.Or(*[sympy.Not(guard) for guard in region.guards], evaluate=False) for region in kept]
        try:
            sizes = smallest_sizes(self.example, outside)
        except Undecided:
            self.unproved["z3 could neither prove nor refute in its time that all sizes have an entry"] = None
        else:
            if sizes is not None:
                self.unproved[f"no entry is for {text_of(sizes)}"] = None

