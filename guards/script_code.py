"""Turns TorchScript's code of a method into a function of its arguments and of the values that it reads: attributes of its module, and constant tensors.

    def forward(self, x): return x @ self.linear.weight        function(x, weight), and reads == (("linear", "weight"),)

Methods with the same digest of their code compute the same from the same values. TorchScript's types of modules can't be compared instead: `torch.jit.trace`,
for example, makes a new type for each module.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from framejit.guards.script_numbers import compute_with_ints, is_tensor, nodes_of

Path = tuple[str, ...]

REFUSED = {
    "prim::Print": "print()", "prim::PythonOp": "a Python function", "aten::save": "torch.save()", "prim::tolist": "tolist()",
    "aten::tensor": "torch.tensor() of a list", "aten::as_tensor": "torch.as_tensor() of a list", "prim::SetAttr": "an attribute that it sets",
}  # fmt: skip
"""Operations that can't run on tensors without data, or would have side effects there. Operations that make a tensor from a list write to its memory."""
OF_LISTS = frozenset({"aten::tensor", "aten::as_tensor"})
"""Those of these operations that can't be lifted only if they are applied to lists."""
SIMPLE = frozenset({"i", "f", "s", "c", "is", "fs", "ss", "cs", "ty"})
"""Kinds of node attributes that are completely contained in a graph's text: numbers, strings and types."""
LEAST = {torch.int64: torch.int32, torch.float64: torch.int32, torch.complex128: torch.float32, torch.bool: torch.bool}
"""The types of tensors that stand for numbers, and a type of others, with which those give another type than a tensor would."""


class CannotBeLifted(Exception):
    """TorchScript's code can't be turned into a function: it does something that only a call of the method itself can do."""


class ScriptCode:
    """The code of a method or a function of TorchScript.

    arguments: the arguments of its schema, without the module. reads: the paths of the attributes that it reads, from its module on. problem: why it can't be
    replaced by a function of the arguments, the attributes at `reads` and the constants (which are held weakly), or None if it can. operators: the names of
    all operators that it calls.
    """

    __slots__ = ("name", "arguments", "reads", "constants", "digest", "problem", "operators")

    def __init__(self, script: Any) -> None:
        self.name: str = script.name
        self.arguments: list[Any] = list(script.schema.arguments)[owner_of(script) is not None :]
        self.reads: tuple[Path, ...] = ()
        self.digest = ""
        self.problem: str | None = None
        self.operators: frozenset[str] = frozenset()
        self.constants: tuple[weakref.ref[torch.Tensor], ...] = ()
        try:
            graph, self.reads, constants = lifted(script)
        except CannotBeLifted as error:
            self.problem = str(error)
            return
        self.operators = frozenset([node.kind() for node in nodes_of(graph)])
        self.constants = tuple([weakref.ref(constant) for constant in constants])
        numbers = [node.t("value").item() for node in nodes_of(graph) if is_tensor(node)]
        text = torch._C._jit_pass_canonicalize(graph, False).str(False)
        content = (self.name, [argument_key(argument) for argument in self.arguments], self.reads, len(constants), numbers, text)
        self.digest = hashlib.sha256(repr(content).encode()).hexdigest()


def owner_of(script: Any) -> Any:
    """The module of a method; None for a function."""
    return script.owner if isinstance(script, torch._C.ScriptMethod) else None


def argument_key(argument: Any) -> tuple[Any, ...]:
    """A description of an argument with everything that the schema says about it."""
    return argument.name, argument.type.annotation_str, argument.has_default_value() and repr(argument.default_value), argument.kwarg_only


def is_number(tensor: torch.Tensor) -> bool:
    """Return whether a tensor stands for a Python number, as in traced code: for such a tensor, operators choose other result types.

    A bool makes no difference to types, and counts as a number.
    """
    if tensor.dim() > 0 or tensor.device.type != "cpu" or tensor.dtype not in LEAST:
        return False
    return torch.result_type(torch.zeros((), dtype=LEAST[tensor.dtype]), tensor) != tensor.dtype or tensor.dtype is torch.bool


def lifted(script: Any) -> tuple[Any, tuple[Path, ...], list[torch.Tensor]]:
    """The graph of a method or function, with further arguments in the place of the attributes that it reads of its module, and of constants that are tensors.

    Gives the paths of the attributes and the constants too. Raises CannotBeLifted.
    """
    module = owner_of(script)
    try:
        graph = script.inlined_graph
    except RuntimeError as error:
        raise CannotBeLifted("code in C++") from error
    modules: dict[str, tuple[Path, Any]] = {} if module is None else {next(graph.inputs()).debugName(): ((), module)}
    compute_with_ints(graph)
    try:
        aliases = graph.alias_db()
    except RuntimeError as error:
        raise CannotBeLifted("code that TorchScript can't run") from error
    reads: dict[Path, list[Any]] = {}
    constants, gone = [], []
    for node in nodes_of(graph):
        reject(node)
        found = [modules[value.debugName()] for value in node.inputs() if value.debugName() in modules]
        if found:
            if node.kind() != "prim::GetAttr":
                raise CannotBeLifted(f"the use of a module by {node.kind()}")
            (path, owner), name, output = found[0], node.s("name"), node.output()
            gone.append(node)
            inner = owner.getattr(name) if output.type().kind() == "ClassType" else None
            if isinstance(inner, torch._C.ScriptModule):
                modules[output.debugName()] = (*path, name), inner
            elif output.type().kind() != "TensorType" and aliases.has_writers(output):
                raise CannotBeLifted(f"a change of {'.'.join((*path, name))}")
            else:
                reads.setdefault((*path, name), []).append(output)
        elif is_tensor(node) and not is_number(node.t("value")):
            constants.append(node)
            gone.append(node)
    if any(value.debugName() in modules for value in graph.outputs()):
        raise CannotBeLifted("a module that it returns")
    tensors = [node.t("value") for node in constants]
    add_arguments(graph, [*reads.values(), *[[node.output()] for node in constants]])
    for node in reversed(gone):
        node.destroy()
    if module is not None:
        graph.eraseInput(0)
    return graph, tuple(reads), tensors


def add_arguments(graph: Any, replaced: Iterable[Sequence[Any]]) -> None:
    """Add an argument to a graph for each group of values, in whose place it is used."""
    for outputs in replaced:
        argument = graph.addInput("")
        argument.setType(outputs[0].type())
        for output in outputs:
            output.replaceAllUsesWith(argument)


def reject(node: Any) -> None:
    """Raise CannotBeLifted for a node that isn't a function of its inputs, or can't run on tensors without data."""
    kind = node.kind()
    if kind in REFUSED and not (kind in OF_LISTS and next(node.inputs()).type().kind() != "ListType"):
        raise CannotBeLifted(REFUSED[kind])
    for name in node.attributeNames():
        is_constant = kind == "prim::Constant" and is_plain(node.output().toIValue())
        if node.kindOf(name) not in SIMPLE and not is_tensor(node) and not is_constant:
            raise CannotBeLifted(f"a constant of {kind}")


def is_plain(value: Any) -> bool:
    """Return whether a value is a number, a string or the like, or a list or tuple of these, which is completely contained in a graph's text."""
    if type(value) in (list, tuple):
        return all(map(is_plain, value))
    return type(value) in (bool, int, float, complex, str, type(None), torch.device)


MOST_CODES = 1000
CODES: dict[int, tuple[Any, dict[str, ScriptCode]]] = {}
"""The code of methods, by the identity of their module's type, and their names. The type is kept, so that it stays the same object. Guard trees look here, and
have `code_of` find out before a walk what isn't here yet (guards/native/script.cpp)."""


def code_of(script: torch._C.ScriptMethod) -> ScriptCode:
    """The code of a method."""
    of_type = script.owner._type()
    found = CODES.get(id(of_type))
    if found is None:
        while len(CODES) >= MOST_CODES:
            CODES.pop(next(iter(CODES)))
        found = CODES[id(of_type)] = of_type, {}
    code = found[1].get(script.name)
    if code is None:
        code = found[1][script.name] = ScriptCode(script)
    return code
