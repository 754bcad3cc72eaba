"""The view that objects have of the running trace and of the writer of the replacement bytecode: small protocols, composed to `VM` and `Codegen` in object.py.

Objects know no opcodes, no frames and no assembler; everything they need of those is declared here. The protocols take and return Objects, and
Objects are defined in terms of them: so the type of an Object is a parameter here, `Obj`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import CodeType
from typing import Any, NoReturn, Protocol, TypeVar

from framejit.breaks import Break
from framejit.errors import CHECK_FAILED, UserFrame
from framejit.guards.kinds import Guard
from framejit.guards.recorder import GuardRecorder
from framejit.guards.relations import Relation
from framejit.guards.source import Source
from framejit.objects.core.delivery import Delivery
from framejit.trail import Trail

Obj = TypeVar("Obj")
Obj_co = TypeVar("Obj_co", covariant=True)
Obj_contra = TypeVar("Obj_contra", contravariant=True)


class FrameView(Protocol[Obj_co]):
    """A frame of the traced program, as objects see it."""

    code: CodeType

    as_object: Any
    """The frame as the program sees it, once it has asked for it."""

    @property
    def code_of_program(self) -> CodeType:
        """The code as the program has it: for a resume function, that of the function that it continues."""

    @property
    def lineno(self) -> int:
        """The line being executed."""

    @property
    def has_ended(self) -> bool:
        """True if the frame has returned or raised, for good."""

    @property
    def globals(self) -> Obj_co:
        """The globals of its function."""

    @property
    def builtins(self) -> Obj_co:
        """The builtins of its function."""

    @property
    def namespace(self) -> Obj_co | None:
        """The dict of the names that a class body, or code that `exec()` runs, stores; None for functions."""

    @property
    def locals(self) -> Sequence[Obj_co | None]:
        """The values of its variables, by slot, the parameters first; None if unbound, a cell if closures share the variable."""

    @property
    def stack(self) -> Sequence[Any]:
        """The values on its stack, and NULLs and other things that only the interpreter puts there."""

    @property
    def cells(self) -> Mapping[str, Obj_co]:
        """The cells of the variables that closures share, by name."""

    def callers(self) -> Iterable[FrameView[Obj_co]]:
        """This frame and those from which it was called, innermost first."""

    def direct_caller(self) -> FrameView[Obj_co] | None:
        """The frame that has called this one without any code between them that has a frame in uncompiled code; None if that isn't known."""


class EffectsView(Protocol[Obj_contra]):
    """The changes that the trace makes outside itself, in order."""

    number: int
    """The number of changes so far, those of values that had changed before included."""

    def mutated(self, obj: Obj_contra) -> None:
        """Announce that the state of a value from outside differs from the real one; its `replay` makes it so. Idempotent."""

    def is_mutated(self, obj: Obj_contra) -> bool:
        """Return whether the value from outside was announced as mutated."""

    def at_start(self, effect: Any) -> None:
        """Add an effects.Effect that is replayed before the graph runs and doesn't depend on it. `mutated` must be called for it too."""

    def at_end(self, effect: Any) -> None:
        """Add an effects.Effect that is no value's mutation, to be replayed after all mutations."""

    def in_order(self, effect: Any) -> None:
        """Add an effects.Effect that is no value's mutation, to be replayed after the mutations that have begun before it."""

    def all(self) -> Sequence[Any]:
        """All effects so far, including the values from outside that have been changed."""

    def mutated_since(self, mark: int) -> Iterator[Any]:
        """The values from outside that have been announced as mutated since a position of the trail."""

    def mutated_before_and_since(self, mark: int) -> Iterator[Any]:
        """The values from outside whose one replay belongs both before and after a position of the trail."""

    def has_changed_since(self, mark: int) -> bool:
        """Return whether anything outside the trace has been changed since a position of the trail, whether for the first time or again."""


class Autograd(Protocol[Obj_contra]):
    """The rules of a graph that is one operator to autograd. Breaks if the program would notice that it is."""

    def asked_about(self, obj: Obj_contra, what: str) -> None:
        """Autograd is about to be asked about this tensor itself (a hook on it, its own gradient), after the graph that the trace has made so far."""

    def asked_for_history(self, obj: Obj_contra) -> None:
        """The program asks which operator has made this tensor."""


class ShapesView(Protocol[Obj_co]):
    """The symbolic sizes and numbers of the trace."""

    def make_symbolic(self, number: Any) -> None:
        """Give a number from outside a SymInt or SymFloat, if it is one of those that are to be symbolic."""

    def make_comparable(self, number: Any) -> bool:
        """Give a symbol to an Object that stands for a number from outside in comparisons. False if these have to fix the number."""

    def number(self, value: Any) -> Obj_co:
        """The Object of a SymInt that an operator has returned."""

    def computed(self, operation: str, parts: Sequence[Any], value: float) -> Any:
        """The SymInt or SymFloat of an operation on symbolic and known numbers, whose result in Python is `value`; None if it has none."""

    def decide(self, relation: Callable[[Any, Any], Any], left: Any, right: Any) -> bool:
        """Return whether a relation holds between SymInts and ints: the outcome is guarded."""

    def decide_float(self, relation: str, number: Any, other: float) -> bool:
        """Return whether a relation holds between a symbolic float from outside and a known float: the outcome is guarded."""

    def decide_floats(self, relation: str, left: Any, right: Any) -> bool | None:
        """Return whether a relation holds between two numbers, one of which is a float: the outcome is guarded. None if guards can't compute one, or if one
        is nan."""

    def by_formula(self, number: Any) -> Any:
        """The SymInt of an int that torch can't compute from symbols, but guards can; None if they can't."""

    def is_computed(self, number: Any) -> bool:
        """Return whether guards can compute a float, which is then guarded not to fail, and to be finite."""

    def fits(self, number: Any) -> bool:
        """Return whether compiled code may compute a symbolic number: no intermediate result exceeds 64 bits."""

    def node_of(self, number: Any) -> Any:
        """The node that gives a symbolic number."""


class UnbackedView(Protocol):
    """The numbers of the trace that depend on the data of tensors."""

    def beside(self, number: Any) -> AbstractContextManager[None]:
        """Inside the block, operators go into the graph that contains the node of a number."""

    def may_begin(self) -> bool:
        """Return whether a number read from a tensor can be in the graph that is being made."""

    def may_check(self) -> bool:
        """Return whether the graph can check a condition here that may turn out not to hold."""

    def value(self, number: Any) -> Any:
        """The value that a number must have, given what the graph checks; None if that isn't determined."""

    def least(self, number: Any) -> int | None:
        """The lower bound of an int; None if none is known."""

    def checks(self, condition: Any, is_sure: bool = False, message: str = CHECK_FAILED) -> bool:
        """Have the graph raise if a condition doesn't hold, and rely on it; False if that can't be in the graph. `is_sure`: it always holds."""

    def settled(self, number: Any) -> Any:
        """The value of an int or bool that is computed from sizes of slices with known bounds; None if it isn't known."""

    def ask(self, number: Any) -> NoReturn:
        """Break the trace, because the program needs the value of a number."""


class KnownDataView(Protocol):
    """The data of tensors that the trace knows (graph/known_data.py)."""

    def of(self, node: Any) -> Any:
        """The result of a node: a tensor that nothing may write to, or a number. MISSING if it isn't known."""

    def number(self, number: Any) -> Any:
        """A number from such data. MISSING if it isn't known."""

    def symbolic(self, number: Any) -> Any:
        """The int from such data that varies, and is a symbol; None if it has none."""

    def is_int(self, tensor: Any) -> bool:
        """Return whether a tensor has no dimensions, and an int in it that guards can read."""

    def outcome(self, condition: Any) -> bool | None:
        """The value of a bool given the data that inputs have when the call begins, which is guarded; None if that doesn't determine it."""

    def truth_of_tensor(self, tensor: Any) -> bool | None:
        """Return whether the one element of the tensor that a node returns is true, given such data; None if that doesn't determine it."""


class FunctionModesView(Protocol[Obj_co]):
    """The modes and overrides that are asked before one of torch's functions becomes an operator (graph/function_modes.py)."""

    def asks_modes(self) -> bool:
        """Return whether a mode is asked before each function."""

    def asks_subclasses(self) -> bool:
        """Return whether arguments are asked."""

    def hidden(self) -> AbstractContextManager[None]:
        """Inside the block, no mode or argument is asked: for tensors that stand for something else."""

    def without_innermost(self) -> AbstractContextManager[Obj_co]:
        """Inside the block, the innermost mode, which it gives, is not in force."""


class Graph(Protocol[Obj]):
    """The graph that operators on tensors go into."""

    def is_inner(self) -> bool:
        """Return whether the innermost graph isn't the outermost."""

    @property
    def function_modes(self) -> FunctionModesView[Obj]:
        """Modes and overrides."""

    @property
    def shapes(self) -> ShapesView[Obj]:
        """The symbolic sizes and numbers."""

    @property
    def unbacked(self) -> UnbackedView:
        """The numbers that depend on data."""

    @property
    def known(self) -> KnownDataView:
        """The data that is known."""

    def size(self, obj: Any, dim: int) -> Obj:
        """A size of a tensor as a number for the program."""

    def number_node(self, function: Callable[..., Any], operands: Sequence[Obj], sym: Any) -> Any:
        """The node of arithmetic on numbers at least one of which is symbolic, in the graph that contains it."""

    module_stack: dict[str, tuple[str, type]]
    """The modules whose calls are being inlined: path -> (path, class)."""

    @property
    def autograd_node(self) -> Autograd[Any] | None:
        """The rules that hold if the backend makes one operator of the graph; None if it doesn't."""

    def object_of(self, fake: Any) -> Obj | None:
        """The Object of a fake tensor that the trace knows."""

    def check_identity(self, *objects: Any) -> None:
        """The program asks whether a tensor is the same as another. Restarts the trace if the graph has a copy of it instead."""

    def check_record(self, obj: Any) -> None:
        """The program asks what autograd knows about a tensor. Breaks if its fake doesn't know."""

    def input(self, source: Source, tensor: Any) -> Obj:
        """The Object of a real tensor, which becomes an input of the graph."""

    def call(self, op: str, target: Callable[..., Any] | str, args: Sequence[Obj], kwargs: dict[str, Obj]) -> Obj:
        """Run an operation in the graph as a node with this `op` and this target. Raises NotConstant if an argument can't be an argument of a node.

        Only torchcall.py calls it.
        """

    def refresh(self) -> None:
        """Make the fake tensors again if undoing has made them stale."""


class AnswersView(Protocol[Obj_contra]):
    """The answers that the program gets when it asks whether it is compiled, and their number."""

    def here(self) -> tuple[tuple[UserFrame, ...], bool]:
        """The program's present place, and the answer there: whether it is compiled."""

    def decide(self, asked: tuple[UserFrame, ...]) -> None:
        """The program branches here on an answer that it got at a place."""

    def has_changed(self, obj: Obj_contra) -> None:
        """A value from outside changes here: it is noted if the program decides that by an answer."""

    def count(self) -> int:
        """The number of places at which the program has been told that it is compiled."""

    def after_raise_inside(self, count: int) -> None:
        """A function that is to become an inner graph raises. If the program has been told at more places than `count` that it is compiled,
        the trace is restarted, and gives the other answer there."""


class Record(Protocol[Obj]):
    """The results of a trace, and the program's declarations to it."""

    trail: Trail
    guards: GuardRecorder

    @property
    def effects(self) -> EffectsView[Obj]:
        """The changes that the trace makes outside itself."""

    @property
    def graph(self) -> Graph[Obj]:
        """The graph under construction."""

    @property
    def root_source(self) -> Source:
        """The call itself, from which every source starts."""

    directives: tuple[tuple[str, Any], ...]
    """The directives of the regions that the program is in (framejit.said.directives); changed through the trail."""

    @property
    def answers(self) -> AnswersView[Obj]:
        """The answers that the program gets when it asks whether it is compiled."""

    checking: bool
    """True if models are compared with the real functions when they are called with constants."""

    resumed: bool
    """True if the traced frame is a resume function's: it holds what its state brought, possibly as its only holder."""

    def guard(self, guard_class: type[Guard], source: Source, *payload: Any) -> None:
        """Guard a fact about the value that a path leads to: `guard_class(source, <user's line>, *payload)`."""

    def relate(self, guard_class: type[Relation], source: Source, *payload: Any) -> None:
        """Guard a relation between the values that several paths lead to."""


class Values(Protocol[Obj]):
    """The Objects of values: the source of each, and which are the same."""

    def wrap(self, value: Any, source: Source) -> Obj:
        """A value from outside, unobserved: a LazyObject (or the Object that already stands for this source)."""

    def observe(self, obj: Obj) -> Obj:
        """The Object of the value's exact type; guards that type on first sight. Idempotent, cheap. Never returns a LazyObject."""

    def const(self, value: Any) -> Obj:
        """A real immutable value (None, bool, int, float, complex, str, bytes, a type, a C function, dtype, tuple of such ...) without a source."""

    def from_real(self, value: Any) -> Obj:
        """An Object, without a source, of a real value that C code has just computed: a constant, or a list, tuple, dict or set of such. Objects
        are taken as they are, and may be among its items."""

    def pin(self, value: Any) -> Obj:
        """The Object of a real object that something already guarded by identity holds (a property's function): observed, without a guard of its own."""

    def identity_key(self, obj: Obj) -> Any:
        """The dict key of a value whose class hashes by identity; breaks if the class defines `__hash__` or `__eq__` in Python."""

    def tell_apart(self, obj: Obj, is_fixed: bool = False) -> Obj:
        """The value itself, as a key by identity; guarded to be none of the other such keys, unless it is one of them. `is_fixed`: its identity is guarded."""


class Classes(Protocol[Obj]):
    """The attributes of the real classes of values. Both their presence and their absence are guarded, unless the class is immutable."""

    def type_lookup(self, cls: type, name: str) -> Obj | None:
        """A class attribute as _PyType_Lookup finds it: an observed Object."""

    def raw_type_lookup(self, cls: type, name: str) -> Any:
        """A class attribute as _PyType_Lookup finds it: the real object, or MISSING."""

    def store_on_class(self, cls: type, name: str, value: Obj) -> None:
        """Set an attribute of a class. Breaks if that does more than set it."""

    def rest_on_bases(self, cls: type) -> None:
        """Guard the bases of a class and their order; look-ups of attributes are guarded by what they find."""


class PlainCode(Protocol):
    """Functions of the program whose code shows that it makes no difference when they run."""

    def computes_number(self, function: Any, is_fixed: bool) -> bool:
        """Return whether calls of a function with numbers change nothing, and read nothing but numbers. `is_fixed`: apart from globals, they read nothing that
        can change."""

    def only_stores_constants(self, code: CodeType) -> bool:
        """Return whether a function of one argument does nothing but set attributes of it, to constants and to empty lists, dicts and sets."""


class Running(Protocol[Obj]):
    """The frames that run: those of functions, and those of generators."""

    def caller(self, level: int) -> tuple[FrameView[Obj], int] | None:
        """The traced frame at a number of calls above the innermost one, not counting framejit's own, and its line. None if there are not so many."""

    @property
    def plain_code(self) -> PlainCode:
        """Answers questions about functions of the program by their code alone."""

    @property
    def frame(self) -> FrameView[Obj] | None:
        """The innermost frame."""

    def uses_up_result(self) -> bool:
        """Return whether the innermost frame's next instructions take what they need from the result of this call, without keeping it."""

    def run_function(self, function: Obj, bound: dict[str, Obj | None], delivery: Delivery | None = None, namespace: Obj | None = None) -> Obj:
        """Run a Python function in a new frame with its parameters bound: inlining. Returns what it returns; `delivery` is how that becomes the
        result of the program's instruction, None if other code uses it first. `namespace`: of the body of a class statement, and of code that `exec()` runs."""

    def call_app(self, function: Callable[..., Any], args: Sequence[Obj], kwargs: dict[str, Obj] | None = None) -> Obj:
        """Trace a plain Python function of framejit's own (jit/plain): its globals are not guarded."""

    def resume_generator(self, generator: Obj, sent: Obj, exc: Obj | None) -> tuple[Obj, bool]:
        """Resume a generator: the yielded value and False, or the returned value and True. Raises what it raises."""

    def rebuild_generator(self, generator: Obj) -> tuple[Callable[[tuple[Any, ...]], Any], Obj]:
        """The function that makes a suspended generator, and the state that it makes the generator from."""

    def next_with_end(self, iterator: Obj) -> Obj | None:
        """`iterator.next()` for callers that pass the exception by which an iterator ends to the program: `next()`, `__next__()`, `yield from`."""

    def hands_on_ends(self) -> bool:
        """Return whether an iterator that ends now ends another one in C, for `next_with_end`: no code of the program runs between them."""

    def handled_exception(self) -> Obj | None:
        """The exception whose handler is running, in this frame or the nearest caller, also outside the trace: the result of `sys.exception()`."""

    def chain_context(self, exc: Obj, handled: Obj | None) -> None:
        """Set `exc.__context__` as CPython's `_PyErr_SetObject` does: nothing if the two are the same, and a cycle is broken. If `handled` isn't
        known, it is what the innermost frame or the caller of the traced frame is handling."""


class Stopping(Protocol):
    """The ways out of an instruction."""

    def raise_(self, cls: type[BaseException], *args: Any, **fields: Any) -> NoReturn:
        """Raise an exception in the traced program; args are real constants or Objects, and so are `fields`, such as `name`."""

    def unsupported(self, reason: Break) -> NoReturn:
        """Stop tracing at the current instruction: a graph break."""

    def attempt(self, run: Callable[[], Any]) -> Any:
        """The result of `run`; None, with all changes undone, if that is None or if it stops the trace."""

    def place(self) -> tuple[CodeType, int]:
        """The present instruction. It makes something that may have to be made natively: breaks if an earlier trace has found (`restart`) that it must be."""

    def restart(self, place: tuple[CodeType, int], reason: Break) -> NoReturn:
        """Restart the trace, to break at this place."""

    def ahead(self, run: Callable[[], object], reason: Break) -> NoReturn:
        """Call `run` for real, and restart the trace, which finds the result; or breaks here, if `run` raises an exception."""


class CodeWriter(Protocol[Obj_contra]):
    """The writer of replacement bytecode; a stack machine. Each call emits code."""

    def load(self, obj: Obj_contra) -> None:
        """Push any value: constant, captured source, graph output, or a reconstruction (made once, then kept in a local)."""

    def load_const(self, value: Any) -> None:
        """Push a real object held by the code object (any object, not only those that marshal knows)."""

    def load_node(self, node: Any) -> None:
        """Push the runtime value of an FX node: an output of the graph."""

    def build_tuple(self, n: int) -> None: ...

    def build_list(self, n: int) -> None: ...

    def build_map(self, n: int) -> None:
        """Pops n key/value pairs."""

    def build_set(self, n: int) -> None: ...

    def call_const(self, function: Callable[..., Any], n: int) -> None:
        """Pop n arguments, call a real function on them, push its result."""

    def binary_op(self, symbol: str) -> None: ...

    def store_subscr(self) -> None:
        """Pops key, container, value (top first), as STORE_SUBSCR."""

    def load_attr(self, name: str) -> None: ...

    def store_attr(self, name: str) -> None:
        """Pops owner, value (top first), as STORE_ATTR."""

    def delete_attr(self, name: str) -> None: ...

    def pop_top(self) -> None: ...

    def unsupported(self, reason: Break) -> NoReturn:
        """Refuse to build the value: tracing stops with this reason, at the place where the value leaves the trace."""
