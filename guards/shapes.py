"""`ShapesHold`, the kind of guard that checks everything which a trace has decided by sizes and numbers of the call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from framejit.guards.kinds import Change
from framejit.guards.relations import Relation
from framejit.guards.shape_vm import LARGEST, SMALLEST, ShapeProgram
from framejit.guards.source import Call, Path, Source, UserLine
from framejit.guards.tensor_source import TensorOffset, TensorSize, TensorStride
from framejit.guards.tensor_spec import size_of, strides_and_offset
from framejit.quick_dataclass import dataclass

READS = ("size", "stride", "offset", "int", "float")
"""The numbers that can be read from the value at a path; the C++ side knows them by their positions in this tuple."""


STEPS: dict[str, type[Source]] = {"size": TensorSize, "stride": TensorStride, "offset": TensorOffset}
"""For each number that can be read from a tensor, the kind of source that leads to it."""


class Read(NamedTuple):
    """The origin of a program's input. path: the number of the path. what: one of READS. dim: the dimension of a size or stride."""

    path: int
    what: str
    dim: int = 0

    def of(self, value: Any) -> int | float | None:
        """Read the number from a value; None if the value doesn't have it, or if it is an int beyond 64 bits."""
        if self.what == "int":
            return value if type(value) is int and SMALLEST <= value <= LARGEST else None
        if self.what == "float":
            return value if type(value) is float else None
        if self.what == "size":
            return size_of(value, self.dim)
        found = strides_and_offset(value)
        if found is None or self.what == "offset":
            return None if found is None else found[1]
        return found[0][self.dim] if self.dim < len(found[0]) else None

    def name_in_reports(self, path: Source) -> str:
        if self.what in ("int", "float"):
            return path.name_in_reports()
        return f"{path.name_in_reports()}.{'storage_offset()' if self.what == 'offset' else f'{self.what}({self.dim})'}"


@dataclass(frozen=True, eq=False)
class ShapesHold(Relation):
    """The demands of a program on sizes, strides and offsets of tensors, and on ints and floats, are met.

    paths: lead to tensors, ints and floats. source: the first path. reads: the program's inputs. lines: the user's line for each of the expressions that
    the program was made from.
    """

    paths: tuple[Source, ...]
    reads: tuple[Read, ...]
    program: ShapeProgram
    lines: tuple[UserLine | None, ...]
    leaf: ClassVar[str] = "shapes_hold"
    cost: ClassVar[int] = 4
    advice: ClassVar[str | None] = "sizes and numbers for which the program goes the same way share what is compiled; others are compiled once each"

    def sources(self) -> tuple[Source, ...]:
        return self.paths

    def native(self) -> tuple[int, ...]:
        reads = (number for read in self.reads for number in (read.path, READS.index(read.what), read.dim))
        return len(self.reads), *reads, *self.program.native()

    def values(self, call: Call) -> list[int | float | None]:
        """The values of the program's inputs in a call; None if one can't be read."""
        found = [path.fetch(call) for path in self.paths]
        return [read.of(found[read.path]) for read in self.reads]

    def failing(self, call: Call) -> int | None:
        """The number of the instruction with the demand that isn't met; that of the first instruction if an input can't be read."""
        values = self.values(call)
        read = [value for value in values if value is not None]
        return self.program.failing(read) if len(read) == len(values) else self.program.demands[0]

    def check(self, value: Any, call: Call) -> bool:
        values = self.values(call)
        return None not in values and self.failing(call) is None

    def inputs(self) -> list[Source]:
        """The sources of the program's inputs."""
        found = []
        for path, what, dim in self.reads:
            step = STEPS.get(what)
            found.append(self.paths[path] if step is None else self.paths[path].child(step, None if what == "offset" else dim))
        return found

    def names(self) -> Sequence[str]:
        """The user's names for the inputs."""
        return [read.name_in_reports(self.paths[read.path]) for read in self.reads]

    def expected(self) -> str:
        names = self.names()
        return "satisfies " + ", ".join(self.program.text(number, names) for number in self.program.demands)

    def found(self, value: Any, call: Call) -> str:
        number, values, names = self.failing(call), self.values(call), self.names()
        if number is None:
            return "as expected"
        if None in values:
            return "no " + ", no ".join(name for name, value in zip(names, values, strict=True) if value is None)
        return ", ".join(f"{names[i]} is {values[i]!r}" for i in self.program.inputs_of(number))

    def change(self, call: Call) -> Change:
        """The change to which a failure is attributed: the first number on which the demand depends that the call doesn't meet."""
        number, values = self.failing(call), self.values(call)
        assert number is not None
        inputs = [i for i, value in enumerate(values) if value is None] or self.program.inputs_of(number) or (0,)
        read = self.reads[inputs[0]]
        path, step = self.paths[read.path].path(), STEPS.get(read.what)
        return Change(path if step is None else (*path, (step, None if step is TensorOffset else read.dim)), type(self))

    def changed_numbers(self, call: Call) -> list[Path]:
        """The paths of the ints and floats on which the demand depends that a call doesn't meet. In each call that meets it, one of them is another."""
        values = self.values(call)
        number = None if None in values else self.failing(call)
        reads = [] if number is None else [self.reads[index] for index in self.program.inputs_of(number)]
        return [self.paths[read.path].path() for read in reads if read.what not in STEPS]

    def failure(self, number: int) -> tuple[str, str, UserLine | None]:
        """The numbers that the demand of an instruction is about, the demand as text, and the user's line that needs it."""
        names, inputs, origin = self.names(), self.program.inputs_of(number), self.program.origins[number]
        assert origin is not None
        return names[inputs[0]] if inputs else "a size", f"satisfies {self.program.text(number, names)}", self.lines[origin]

    def key(self) -> Any:
        return (tuple(map(id, self.paths)), self.reads, self.program)
