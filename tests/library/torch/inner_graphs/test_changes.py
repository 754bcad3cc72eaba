"""Changes made in code that torch runs later, again, or as a function of an operator: every kind of change at every place, against eager."""

from __future__ import annotations

import ast
import random
import sys
from pathlib import Path

import pytest
import torch
from mutations import KINDS, Box, numbers
from named import Programs
from torch._higher_order_ops import map as map_
from torch._higher_order_ops import scan, while_loop
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

import framejit
from framejit.trail import Trail

PLACES = Programs()
"""By name: takes a leaf and a change, and gives a loss. The change is made somewhere on the way, or when the loss is differentiated."""
place = PLACES.add
ALL_KINDS = ("hook", "checkpointed")
"""Places at which the fast tests make every change: those of which other places ask alike."""
ALL_PLACES = ("generator", "map_of_lambda", "sent", "attribute_of_tensor", "list_in_value_from_outside", "cell")
"""Changes that the fast tests make at every place."""
NATIVE = ("cond", "mapped", "scanned", "looped", "linearized", "hessian")
"""Places whose native code takes long."""


class Scaled(torch.autograd.Function):
    """Multiplies by 2; the gradient is multiplied by what is computed then."""

    @staticmethod
    def forward(ctx, x, change):
        ctx.change = change
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.change(), None


class ScaledForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, change):
        return x * change()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2, None


class ScaledTangent(torch.autograd.Function):
    @staticmethod
    def forward(x, change):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.change = inputs[1]

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2, None

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent * ctx.change()


@torch.compiler.nested_compile_region
def region(x, change):
    return x * change()


@place
def hook(x, change):
    y = x * 2
    y.register_hook(lambda gradient: gradient * change())
    return (y * 3).sum()


@place
def two_hooks(x, change):
    y = x * 2
    y.register_hook(lambda gradient: gradient * change())
    z = y * 3
    z.register_hook(lambda gradient: gradient * change())
    return z.sum()


@place
def hook_on_leaf(x, change):
    x.register_hook(lambda gradient: gradient * change())
    return (x * 3).sum()


@place
def hook_on_accumulated(x, change):
    def scale(leaf):
        leaf.grad.mul_(change())

    x.register_post_accumulate_grad_hook(scale)
    return (x * 3).sum()


@place
def backward_in_graph(x, change):
    y = x * 2
    y.register_hook(lambda gradient: gradient * change())
    return torch.autograd.grad((y * 3).sum(), x)[0].sum() + x.sum()


@place
def function_backward(x, change):
    return Scaled.apply(x, change).sum()


@place
def function_forward(x, change):
    return ScaledForward.apply(x, change).sum()


@place
def function_jvp(x, change):
    return torch.func.jvp(lambda t: ScaledTangent.apply(t, change), (x,), (x * 2,))[1].sum()


@place
def checkpointed(x, change):
    return checkpoint(lambda t: (t * change()).sin(), x, use_reentrant=False).sum()


@place
def checkpointed_reentrant(x, change):
    return checkpoint(lambda t: (t * change()).sin(), x, use_reentrant=True).sum()


@place
def packed(x, change):
    with saved_tensors_hooks(lambda t: t + change(), lambda t: t):
        return x.sin().sum()


@place
def unpacked(x, change):
    with saved_tensors_hooks(lambda t: t, lambda t: t + change()):
        return x.sin().sum()


@place
def module_backward_hook(x, change):
    handle = LINEAR.register_full_backward_hook(lambda module, of_inputs, of_outputs: (of_inputs[0] * change(),))
    found = LINEAR(x).sum()
    handle.remove()
    return found


@place
def module_backward_pre_hook(x, change):
    handle = LINEAR.register_full_backward_pre_hook(lambda module, of_outputs: (of_outputs[0] * change(),))
    found = LINEAR(x).sum()
    handle.remove()
    return found


@place
def nested_region(x, change):
    return region(x, change).sum()


@place
def mapped_by_vmap(x, change):
    return torch.func.vmap(lambda t: t * change())(x).sum()


@place
def differentiated(x, change):
    return torch.func.grad(lambda t: (t * change()).sin().sum())(x).sum()


@place
def pulled_back(x, change):
    return torch.func.vjp(lambda t: t * change(), x)[1](torch.ones(2))[0].sum() + x.sum()


@place
def pushed_forward(x, change):
    return torch.func.jvp(lambda t: (t * change()).sin(), (x,), (x * 2,))[1].sum()


@place
def linearized(x, change):
    return torch.func.linearize(lambda t: (t * change()).sin(), x)[1](x * 2).sum()


@place
def hessian(x, change):
    return torch.func.hessian(lambda t: (t * t * change()).sum())(x).sum() + x.sum()


@place
def cond(x, change):
    return torch.cond(x.sum() > 0, lambda t: t * change(), lambda t: t * 2, (x,)).sum()


@place
def mapped(x, change):
    return map_(lambda t: t * change(), x).sum()


@place
def scanned(x, change):
    return scan(lambda total, t: (total * change(), t * 2), x.sum(), x)[1].sum()


@place
def looped(x, change):
    return while_loop(lambda i, t: i < 2, lambda i, t: (i + 1, t * change()), (torch.tensor(0), x.detach()))[1].sum() + x.sum()


LINEAR = torch.nn.Linear(2, 2)


def outside():
    """Return the object from outside that a program is given."""
    given = Box()
    given.t, given.inner, given.iterator = torch.ones(2), Box(), iter([2.0, 3.0, 5.0, 7.0, 11.0])
    return given


def run(call):
    """Return a program's loss, the result of a change made between forward and backward, the gradient, and the final state; or the exception's type."""
    LINEAR.zero_grad()
    random.seed(0)
    torch.manual_seed(0)
    x = torch.ones(2, requires_grad=True)
    try:
        loss, change, rest = call(x, outside())
        between = change()
        loss.backward()
        return [as_numbers(value) for value in (loss, between, x.grad, rest())]
    except (RuntimeError, StopIteration, TypeError) as error:
        return type(error)


def as_numbers(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return [as_numbers(item) for item in value] if isinstance(value, list) else value


TRANSFORMS = ("function_jvp", "differentiated", "pulled_back", "pushed_forward", "linearized", "hessian")
CRASHES = ("data_of_a_tensor_made_here", "data_of_a_tensor_from_outside")
"""Changes inside transforms that end the process in eager: torch lets `.data` be set to a tensor of a transform, and reads it later."""


def rows():
    """Every place with every change; the fast tests leave out most of those that ask as others do."""
    for at in PLACES:
        for kind in KINDS:
            if at in TRANSFORMS and kind in CRASHES:
                continue
            is_fast = at in ALL_KINDS or (kind in ALL_PLACES and at not in NATIVE) or kind == "generator"
            yield pytest.param(at, kind, marks=() if is_fast else pytest.mark.slow)


@pytest.mark.parametrize(("at", "kind"), list(rows()))
@pytest.mark.filterwarnings("ignore")
def test_change_shows_as_in_eager(at, kind):
    def program(x, given):
        change, rest = KINDS[kind](given)
        return PLACES[at](x, change), change, rest

    if at in COMPILED_BY_TORCH and kind == "generator" and sys.version_info >= (3, 12) and torch.__version__ >= "2.14":
        pytest.skip("torch compiles its operator itself, in eager too, and fails on a function that advances a generator")
    assert run(framejit.compile(program, backend="eager")) == run(program)


COMPILED_BY_TORCH = ("cond", "mapped", "scanned", "looped")
MUTATING = ("set", "changed")
"""The methods of the trail that record a change of what the program sees."""
NO_ROW = {
    "CheckedHooks.check": "remembers which hooks were checked",
    "ClassChanges.store": "sets an attribute of a class, which is from outside",
    "DequeObject.extend": "appends to a deque from outside, which is announced as an effect; others change in `replace`",
    "DictIterator.check_ordered": "the step raises, and the iterator has ended",
    "DictObject._store": "notes that the keys are addresses; the change itself is that of `_put`",
    "DictObject.number_addresses": "has addresses among the keys as numbers, which a program doesn't see",
    "DictObject.outdate": "native code changes the dict, in a call of its own between two graphs",
    "ExceptionObject.set_traceback": "gives a traceback of the exception's own back, which `start_traceback` has a row for",
    "OnInput.take_off": "a hook on an input, which is announced as an effect",
    "OpaqueObject.instance_dict_as_value": "remembers that the program has the dict of an object from outside",
    "PlaceIterator.next": "runs over hooks of modules, which are from outside",
    "RepeatedChanges.add": "remembers what backward passes after the graph change again",
    "RepeatedChanges.remove": "remembers what the graph itself has changed again",
    "SetObject.part_from_copied": "forgets of which set from outside this is a copy, before a change of it, which has a row",
    "StreamObject.write_later": "writes to a stream from outside, which is announced as an effect",
    "WeakReferenceMade.set_slot": "sets the key of a reference that is being made",
    "entering.enter_switch": "remembers the switches in force around a block",
}
"""Methods that record a change, and why no row makes it."""


def recording_methods() -> set[str]:
    """The qualified names of functions in the rooms of objects and models that record a change of an Object, which they name `self`."""
    found = set()
    for room in ("objects", "library"):
        for path in sorted((Path(framejit.__file__).parent / room).rglob("*.py")):
            found |= recording_in(ast.parse(path.read_text()), ())
    return found


def recording_in(node: ast.AST, inside: tuple[str, ...]) -> set[str]:
    found = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute) and child.func.attr in MUTATING:
            is_trail = ast.unparse(child.func.value).endswith("trail")
            if is_trail and isinstance(child.args[0], ast.Name) and child.args[0].id == "self":
                found.add(".".join(inside))
        names = (child.name,) if isinstance(child, (ast.ClassDef, ast.FunctionDef)) else ()
        found |= recording_in(child, (*inside, *names))
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.only_eager("which methods record a change depends on what the backend takes")
def test_every_method_that_records_a_change_has_a_row(monkeypatch):
    made = set()
    for name in MUTATING:

        def record(trail, owner, *args, original=getattr(Trail, name)):
            made.add(sys._getframe(1).f_code.co_qualname)
            return original(trail, owner, *args)

        monkeypatch.setattr(Trail, name, record)
    for kind in KINDS:

        def program(x, given):
            change, rest = KINDS[kind](given)
            return change(), rest()

        framejit.reset()
        framejit.compile(program, backend="eager")(torch.ones(2), outside())
    without_row = recording_methods() - made
    assert "\n".join(sorted(without_row)) == "\n".join(sorted(NO_ROW))


PURE = Programs()
"""Hooks that change nothing but what they make: each is part of one graph."""
pure = PURE.add


@pure
def list_of_generator(gradient, held):
    return gradient * sum([n for n in numbers()]) + sum(n for n in (1.0, 2.0))


@pure
def advances_its_own(gradient, held):
    own = map(abs, numbers())
    next(own)
    return gradient * next(own)


@pure
def sends_and_closes(gradient, held):
    def doubling():
        n = yield
        while True:
            n = yield n * 2

    own = doubling()
    next(own)
    gradient = own.send(gradient)
    own.close()
    return gradient


@pure
def reads_attributes(gradient, held):
    return gradient * getattr(held.t, "factor", 3.0) * getattr(held, "missing", 2.0)


@pytest.mark.parametrize("hook", PURE.values(), ids=PURE)
def test_hook_that_changes_what_it_makes_is_part_of_the_graph(hook):
    def program(x, given):
        held = Box()
        held.t = x * 3
        y = x * 2
        y.register_hook(lambda gradient: hook(gradient, held))
        return (y * 3).sum(), held.t

    def gradient(call):
        x = torch.ones(2, requires_grad=True)
        call(x, Box())[0].backward()
        return x.grad.tolist()

    assert gradient(framejit.compile(program, backend="eager", fullgraph=True)) == gradient(program)


def test_what_a_hook_reads_of_a_value_from_outside_is_changed_afterwards():
    def program(x, given):
        given.d = {"n": 2.0}
        y = x * 2
        y.register_hook(lambda gradient: gradient * given.d["n"])
        given.d["n"] = 5.0
        return (y * 3).sum(), (lambda: 1.0), lambda: None

    assert run(framejit.compile(program, backend="eager")) == run(program)
