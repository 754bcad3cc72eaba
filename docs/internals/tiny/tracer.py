"""A trace: runs a call's bytecode on what is known of its values, and writes an FX graph and the guards.

Mirrors jit/ceval/loop.py, jit/tracing/tracer.py, jit/objects/tensors/torchcall.py, jit/objects/core/registry.py and jit/graph/builder.py.
"""

import inspect
from collections import ChainMap
from collections.abc import Callable
from operator import getitem
from types import FunctionType, MethodDescriptorType, ModuleType
from typing import Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from .bytecode import Break, decode
from .operations import NULL, ON_OBJECTS, Frame
from .values import CALL, CONSTANTS, Constant, Guard, Iterator, Known, Object, Outside, Sequence, Tensor, Value, facts_of, signature_of

PURE = (abs, bool, float, int, max, min, range, round, str)
OPERATORS = {id(function) for function in (*torch.overrides.get_testing_overrides(), *PURE) if not function.__name__.endswith("_")}
"""Functions whose calls become nodes, or constants if all arguments are: those that torch lets a subclass override, and some builtins."""
LOOKS = {"getattr", "size", "dim", "numel", "stride", "is_floating_point"}
"""Functions whose results are constants for tensors too: they ask only for facts that a guard on the tensor holds."""
CONTAINERS = {list, tuple, nn.Sequential, nn.ModuleList}
PLAIN: set[Any] = {cls.__getattribute__ for cls in (object, ModuleType, list, tuple, dict)}
"""The lookups of attributes that look into an object's fields and its class, and nowhere else."""


def global_of(function: FunctionType, name: str) -> Any:
    value = ChainMap(function.__globals__, function.__builtins__)[name]
    if type(value).__name__ == "lazy_import":  # of 3.15: the program's own LOAD_GLOBAL imports the module
        raise Break(f"the lazy import of {name}")
    return value


def default_of(function: FunctionType, name: str) -> Any:
    return signature_of(function).parameters[name].default


def hooks_of(module: nn.Module) -> int:
    """Counts the hooks that a call of a module runs: its own, and those of all modules."""
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return sum(len(getattr(module, name)) + len(getattr(nn.modules.module, f"_global{name}")) for name in names)


class Tracer:
    """One trace of one call, and all that it leaves behind. It is the virtual machine that works on Values.

    `inputs`: the sources of the graph's placeholders. `seen`: a Value for each source that has been asked about. `frames`: those that run,
    the outermost first. `trail`: functions that take back what the current operation of the outermost frame has done. (jit/trail.py)
    """

    def __init__(self) -> None:
        self.graph, self.fakes = fx.Graph(), FakeTensorMode()
        self.inputs, self.guards, self.seen, self.frames, self.trail = [], [], {}, [], []

    # The loop

    def trace(self, function: FunctionType, locals: dict[str, Any]) -> tuple[Value | Frame | None, str]:
        """Returns the function's result; or the frame at the operation that splits the call; or None, if the call can't be split. And the reason.

        Whatever goes wrong stops tracing: a Break, a name without a value, an operator that raises. What the operation at fault has done is
        undone; later it runs natively, and the program sees what it does then.
        """
        variables = {name: Outside(value, source=CALL.attribute("locals").then("{1}", getitem, name)) for name, value in locals.items()}
        try:
            return self.run(Object(function, source=CALL.attribute("function")), variables), "return"
        except Exception as stop:
            while self.trail:
                self.trail.pop()()
            if self.frames and self.frames[0].op.name in ON_OBJECTS:
                return self.frames[0], f"{type(stop).__name__}: {stop}  # {self.frames[-1].op.where}"
            return None, f"uncompiled, {type(stop).__name__}: {stop}"

    def run(self, function: Object, locals: dict[str, Value]) -> Value:
        """Returns the function's result. If tracing stops, each frame is before the operation at fault."""
        frame = Frame(function, decode(function.value.__code__), locals)
        self.frames.append(frame)
        while frame.op.name != "RETURN_VALUE":
            frame.step(self)
            if len(self.frames) == 1:
                self.trail.clear()  # the operations of called frames are part of the call, and undone with it
        return self.frames.pop().stack.pop()

    # Values, and guards on what is asked about them

    def observe(self, value: Value) -> Value:
        """The value, with a guard on it if nothing has asked for it before."""
        if isinstance(value, Outside) and value.source not in self.seen:
            self.guards.append(Guard(value.source, facts_of(value.value), self.frames[-1].op.where))
            self.seen[value.source] = self.wrap(value)
        return self.seen[value.source] if isinstance(value, Outside) else value

    def wrap(self, value: Outside) -> Value:
        """The kind of Value that stands for it, now that it is guarded."""
        if type(value.value) in (torch.Tensor, nn.Parameter):
            self.inputs.append(value.source)
            return Tensor(self.graph.placeholder(f"input_{len(self.inputs)}"), self.fakes.from_tensor(value.value), source=value.source)
        return (Constant if type(value.value) in CONSTANTS else Object)(value.value, source=value.source)

    def known(self, value: Any) -> Value:
        """Stands for a value that the program's code or an operation on constants has given."""
        if type(value) not in CONSTANTS | {tuple}:
            raise Break(f"a {type(value).__name__} that the trace has made")
        return Constant(value)

    def constant(self, value: Value, of_tensor: Callable[[Tensor], Any] | None = None) -> Any:
        """The value as a constant. The data of tensors isn't known: each is replaced by the result of `of_tensor`."""
        value = self.observe(value)
        if isinstance(value, Constant):
            return value.value
        if isinstance(value, Tensor) and of_tensor:
            return of_tensor(value)
        sequence = self.sequence(value)
        return sequence.cls(self.constant(each, of_tensor) for each in sequence.parts)

    truth = constant

    def is_none(self, value: Value) -> bool:
        return getattr(self.observe(value), "value", value) is None

    def sequence(self, value: Value, length: int | None = None) -> Sequence:
        """The items of what is iterated over, or unpacked into `length` variables. How many there are is guarded."""
        value = self.observe(value)
        if isinstance(value, Constant) and type(value.value) in (range, tuple, torch.Size) and len(value.value) <= 1000:
            value = Sequence(tuple, parts=list(map(self.known, value.value)))
        if isinstance(value, Object) and type(value.value) in CONTAINERS:
            self.observe(Outside(len(value.value), source=value.source.then("len({})", len)))
            items = [Outside(each, source=value.source.then("{}[{}]", getitem, i)) for i, each in enumerate(value.value)]
            value = Sequence(type(value.value), source=value.source, parts=items)
        if not isinstance(value, Sequence) or length not in (None, len(value.parts)):
            raise Break(f"what is in a {type(getattr(value, 'value', value)).__name__}")
        return value

    def iterator(self, value: Value) -> Value:
        return Iterator(parts=[self.sequence(value)])

    def next(self, iterator: Value) -> Value:
        if not isinstance(iterator, Iterator):
            raise Break("the position of an iterator from outside")
        position, items = iterator.position, iterator.parts[0].parts
        if position == len(items):
            return NULL
        iterator.position += 1
        self.trail.append(lambda: setattr(iterator, "position", position))
        return items[position]

    # Operators

    def operator(self, function: Callable[..., Any], *args: Value, **kwargs: Value) -> Value:
        """The result of an operator: computed now on constants, or a node of the graph. (jit/objects/tensors/torchcall.py: torch_call)"""

        def given(of_tensor: Callable[[Tensor], Any] | None) -> tuple[list[Any], dict[str, Any]]:
            return [self.constant(each, of_tensor) for each in args], {key: self.constant(each, of_tensor) for key, each in kwargs.items()}

        fakes, named = given(lambda tensor: tensor.fake)
        with self.fakes:
            result = function(*fakes, **named)
        several = type(result) in (tuple, list) and id(function) in OPERATORS and all(isinstance(each, torch.Tensor) for each in result)
        if isinstance(result, torch.Tensor) or several:
            return self.of_node(result, function, *given(lambda tensor: tensor.node))
        if function.__name__ not in LOOKS:
            given(None)  # no tensor may be among them
        return self.known(result)

    compare = operator
    """The condition of a branch that follows it: it asks for the truth."""

    def of_node(self, fake: Any, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Value:
        node = self.graph.call_function(function, tuple(args), kwargs)
        self.trail.append(lambda: self.graph.erase_node(node))
        if isinstance(fake, torch.Tensor):
            return Tensor(node, fake)
        return Sequence(type(fake), parts=[self.of_node(each, getitem, [node, i], {}) for i, each in enumerate(fake)])

    # Names and attributes

    def load_global(self, function: Object, name: str) -> Value:
        return Outside(global_of(function.value, name), source=function.source.then("{1}", global_of, name))

    def attribute(self, owner: Value, name: str) -> Value:
        return self.method(owner, name, called=False)[1]

    def method(self, owner: Value, name: str, called: bool = True) -> tuple[Value, Value]:
        """A method's function and its receiver, if it is `called`; NULL and the value of another attribute. No code of the program runs."""
        owner = self.observe(owner)
        if isinstance(owner, Tensor) and name in ("shape", "dtype", "device", "ndim", "T", "mT"):
            return NULL, self.operator(getattr, owner, Constant(name))
        cls = torch.Tensor if isinstance(owner, Tensor) else owner.cls if isinstance(owner, Sequence) else type(owner.value)
        in_class = inspect.getattr_static(cls, name, None)
        if isinstance(owner, Object):
            if cls.__getattribute__ not in PLAIN:
                raise Break(f"an attribute of a {cls.__name__}")
            fields = getattr(owner.value, "__dict__", {})
            fields = ChainMap(fields, *(fields[table] for table in ("_parameters", "_buffers", "_modules") if issubclass(cls, nn.Module)))
            if name in fields and not hasattr(type(in_class), "__set__"):
                return NULL, Outside(fields[name], source=owner.source.attribute(name))
            if called and type(in_class) is FunctionType:
                return Outside(in_class, source=owner.source.attribute(name).attribute("__func__")), owner
        if called and type(in_class) in (FunctionType, MethodDescriptorType) and not name.startswith("__"):
            return Object(in_class), owner
        raise Break(f"the attribute {name} of a {cls.__name__}")

    # Calls

    def call(self, function: Any, /, *args: Value, **kwargs: Value) -> Value:
        """The result of a call: by a model, as a node, or by running the function's own frame."""
        function = self.observe(function)
        target = getattr(function, "value", function)
        match target, args:
            case list.append, [Sequence(source=None, parts=parts), Tensor() | Known() as item] if not kwargs:
                parts.append(item)
                self.trail.append(parts.pop)
                return Constant(None)
        if target is len:
            return Constant(len(self.sequence(*args).parts))
        if id(target) in OPERATORS and "out" not in kwargs:
            return self.operator(target, *args, **kwargs)
        if isinstance(target, nn.Module) and type(target).__call__ is nn.Module.__call__ and not hooks_of(target):
            self.observe(Outside(0, source=function.source.then("the hooks of {}", hooks_of)))  # then torch's _call_impl calls forward
            return self.call(*(each for each in self.method(function, "forward") if each is not NULL), *args, **kwargs)
        if type(target) is FunctionType and function.source:
            return self.inline(function, args, kwargs)
        raise Break(f"a call of {getattr(target, '__name__', type(target).__name__)}")

    def inline(self, function: Object, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
        """Runs a function of the program's in a frame of its own. Where that stops, the frame outside stops at the call."""
        signature, then = signature_of(function.value), function.source.then
        locals = {name: Outside(each.default, source=then("default {1}", default_of, name)) for name, each in signature.parameters.items()}
        return self.run(function, locals | signature.bind(*args, **kwargs).arguments)
