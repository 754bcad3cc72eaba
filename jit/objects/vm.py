"""The protocols that objects see: `VM`, the running trace, and `Codegen`, the writer of the replacement bytecode.

Objects know no opcodes, no frames and no assembler; everything they need of those they ask for here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING:
    from framejit.breaks import Break
    from framejit.effects import Effects
    from framejit.errors import UserFrame
    from framejit.graph.builder import GraphBuilder
    from framejit.graph.state import GlobalModes
    from framejit.guards.kinds import Guard, Relation
    from framejit.guards.recorder import GuardRecorder
    from framejit.guards.source import Source
    from framejit.objects.delivery import Delivery
    from framejit.objects.dictobject import DictObject
    from framejit.objects.object import Object
    from framejit.trail import Trail


class RaiseSignal(Exception):
    """An exception of the traced program on its way to a handler; the interpreter's `Raise` is one. `exc`: its Object."""

    def __init__(self, exc: Object) -> None:
        super().__init__(exc)
        self.exc = exc


class VM(Protocol):
    """One trace: of one frame and everything it calls. Not shared between threads."""

    trail: Trail
    effects: Effects
    graph: GraphBuilder
    modes: GlobalModes
    guards: GuardRecorder

    @property
    def root_source(self) -> Source:
        """The call itself, from which every source starts."""

    directives: tuple[tuple[str, Any], ...]
    """What regions of the program have told the tracer (framejit.directives); changed through the trail."""

    checking: bool
    """Models are compared with the real functions where they are called with constants."""

    resumed: bool
    """The traced frame is a resume function's: it holds what its state brought, and may be all that does."""
    direct: Delivery | None
    """How the result of what is called next becomes that of the program's instruction; None where other code uses it first.

    An operation that delivers results sets it; whoever is in between takes it back before calling.
    """

    def user_stack(self) -> list[UserFrame]:
        """The frames of the traced program, outermost first."""

    def note_handlers(self) -> bool:
        """An operation enters the graph here: whether what it raises has a handler."""

    # Values.

    def wrap(self, value: Any, source: Source) -> Object:
        """A value from outside, unobserved: a LazyObject (or the Object that already stands for this source)."""

    def const(self, value: Any) -> Object:
        """A real immutable value (None, bool, int, float, complex, str, bytes, a type, a C function, dtype, tuple of such ...) without a source."""

    def observe(self, obj: Object) -> Object:
        """The Object of the value's exact type; guards that type on first sight. Idempotent, cheap. Never returns a LazyObject."""

    def guard(self, guard_class: type[Guard], source: Source, *payload: Any) -> None:
        """Rest on a fact about the value that a path leads to: `guard_class(source, <user's line>, *payload)`."""

    def relate(self, guard_class: type[Relation], source: Source, *payload: Any) -> None:
        """Rest on a relation between the values that several paths lead to."""

    def read_setting(self, read: Callable[..., Any], *args: Any) -> Any:
        """What a function in C, or of torch's, says of a setting of the process, guarded. It must be a plain constant."""

    def rest_on_setting(self, read: Callable[..., Any], args: tuple[Any, ...], found: Any) -> Any:
        """As `read_setting`, where the trace itself has changed what `read` gives: `found` is what it gave before."""

    def rest_on_bases(self, cls: type) -> None:
        """Guard which classes a class derives from, and in which order; look-ups of attributes are guarded by what they find."""

    def type_lookup(self, cls: type, name: str) -> Object | None:
        """_PyType_Lookup: the raw class attribute, guarded (found or not) unless the class is immutable; an observed Object."""

    def raw_type_lookup(self, cls: type, name: str) -> Any:
        """A class attribute as _PyType_Lookup finds it, as the real object, or MISSING; guarded as by `type_lookup`."""

    def identity_key(self, obj: Object) -> Any:
        """The dict key of a value whose class hashes by identity; breaks if the class defines `__hash__` or `__eq__` in Python."""

    def tell_apart(self, obj: Object) -> Object:
        """The value itself, as a key by identity; guarded to be none of the others that were one, where it isn't."""

    def globals_of(self, namespace: dict[str, Any]) -> DictObject:
        """The DictObject of a function's globals (source: Pinned(namespace)); one per namespace and trace."""

    @property
    def Raise(self) -> type[RaiseSignal]:
        """The signal by which an exception of the traced program travels."""

    def from_real(self, value: Any) -> Object:
        """An Object, without a source, of a real value that C code has just computed: constants, and lists, tuples, dicts, sets of such."""

    def new_list(self, items: list[Object]) -> Object:
        """A list made by the trace."""

    def new_tuple(self, items: list[Object]) -> Object:
        """A tuple made by the trace."""

    def mapping_items(self, mapping: Object) -> list[tuple[Object, Object]]:
        """The items of a mapping given as `**mapping`."""

    def observe_all(self, objs: Sequence[Object]) -> list[Object]:
        """`observe` each."""

    def shared_values(self) -> list[Object]:
        """Every value from outside that is mutable or compared by identity, as far as it was observed."""

    def same_value(self, a: Object, b: Object, unsure: bool) -> bool:
        """`is` for two values of one type that have real objects; guards what the answer rests on."""

    def name_of(self, obj: Object) -> str:
        """A short text for messages: the qualified name of a function or class, else the type."""

    missing: Any
    """MISSING, for comparisons with what `raw_type_lookup` gives."""

    def new_dict(self, items: list[tuple[Object, Object]]) -> Object:
        """A dict made by the trace."""

    def pin(self, value: Any) -> Object:
        """A real object that something already guarded by identity holds (a property's function): observed, no guard of its own."""

    def own_attribute(self, cls: type, name: str) -> Object | None:
        """The class's own attribute, not an inherited one, as `type_lookup` gives it; guarded (found or not)."""

    def instance_dict_of(self, obj: Object) -> DictObject | None:
        """The instance `__dict__` of an object: wrapped where the object came from outside, new and empty where the trace made it."""

    def load_lazy_attribute(self, module: Any, name: str) -> Any:
        """Have a module that loads its attributes lazily load one; MISSING where it has none."""

    def super_arguments(self) -> tuple[Object, Object]:
        """What zero-argument `super()` takes from its frame: the `__class__` cell's content and argument 0."""

    # Running.

    def call_model(self, model: Callable[..., Object], function: Any, args: Sequence[Object], kwargs: dict[str, Object]) -> Object:
        """Call the model of a real function, turning what it can't do into a break."""

    def call_library(self, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
        """Ask the libraries' rules (registry.library) what a callable without a model means; None: nobody knows it."""

    def holds_apart(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
        is_answer: Callable[[VM, Object], bool], is_steady: Callable[[Guard, Any], bool],
    ) -> bool:  # fmt: skip
        """Whether a call on real values, traced by itself and not as a part of this trace, does nothing but return (or raise) what
        `is_answer` accepts, and observes nothing but what `is_steady` accepts: guards, with the real values that they are about.
        """

    def resume_generator(self, generator: Object, sent: Object, exc: Object | None) -> tuple[Object, bool]:
        """Run a generator on: what it yields and False, or what it returns and True. Raises what it raises."""

    def next_with_end(self, iterator: Object) -> Object | None:
        """`iterator.next()` for what gives the program the exception by which an iterator ends: `next()`, `__next__()`, `yield from`."""

    def hands_on_ends(self) -> bool:
        """Whether an iterator that ends now ends another one in C, for `next_with_end`: no code of the program's lies between them."""

    def waits(self, generator: Object) -> bool:
        """Whether the generator is one that can be stepped: not started yet, or suspended."""

    def object_getattribute(self, obj: Object, name: str) -> Object:
        """`object.__getattribute__`."""

    def object_setattr(self, obj: Object, name: str, value: Object | None) -> None:
        """`object.__setattr__` (None: `__delattr__`)."""

    def call_app_named(self, name: str, args: Sequence[Object]) -> Object:
        """`call_app` of a function of modules/app/support.py."""

    def running_module(self) -> str:
        """The name of the module whose code is running."""

    def place(self) -> tuple[CodeType, int]:
        """The present instruction, which makes what may have to be made natively; breaks where an earlier trace has found (`trace_anew`) that it has."""

    def trace_anew(self, place: tuple[CodeType, int], reason: Break) -> NoReturn:
        """Begin the trace anew, to break at this place."""

    def lets_go(self, values: Iterable[Any]) -> None:
        """A container, a cell or an attribute from outside is to lose these real values (some may be MISSING). Breaks where code runs at their end."""

    def restart_generator(self, generator: Object) -> tuple[Callable[[tuple[Any, ...]], Any], Object]:
        """What makes a generator that waits of a state, and that state."""

    def run_function(self, function: Object, code: CodeType, bound: dict[str, Object | None]) -> Object:
        """Run a Python function's code in a new frame with its parameters bound: inlining. Returns what it returns."""

    def call_app(self, function: FunctionType, args: Sequence[Object], kwargs: dict[str, Object] | None = None) -> Object:
        """Trace a plain Python function of framejit's own (modules/app): its globals are not guarded."""

    def handled_exception(self) -> Object | None:
        """The exception whose handler is running, in this frame or the nearest caller, also outside the trace: what `sys.exception()` tells."""

    def chain_context(self, exc: Object, handled: Object | None) -> None:
        """Make what is being handled (`handled` where it is known) the context of an exception that is raised now."""

    def raise_(self, cls: type[BaseException], *args: Any, **fields: Any) -> NoReturn:
        """Raise an exception in the traced program; args are real constants or Objects, and so are `fields`: `name` and its like."""

    def unsupported(self, reason: Break) -> NoReturn:
        """Stop tracing at the current instruction: a graph break."""

    # CPython's generic slots (objects/abstract.py).

    def generic_getattr(self, obj: Object, name: str) -> Object: ...

    def generic_setattr(self, obj: Object, name: str, value: Object | None) -> None: ...

    def generic_call(self, obj: Object, args: list[Object], kwargs: dict[str, Object]) -> Object: ...

    def generic_iter(self, obj: Object) -> Object: ...

    def generic_next(self, obj: Object) -> Object | None: ...

    def generic_truth(self, obj: Object) -> bool: ...

    def generic_length(self, obj: Object) -> Object: ...


class Codegen(Protocol):
    """The writer of replacement bytecode; a stack machine. Each call emits code."""

    def load(self, obj: Object) -> None:
        """Push any value: constant, captured source, graph output, or a reconstruction (made once, then kept in a local)."""

    def load_const(self, value: Any) -> None:
        """Push a real object held by the code object (any object, not only what marshal knows)."""

    def load_source(self, source: Source) -> None:
        """Push a value from outside, captured by the guard walk as it was when the call began."""

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

    def binary_subscr(self) -> None: ...

    def store_subscr(self) -> None:
        """Pops key, container, value (top first), as STORE_SUBSCR."""

    def load_attr(self, name: str) -> None: ...

    def store_attr(self, name: str) -> None:
        """Pops owner, value (top first), as STORE_ATTR."""

    def delete_attr(self, name: str) -> None: ...

    def pop_top(self) -> None: ...

    def unsupported(self, reason: Break) -> NoReturn:
        """Refuse to build the value: tracing stops with this reason, at the place where the value leaves the trace."""
