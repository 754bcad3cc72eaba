"""A trace: runs a call's bytecode on what is known of its values, and writes an FX graph and the guards.

Mirrors jit/ceval/loop.py, jit/tracing/tracer.py, jit/objects/torchcall.py, jit/objects/registry.py and jit/graph/builder.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from operator import getitem
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from .bytecode import Break, decode
from .guards import CALL, CONSTANTS, FACTS, MODULE_LISTS, Call, Guard, Source, global_of, hooks_of, signature_of
from .operations import OPERATIONS, Jump, Return
from .values import Constant, Method, Object, Outside, Sequence, Tensor, Value

OPERATORS = {id(function) for function in torch.overrides.get_testing_overrides()}
"""What may become a node: the functions and methods that torch lets a subclass override. (jit/objects/torchfunctions.py)"""
LOOKS = {"size", "dim", "numel", "stride", "is_floating_point", "__len__"}
"""Methods of tensors that give what a guard on a tensor holds."""
PURE = {id(function) for function in (abs, min, max, int, float, bool, str, round, range)}
"""Functions that are called on constants while tracing. (jit/objects/registry.py: pure)"""
PLAIN: set[Any] = {object.__getattribute__, ModuleType.__getattribute__}
"""The lookups of attributes that look into an object's fields and its class, and nowhere else."""
MOST_ITERATIONS = 10_000


class Frame:
    """One activation of a function: variables, value stack, and the operation that runs. (jit/ceval/frame.py)

    Operands stay on the stack until the operation has succeeded. So a frame that stops stands at the beginning of the operation at fault.
    """

    def __init__(self, function: Object, locals: dict[str, Value]) -> None:
        self.function = function
        self.locals = locals
        self.stack: list[Value | None] = []
        self.ops = decode(function.value.__code__)
        self.pc = 0

    @property
    def where(self) -> str:
        return f"{Path(self.function.value.__code__.co_filename).name}:{self.ops[self.pc].line}"


class Tracer:
    """One trace of one call: the frame of the function, and all that the trace leaves behind."""

    def __init__(self, call: Call) -> None:
        self.graph = fx.Graph()
        self.inputs: list[Source] = []
        self.guards: dict[tuple[str, Source], Guard] = {}
        self.seen: dict[Source, Value] = {}
        self.trail: list[Callable[[], Any]] = []  # how to undo what has been done (jit/trail.py)
        self.fakes = FakeTensorMode()
        self.last_input: fx.Node | None = None
        self.iterations = 0
        self.where = "every call"
        self.guard("torch", CALL, call)
        function = Object(CALL.attribute("function"), call.function)
        self.frame = Frame(function, {name: Outside(CALL.variable(name), value) for name, value in call.locals.items()})

    # The loop

    def run(self, frame: Frame) -> Value:
        """What the frame returns. Raises Break where tracing stops."""
        while True:
            op = frame.ops[frame.pc]
            operation = OPERATIONS.get(op.name)
            if operation is None:
                raise Break(f"{op.name} isn't traced")
            self.where = frame.where
            base = len(frame.stack) - operation.count(op)
            try:
                answer = operation.trace(self, frame, op.arg, *frame.stack[base:])
            except Return as result:
                return result.args[0]
            frame.stack[base:] = operation.pushed(answer)
            target = answer.index if isinstance(answer, Jump) else frame.pc + 1
            self.iterations += target <= frame.pc
            if self.iterations > MOST_ITERATIONS:
                raise Break("too many iterations")
            frame.pc = target
            if frame is self.frame:
                self.trail.clear()  # the operations of called frames are part of the call, and undone with it

    def run_to_the_end(self) -> Value | Break:
        """What the function returns; or why tracing stops at `frame.pc`, after what the operation there has done is undone."""
        try:
            return self.run(self.frame)
        except Break as stop:
            while self.trail:
                self.trail.pop()()
            return stop

    # Values, and guards on what is asked about them

    def guard(self, kind: str, source: Source, value: Any) -> None:
        self.guards.setdefault((kind, source), Guard(kind, source, FACTS[kind](value), self.where))

    def known(self, value: Any) -> Value:
        """A value that the program's code or an operation on constants has given."""
        if type(value) is tuple:
            return Sequence(None, tuple, [self.known(each) for each in value])
        if type(value) not in CONSTANTS:
            raise Break(f"a {type(value).__name__} that the trace has made")
        return Constant(None, value)

    def observe(self, value: Value) -> Value:
        """The value, with a guard on its type if nothing has asked for it before."""
        if not isinstance(value, Outside):
            return value
        if value.source not in self.seen:
            self.seen[value.source] = self.wrap(value.value, value.source)
        return self.seen[value.source]

    def wrap(self, value: Any, source: Source) -> Value:
        if type(value) in (torch.Tensor, nn.Parameter):
            self.guard("tensor", source, value)
            # Placeholders come first in a graph. They aren't undone: an input that nothing uses does no harm.
            with self.graph.inserting_after(self.last_input) if self.last_input else self.graph.inserting_before():
                self.last_input = self.graph.placeholder(f"input_{len(self.inputs)}")
            self.inputs.append(source)
            return Tensor(source, self.last_input, self.fakes.from_tensor(value))
        if type(value) in (list, tuple):
            self.guard("length", source, value)
            return Sequence(source, type(value), [Outside(source.item(i), each) for i, each in enumerate(value)])
        if type(value) in CONSTANTS:
            self.guard("equals", source, value)
            return Constant(source, value)
        self.guard("is", source, value)
        return Object(source, value)

    def constant(self, value: Value) -> Any:
        """What a value is as a constant. The data of tensors isn't known."""
        value = self.observe(value)
        if isinstance(value, Constant):
            return value.value
        if isinstance(value, Sequence):
            return value.cls(map(self.constant, value.items))
        raise Break("a decision by the data of a tensor" if isinstance(value, Tensor) else "a value that isn't constant")

    def is_none(self, value: Value) -> Any:
        """None for None, and something else for all other values."""
        value = self.observe(value)
        return value.value if isinstance(value, Constant) else value

    def items(self, value: Value) -> list[Value]:
        """The items of what is iterated over or unpacked."""
        value = self.observe(value)
        if isinstance(value, Sequence):
            return list(value.items)
        if isinstance(value, Constant) and type(value.value) in (range, torch.Size):
            return [Constant(None, each) for each in value.value]
        if isinstance(value, Object) and type(value.value) in MODULE_LISTS:
            self.guard("length", value.source, value.value)
            return [Outside(value.source.item(i), each) for i, each in enumerate(value.value)]
        raise Break(f"the items of a {type(value).__name__}")

    # Operators

    def operator(self, function: Callable[..., Any], args: list[Value], kwargs: dict[str, Value]) -> Value:
        """The result of an operator: computed now on constants, or a node of the graph. (jit/objects/torchcall.py: torch_call)"""
        values = Sequence(None, tuple, [*args, *kwargs.values()])
        inputs: list[Tensor] = []
        fakes = self.argument(values, lambda tensor: inputs.append(tensor) or tensor.fake)  # type: ignore[func-returns-value]
        try:
            with self.fakes if inputs else nullcontext():  # type: ignore[attr-defined]
                result = function(*fakes[: len(args)], **dict(zip(kwargs, fakes[len(args) :])))
        except Exception as error:
            raise Break(f"{name_of(function)} raises {type(error).__name__}") from error  # the real call says what the program sees
        if not isinstance(result, torch.Tensor) and (not inputs or function is getattr or name_of(function) in LOOKS):
            return self.known(result)
        nodes = self.argument(values, lambda tensor: tensor.node)
        return self.of_node(result, function, nodes[: len(args)], dict(zip(kwargs, nodes[len(args) :])))

    def argument(self, value: Value, of_tensor: Callable[[Tensor], Any]) -> Any:
        """What an operator is given for a value: `of_tensor` of each tensor, and constants as they are."""
        value = self.observe(value)
        if isinstance(value, Tensor):
            return of_tensor(value)
        if isinstance(value, Sequence):
            return value.cls(self.argument(each, of_tensor) for each in value.items)
        return self.constant(value)

    def of_node(self, fake: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
        """The value of a node, which is only made if it gives tensors."""
        tensors = list(fake) if type(fake) in (tuple, list) else [fake]
        if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
            raise Break(f"{name_of(function)} gives a {type(fake).__name__}")
        if getattr(torch.Tensor, name_of(function), None) is function:
            node = self.graph.call_method(name_of(function), args, kwargs)
        else:
            node = self.graph.call_function(function, args, kwargs)
        self.trail.append(lambda: self.graph.erase_node(node))
        if isinstance(fake, torch.Tensor):
            return Tensor(None, node, fake)
        return Sequence(None, type(fake), [self.of_node(tensor, getitem, (node, i), {}) for i, tensor in enumerate(tensors)])

    # Names and attributes

    def load_global(self, function: Object, name: str) -> Value:
        try:
            return Outside(function.source.global_name(name), global_of(function.value, name))
        except KeyError:
            raise Break(f"the name {name} isn't defined") from None

    def attribute(self, owner: Value, name: str) -> Value:
        """An attribute, found as `object.__getattribute__` finds it, without running code of the program's. (jit/objects/object.py)"""
        if isinstance(owner, Outside) and type(owner.value) is list:  # its length doesn't matter
            self.guard("type", owner.source, owner.value)
            return Method(None, owner, name)
        owner = self.observe(owner)
        if isinstance(owner, Tensor):
            if name in ("shape", "dtype", "device", "ndim", "T", "mT"):
                return self.operator(getattr, [owner, self.known(name)], {})
        if not isinstance(owner, Object):
            cls = torch.Tensor if isinstance(owner, Tensor) else owner.cls if isinstance(owner, Sequence) else type(self.constant(owner))
            if not callable(getattr(cls, name, None)):
                raise Break(f"the attribute {name} of a {cls.__name__}")
            return Method(None, owner, name)
        value, source = owner.value, owner.source
        in_class = None if isinstance(value, ModuleType) else inspect.getattr_static(type(value), name, None)
        if type(value).__getattribute__ in PLAIN and not hasattr(type(in_class), "__set__"):
            fields = getattr(value, "__dict__", {})
            tables = [fields, *(fields.get(table, {}) for table in ("_parameters", "_buffers", "_modules") if isinstance(value, nn.Module))]
            for table in tables:
                if name in table:
                    return Outside(source.attribute(name), table[name])
            if isinstance(in_class, FunctionType):
                return Method(None, owner, name, Outside(source.attribute(name).attribute("__func__"), in_class))
        raise Break(f"the attribute {name} of a {type(value).__name__}")

    # Calls

    def call(self, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """The result of a call: by a model, as a node, or by running the function's own frame."""
        function = self.observe(function)
        if isinstance(function, Method):
            if function.function is not None:
                return self.call(function.function, [function.receiver, *args], kwargs)
            return self.call_method(function.receiver, function.name, args, kwargs)
        if not isinstance(function, Object):
            raise Break("a call of what is no function")
        target = function.value
        if target is len and not isinstance(self.observe(args[0]), Tensor):
            return self.known(len(self.items(args[0])))
        if id(target) in PURE and not kwargs:
            return self.operator(target, args, kwargs)
        if id(target) in OPERATORS and not target.__name__.endswith("_") and "out" not in kwargs:
            return self.operator(target, args, kwargs)
        if isinstance(target, nn.Module) and type(target).__call__ is nn.Module.__call__ and not hooks_of(target):
            self.guard("hooks", function.source, target)  # then torch's _call_impl comes to a call of forward (jit/objects/nnmoduleobject.py)
            return self.call(self.attribute(function, "forward"), args, kwargs)
        if type(target) is FunctionType:
            return self.inline(function, args, kwargs)
        raise Break(f"a call of {name_of(target)}")

    def call_method(self, receiver: Value, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if isinstance(receiver, Tensor):
            return self.call(Object(CALL, getattr(torch.Tensor, name, None)), [receiver, *args], kwargs)
        if isinstance(receiver, Sequence) and name == "append" and receiver.source is None and not isinstance(args[0], Sequence):
            receiver.items.append(args[0])
            self.trail.append(receiver.items.pop)
            return Constant(None, None)
        raise Break(f"the method {name} of a {type(receiver).__name__}")

    def inline(self, function: Object, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Runs a function of the program's in a frame of its own. A break in it is taken at the call, by the frame outside."""
        signature = signature_of(function.value)
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise Break("a call with the wrong arguments") from error
        locals = {}
        for name, parameter in signature.parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise Break(f"a call of a function with *{name}")
            locals[name] = bound[name] if name in bound else Outside(function.source.default(name), parameter.default)
        where = self.where
        try:
            return self.run(Frame(function, locals))
        finally:
            self.where = where


def name_of(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)
