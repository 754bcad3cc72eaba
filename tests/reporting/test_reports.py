"""Texts for users (logs, reasons, errors and explanations) name things as the program does, and give advice that works."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import importlib
import io
import logging
import math
import random
import re
import subprocess
import sys
import time
import uuid
import warnings
import zlib
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from agreement import Comparison
from resume_programs import CASES
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

import framejit
from framejit import breaks, config, errors, logs
from framejit.program import code_kinds
from framejit.reporting import stacks

for _module in ("resume_programs_flow", "resume_programs_calls", "resume_programs_statements", "resume_programs_objects"):
    importlib.import_module(_module)  # adds its programs to CASES

x = torch.ones(2, 3)
FORBIDDEN = {
    "a C++ type": r"pybind11_|std::|at::|c10::|_gxx_abi",
    "an operand": r"\(?\boperand \d+\)?|\(state of",
    "an Object of framejit's": r"<(?:Lazy|Const)?\w*Object\b|<Const\b|<\w+ (?:from )?L\[",
    "a source's repr": r"<(?:Local|Item|Index|Slot\w*|CAttr|Pinned|IteratorItem) \S",
    "an address": r"\bat 0x[0-9a-f]{6,}",
    "an internal flag": r"_error_on_graph_break|_framejit_\w+|_torchdynamo_\w+",
    "a holder of functions": r"_VariableFunctions|cython_function_or_method",
    "a resumed frame": r"in \S+ \(resumed at|line \d+, in .*\(resumed",
    "a frame around calls": r"line \d+, in (?:\S*_call_impl|Sequential\.forward)",
    "a frame of framejit's": rf'File "{re.escape(str(Path(framejit.__file__).parent))}/[^"]*"',
    "a numbered path of a state": r"(?<![\w\])'\"])(?:self|x|t|state)\[\d+\]\[\d+\]\[\d+\]",
    "a wrong article": r"\ba (?:int|OrderedDict|Embedding|object)\b",
}  # fmt: skip
"""Shapes of text that mean nothing to a user."""


class Texts(logging.Handler):
    """All that framejit logs."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def wrong(self) -> list[str]:
        """The pieces of text that no user should see."""
        found = []
        for text in [*self.texts, *framejit.statistics()["reasons"]]:
            for what, shape in FORBIDDEN.items():
                found += [f"{what}: {text[max(0, match.start() - 80):match.end() + 80]}" for match in re.finditer(shape, text)]
        return found


@pytest.fixture
def told() -> Iterator[Texts]:
    framejit.reset()
    handler = Texts()
    root = logging.getLogger("framejit")
    root.addHandler(handler)
    framejit.set_logs("graph_breaks", "+recompiles", "fallbacks")
    yield handler
    root.removeHandler(handler)
    framejit.set_logs()
    framejit.reset()


def calls(fn: Any, *many: tuple[Any, ...], **options: Any) -> None:
    """Compile and call a program, whatever it raises and prints."""
    compiled = framejit.compile(fn, backend="eager", **options)
    for args in many:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
            compiled(*args)


@pytest.mark.parametrize("part", range(4))
def test_the_texts_of_programs_that_break(told, part):
    for name in sorted(CASES)[part::4]:
        fn, arguments = CASES[name]
        with contextlib.redirect_stdout(io.StringIO()):
            first, second = arguments(), arguments()
        calls(fn, first, tuple(arg * 2 if isinstance(arg, (torch.Tensor, int)) else arg for arg in second))
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
            found = framejit.explain(fn)(*arguments())
            told.texts += [stop.text + stop.reason for stop in (*found.breaks, *found.fallbacks)]
    assert told.texts and not told.wrong()


@framejit.disable
def number(t):
    return t.sum().item()


class Block(nn.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.linear, self.index, self.seen = nn.Linear(3, 3), index, 0

    @torch.no_grad()
    def forward(self, t):
        t = self.linear(t)
        self.seen += 1
        if number(t) > self.index:
            t = t / 2
        return t.view(-1)[: self.seen].sum() + t


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*map(Block, range(3)))

    def forward(self, t):
        return self.blocks(t).sum()


total = 0


def counted(t):
    global total
    total += 1
    return t * total if total % 10 else t


def with_numpy(t, n):
    return t * float(np.random.rand()) + torch.from_numpy(np.asarray(t)) + random.random() * n


def in_torchs_region(t):
    with torch._dynamo.error_on_graph_break(False):
        print(t)
    return t + 1


def loop_with_breaks(t, items):
    for item in items:
        t = t * item + t.sum().item()
        print(t)
    return t


def transformed(t):
    return F.one_hot(t.long()), torch._C._set_cudnn_enabled(True), torch.cond(t.sum() > 0, lambda t: t, lambda t: -t, (t,))


MORE = {
    "modules": (lambda: Net(), (x,), (x * 2,), (torch.ones(4, 3),)), "a counter": (lambda: counted, *[(x,)] * 12),
    "numpy": (lambda: with_numpy, (x, 1), (x, 2), (x, object())), "torch's region": (lambda: in_torchs_region, (x,), (torch.ones(3),)),
    "loops": (lambda: loop_with_breaks, (x, [1, 2]), (x, [1, 2, 3]), (x, (3,))), "operators": (lambda: transformed, (x,), (x.double(),)),
    "wrong shapes": (lambda: lambda t: t @ t, (x,)), "limits": (lambda: lambda t, n: t * n, *[(x, float(n)) for n in range(12)]),
    "limits of a module": (lambda: nn.Sequential(nn.Linear(3, 3)), *[(torch.ones(n, 3),) for n in range(1, 12)]),
    "unknown values": (lambda: lambda t, o: (t if o.field else -t, o(t), len(o), {o: 1}), (x, object()), (x, re.compile("a")), (x, memoryview(b"a"))),
}  # fmt: skip


@pytest.mark.parametrize("name", MORE)
def test_the_texts_of_programs(told, name):
    make, *many = MORE[name]
    calls(make(), *many)
    calls(make(), *many[:1], fullgraph=True)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
        found = framejit.explain(make())(*many[0])
        told.texts += [stop.text + stop.reason for stop in (*found.breaks, *found.fallbacks)]
    for options in ({"fullgraph": True}, {}):
        with framejit.set_stance("fail_on_recompile" if not options else "default"), contextlib.redirect_stdout(io.StringIO()):
            try:
                framejit.compile(make(), backend="eager", **options)(*many[-1])
            except framejit.FramejitError as error:
                told.texts.append(str(error))
            except Exception:
                pass
    assert told.texts and not told.wrong()


def test_stacks_show_the_programs_frames(told):
    calls(Net(), (x,))
    [text, *_] = [text for text in told.texts if text.startswith("graph break")]
    frames = re.findall(r'File "([^"]*)", line \d+, in (\S+)', text)
    assert frames == [(__file__, "Net.forward"), (__file__, "Block.forward")] and "number(t)" in text
    recompiled = next(text for text in told.texts if text.startswith("recompiling"))
    assert "self.index: expected that it == 0; found 1" in recompiled and "in Block.forward" in recompiled


def test_frames_that_are_left_out():
    def frame(path: str, name: str = "f") -> errors.UserFrame:
        return errors.UserFrame(path, name, 1)

    mine, theirs = frame("mine.py"), frame(f"{code_kinds.INSTALLED[0]}transformers/model.py")
    module, functional = frame(f"{code_kinds.TORCH}nn/modules/module.py"), frame(f"{code_kinds.TORCH}nn/functional.py")
    wrapper, standard = frame(f"{code_kinds.TORCH}utils/_contextlib.py"), frame(f"{code_kinds.STANDARD_LIBRARY}json/decoder.py")
    assert stacks.shown([module, mine, wrapper, theirs, module, mine]) == [mine, theirs, mine]
    assert stacks.shown([mine, module, functional]) == [mine, functional] and stacks.shown([mine, standard]) == [mine, standard]
    assert stacks.shown([mine, module]) == [mine] and stacks.shown([module]) == [module] and stacks.shown([]) == []
    assert stacks.shown([mine, frame(f"{code_kinds.OURS}regions.py")]) == [mine]


# ---- what is printed ----

FALLBACK = """
import framejit, torch
framejit_compile = framejit.compile(backend="eager", recompile_limit=2, dynamic=False)

@framejit_compile
def f(t, n):
    return t * n

for n in range(6):
    f(torch.ones(3), float(n))
"""


@pytest.mark.parametrize(("wanted", "lines"), [(None, 1), ("-fallbacks", 0), ("fallbacks", None)])
def test_a_fallback_is_one_line(tmp_path, wanted, lines):
    program = tmp_path / "program.py"
    program.write_text(FALLBACK)
    environ = {"PATH": "", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"} | ({} if wanted is None else {"FRAMEJIT_LOGS": wanted})
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=environ, timeout=120)
    assert done.returncode == 0, done.stderr
    if lines is not None:
        assert len(done.stderr.splitlines()) == lines, done.stderr
    if wanted is None:
        assert done.stderr.startswith("framejit: f runs uncompiled: FJ019 f has reached recompile_limit (2); what is changing: n: ")
        assert f"({program}:7)" in done.stderr and "What to do: Pass it as a tensor" in done.stderr and "fallbacks says more." in done.stderr
    elif wanted == "fallbacks":
        assert "What to do:" in done.stderr and "or: FRAMEJIT_LOGS=recompiles" in done.stderr
    else:
        assert "runs uncompiled" not in done.stderr


def test_reasons_name_their_places():
    framejit.reset()
    calls(lambda t, n: t * n, *[(x, float(n)) for n in range(10)], dynamic=False)
    calls(nn.Sequential(nn.Linear(3, 3)), *[(torch.ones(n, 3),) for n in range(1, 11)], dynamic=False)
    first, second = framejit.statistics()["reasons"]
    assert re.search(rf" at {re.escape(__file__)}:\d+$", first) and second.startswith("FJ019 the module Sequential") and re.search(r" at \S+:\d+$", second)


# ---- hints ----


@torch.library.custom_op("framejit_reports::doubled", mutates_args=())
def doubled(t: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(t.numpy() * 2)


@doubled.register_fake
def _(t: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(t)


class Sub(torch.Tensor):
    pass


class Reading:
    """A key that compares by code of its own."""

    def __init__(self, value):
        self.value = value
        self.looked_up = 0

    def __eq__(self, other):
        return isinstance(other, Reading) and self.value == other.value

    def __hash__(self):
        return hash(self.value)


class Custom(Reading):
    """A key that counts how often it is looked up."""

    def __hash__(self):
        self.looked_up += 1
        return hash(self.value)


class Plain:
    pass


def names_of_a_text(t):
    names: dict[str, Any] = {}
    exec("from math import *", names)
    return t * names["pi"]


def names_of_a_module(t):
    return t * math.pi


def found_or_zero(t, names):
    try:
        return t * names["factor"]
    except KeyError:
        return t * 0


@framejit.disable
def disabled(t):
    return t + 1


async def coroutine():
    return 3


def makes_coroutine(t):
    coroutine().close()
    return t + 1


def asks_for_gradients(t, other):
    return t * other.requires_grad_()


def returns_stale_iterator(t):
    names = {"a": t}
    iterator = iter(names)
    names["b"] = t
    return iterator, t + 1


def returns_stale_deque_iterator(t):
    values = deque([1, 2])
    iterator = iter(values)
    values.append(3)
    return iterator, t + 1


def returns_lost_traceback(t):
    try:
        raise ValueError
    except ValueError as error:
        lost = error.__traceback__
        error.with_traceback(None)
        return lost, t + 1


gradients = []


def hooks(t):
    doubled = t * 2
    doubled.register_hook(gradients.append)
    return doubled


def recursive(t, n):
    return t if n == 0 else recursive(t + 1, n - 1)


def repeated(t, n):
    for _ in range(n):
        t = t + 1
    return t


def sets_stance(t):
    with framejit.set_stance("default"):
        return t + 1


context = contextvars.ContextVar("context")
context.set([2])


@functools.lru_cache
def listed(n):
    return [n]


@functools.lru_cache
@torch.compiler.assume_constant_result
def assumed(n):
    return [n]


HALVED: list[int] = []


def halves(t):
    try:
        yield t / 2
    finally:
        HALVED.append(1)


def lets_go(t):
    return t + next(halves(t))


def closes(t):
    made = halves(t)
    half = next(made)
    made.close()
    return t + half


def breaks_in_a_loop(t, items):
    for n in items:
        framejit.graph_break()
        t = t + n
    return t


def makes_a_leaf(t):
    leaf = (t * 2).detach().requires_grad_()
    return (leaf * 3).sum()


def enlarges(t):
    return torch.add(t, t, out=torch.empty(0)) + t


parameter = nn.Parameter(torch.ones(3))
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD([parameter], lr=0.1))


def steps(t):
    schedule.step(1.0)
    return t + 1


def steps_and_looks(t, scheduler):
    scheduler.step()
    return t * 2 if scheduler.get_last_lr()[0] < 0.05 else t


def looks_and_steps(t, scheduler):
    t = t * 2 if scheduler.get_last_lr()[0] < 0.05 else t
    scheduler.step()
    return t


def scheduler_of_a_new_optimizer():
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(3))], lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()  # the scheduler warns without it
    return scheduler


def two_schedulers():
    first = scheduler_of_a_new_optimizer()
    return [first, torch.optim.lr_scheduler.ExponentialLR(first.optimizer, 0.9)]


def steps_twice(t, schedulers):
    for scheduler in schedulers:
        scheduler.step()
    return t * 2


def steps_in_one(t, scheduler):
    scheduler.step()
    return t * 2


def first_step(t):
    parameter = nn.Parameter(torch.ones(3))
    return t, parameter, torch.optim.Adam([parameter])


def draws_before(t: torch.Tensor, layer: torch.nn.Module) -> torch.Tensor:
    return layer(t + torch.rand(()))


def steps_with(t, parameter, adam):
    (parameter * t).sum().backward()
    adam.step()
    return t + 1


def imports(t):
    import colorsys

    return t + colorsys.ONE_THIRD


def warns(t):
    logging.getLogger("framejit.tests.reports").debug("seen %d", 1) if not framejit.is_compiling() else None
    return t + 1


def counts_flops(program):
    def called(*args):
        with FlopCounterMode(display=False):
            return program(*args)

    return called


def plain(t):
    return t + 1


def leaf() -> torch.Tensor:
    return x.clone().requires_grad_()


def quantized() -> torch.Tensor:
    return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)


def sparse() -> torch.Tensor:
    return x.to_sparse()


kept_twice: list[Any] = []


def keeps_twice(t):
    kept_twice.append(t * 2)
    return t.sum()


def adds_array(t, array):
    return t + torch.from_numpy(array.astype(np.float32))


@torch.library.custom_op("framejit_reports::without_fake", mutates_args=())
def without_fake(t: torch.Tensor) -> torch.Tensor:
    return t * 2


@torch.library.custom_op("framejit_reports::with_fake", mutates_args=())
def with_fake(t: torch.Tensor) -> torch.Tensor:
    return t * 2 if t.sum() > 0 else t * 3


@with_fake.register_fake
def fake_of_with_fake(t):
    return torch.empty_like(t)


@framejit.allow_in_graph
def looks_at_data(t):
    if type(t) is not torch.Tensor:
        raise TypeError("a real tensor, please")
    return t * 2


def without_grad(t):
    with torch.no_grad():
        return t.mul_(2)


def looks_up(t, names, key):
    return t + names[key]


HINTS: list[tuple[str, Any, Any, Any, Any]] = [
    # id, the program that breaks, what makes its arguments, the program as a hint says, what makes its arguments
    ("FJ001", lambda t: t + zlib.crc32(b"3") % 5, None, lambda t, n: t + n, lambda: (x, zlib.crc32(b"3") % 5)),
    ("FJ001", lambda t, view: t + view[0], lambda: (x, memoryview(b"a")), lambda t, n: t + n, lambda: (x, memoryview(b"a")[0])),
    ("FJ001", lambda t: t * (time.perf_counter() > 0), None, lambda t: t * True, None),
    ("FJ002", lambda t, s: t + s.dequantize(), lambda: (x, quantized()), lambda t, s: t + s, lambda: (x, quantized().dequantize())),
    ("FJ002", lambda t: t + 1, lambda: (sparse().coalesce().values(),), plain, lambda: (sparse().coalesce().values().clone(),)),
    ("FJ003", lambda t: plain(t) if t.is_shared() else plain(-t), None, lambda t, shared: plain(t) if shared else plain(-t), lambda: (x, x.is_shared())),
    ("FJ003", lambda t: torch.utils.checkpoint.checkpoint(torch.sin, t, use_reentrant=True), None, torch.sin, None),
    ("FJ004", names_of_a_text, None, names_of_a_module, None),
    ("FJ005", lambda t: t * 2 if t.sum() > 0 else -t.double(), None, lambda t: torch.where(t.sum() > 0, t * 2, -t), None),
    ("FJ005", lambda t: t * 2 if t.sum() > 0 else -t.double(), None, lambda t: torch.cond(t.sum() > 0, lambda a: a * 2, torch.neg, (t,)), None),
    ("FJ005", lambda t: (repr(t), t * 2)[1], None, lambda t: t * 2, None),
    ("FJ006", lambda t: t @ t, None, lambda t: t @ t.T, None),
    ("FJ007", lambda t, names: t * names["factor"], lambda: (x, {}), found_or_zero, lambda: (x, {})),
    ("FJ008", lambda t: (framejit.graph_break(), t + 1)[1], None, plain, None),
    ("FJ009", lambda t: disabled(t * 2), None, lambda t: plain(t * 2), None),
    ("FJ009", lambda t: disabled(t * 2), None, lambda t, result: t * 2 + result, lambda: (x, disabled(x * 2))),
    ("FJ010", makes_coroutine, None, plain, None),
    ("FJ011", asks_for_gradients, lambda: (x, x.clone()), lambda t, other: t * other, lambda: (x, leaf())),
    ("FJ012", lambda t: (print(end=""), t + 1)[1], None, lambda t: (None if framejit.is_compiling() else print(end=""), t + 1)[1], None),
    ("FJ013", lambda t: t.unsqueeze_(0) + 1, lambda: (x.clone().as_subclass(Sub),), plain, lambda: (x.as_subclass(Sub).as_subclass(torch.Tensor),)),
    ("FJ014", returns_stale_iterator, None, lambda t: (["a", "b"], t + 1), None),
    ("FJ015", hooks, lambda: (leaf(),), lambda t: t * 2, lambda: (with_hook(leaf()),)),
    ("FJ016", recursive, lambda: (x, 60), repeated, lambda: (x, 60)),
    ("FJ017", repeated, lambda: (x, 300), plain, None),
    ("FJ018", lambda t, items: t + next(items), lambda: (x, iter(deque([1, 2]))), lambda t, items: t + next(iter(items)), lambda: (x, (1, 2))),
    ("FJ020", lambda t: (sys._getframe().f_locals, t + 1)[1], None, plain, None),
    ("FJ021", lambda t: t + context.get()[0], None, lambda t, n: t + n, lambda: (x, context.get()[0])),
    ("FJ022", lambda t, names, key: t + names[key], lambda: (x, {Custom(1): 2}, Custom(1)), lambda t, names: t + names["k"], lambda: (x, {"k": 2})),
    ("FJ022", lambda t, names, key: t + names[key], lambda: (x, {Custom(1): 2}, Custom(1)), lambda t, o: t + {o: 2}[o], lambda: (x, Plain())),
    ("FJ022", looks_up, lambda: (x, {Custom(1): 2}, Custom(1)), looks_up, lambda: (x, {Reading(1): 2}, Reading(1))),
    ("FJ023", lambda t: t * (torch.initial_seed() % 3), None, lambda t, seed: t * (seed % 3), lambda: (x, 7)),
    ("FJ024", lambda t: (framejit.skip_frame(), t + 1)[1], None, plain, None),
    ("FJ025", sets_stance, None, plain, None),
    ("FJ026", lambda t: t + listed(2)[0], None, lambda t, n: t + n, lambda: (x, listed(2)[0])),
    ("FJ026", lambda t: t + listed(2)[0], None, lambda t: t + assumed(2)[0], None),
    ("FJ029", lets_go, None, closes, None),
    ("FJ030", breaks_in_a_loop, lambda: (x, {1, 2}), lambda t, items: breaks_in_a_loop(t, list(items)), lambda: (x, {1, 2})),
    ("FJ030", breaks_in_a_loop, lambda: (x, {1, 2}), lambda t, items: [t := t + n for n in items][-1], lambda: (x, {1, 2})),
    ("FJ035", makes_a_leaf, lambda: (leaf(),), lambda t: (t * 3).sum(), lambda: ((leaf() * 2).detach().requires_grad_(),)),
    ("FJ035", enlarges, None, lambda t: t + t + t, None),
    ("FJ036", steps, None, lambda t: (t * parameter).sum(), None),
    ("FJ040", steps_with, lambda: first_step(x), steps_with, lambda: first_step(x)),
    ("FJ037", imports, None, imports, None),
    ("FJ038", counts_flops(plain), None, plain, None),
    ("FJ039", lambda t: t * 2 if t.sum().item() > 0 else -t.double(), None, lambda t: torch.where(t.sum() > 0, t * 2, -t), None),
    ("FJ039", lambda t: t * 2 if t.sum().item() > 0 else -t.double(), None, lambda t: (t * 2, -t, t.sum().item()), None),
    ("FJ039", lambda t: t if int(t.argmax()) >= 0 else t[1:], None, lambda t: (torch._check((n := int(t.argmax())) >= 0), t * 2 if n >= 0 else -t)[1], None),
    ("FJ043", lambda t: (uuid.uuid4(), t + 1)[1], None, warns, None),
    ("FJ062", lambda t: torch.cond(t.sum() > 0, keeps_twice, torch.sum, (t,)), None, lambda t: torch.cond(t.sum() > 0, plain, torch.neg, (t,)), None),
    ("FJ065", lambda t: torch.func.grad(keeps_twice)(t), None, lambda t: torch.func.grad(lambda a: (a.sum(), a * 2), has_aux=True)(t), None),
    ("FJ068", adds_array, lambda: (x, np.ones(3, object)), adds_array, lambda: (x, np.ones(3, np.float64))),
    ("FJ069", lambda t: torch.from_numpy(np.apply_along_axis(np.sum, 0, t.numpy())), None, lambda t: t.sum(0), None),
    ("FJ074", lambda t: without_fake(t) + 1, None, lambda t: with_fake(t) + 1, None),
    ("FJ075", lambda t: looks_at_data(t) + 1, None, lambda t: with_fake(t) + 1, None),
    ("FJ077", draws_before, lambda: (x, torch.nn.LazyLinear(2)), lambda t, layer: layer(t), lambda: (x, called(torch.nn.LazyLinear(2)))),
    ("FJ078", steps_and_looks, lambda: (x, scheduler_of_a_new_optimizer()), looks_and_steps, lambda: (x, scheduler_of_a_new_optimizer())),
    ("FJ079", steps_twice, lambda: (x, two_schedulers()), steps_in_one, lambda: (x, torch.optim.lr_scheduler.ChainedScheduler(two_schedulers()))),
    ("FJ081", lambda t: t.mul_(2), lambda: (x.clone().requires_grad_(),), without_grad, lambda: (x.clone().requires_grad_(),)),
]  # fmt: skip


def called(layer: torch.nn.Module) -> torch.nn.Module:
    torch.manual_seed(0)
    layer(x)
    return layer


def with_hook(t: torch.Tensor) -> torch.Tensor:
    t.register_hook(lambda grad: grad * 2)
    return t


@pytest.mark.parametrize(("id", "breaking", "arguments", "advised", "others"), HINTS)
def test_advice_works(id, breaking, arguments, advised, others, in_the_place_of_eager):
    if breaking is asks_for_gradients and in_the_place_of_eager != "eager":
        pytest.skip("AOTAutograd's graphs break there for FJ035")
    backend = "aot_eager" if id in ("FJ035", "FJ040") else "eager"
    sys.modules.pop("colorsys", None)
    with config.replace(inline_depth_limit=50, unroll_limit=200):
        framejit.reset()
        compiled = counts_flops(framejit.compile(plain, backend="eager")) if id == "FJ038" else framejit.compile(breaking, backend=backend)
        with contextlib.suppress(KeyError, RuntimeError) if id in ("FJ006", "FJ007", "FJ062", "FJ081") else contextlib.nullcontext():
            compiled(*(arguments or default)())
        assert any(reason.startswith(id) for reason in framejit.statistics()["reasons"]), framejit.statistics()["reasons"]
        framejit.reset()
        found = framejit.compile(advised, backend=backend, fullgraph=id != "FJ030")(*(others or default)())
        assert not any(reason.startswith(id) for reason in framejit.statistics()["reasons"])
        Comparison().same(found, advised(*(others or default)()))


def default() -> tuple[Any, ...]:
    return (x,)


WITHOUT_A_REWRITE = {
    "FJ019": "recompilation: test_recompiles.py", "FJ027": "threads: test_threads.py", "FJ028": "below", "FJ031": "framejit is wrong: test_predictions.py",
    "FJ033": "debuggers: test_looks.py", "FJ061": "Python 3.12 only: test_super.py", "FJ076": "Triton: test_triton.py",
    "FJ080": "framejit fails: test_native_calls.py",
}  # fmt: skip


def test_every_reason_has_advice_that_is_tried():
    assert {id for id, *_ in HINTS} | set(WITHOUT_A_REWRITE) == set(breaks.CATALOGUE) and not {id for id, *_ in HINTS} & set(WITHOUT_A_REWRITE)


def after_break(t, n):
    framejit.graph_break()
    return t * n


def ids_after(program, calls_, **options):
    framejit.reset()
    compiled = framejit.compile(program, backend="eager", dynamic=False, **options)
    for args in calls_:
        compiled(*args)
    return {reason.partition(" ")[0] for reason in framejit.statistics()["reasons"]}


def test_advice_on_what_changes_from_call_to_call():
    numbers, tensors = [(x, float(n)) for n in range(12)], [(x, torch.tensor(float(n))) for n in range(12)]
    assert ids_after(after_break, numbers) == {"FJ008", "FJ028"} and ids_after(lambda t, n: t * n, numbers) == {"FJ019"}
    assert ids_after(after_break, tensors) == {"FJ008"} and ids_after(lambda t, n: t * n, tensors) == set()
    assert ids_after(after_break, numbers, recompile_limit=12) == {"FJ008"} and ids_after(lambda t, n: t * n, numbers, recompile_limit=12) == set()


@pytest.mark.parametrize("program", [returns_stale_iterator, returns_stale_deque_iterator, returns_lost_traceback])
def test_a_trace_that_cannot_end_runs_as_written(program):
    for _ in range(2):
        value, found = framejit.compile(program, backend="eager")(x)
        assert torch.equal(found, x + 1) and type(value) is type(program(x)[0])
        if hasattr(value, "__next__"):
            with pytest.raises(RuntimeError, match="changed size|mutated during"):
                next(value)
    assert any(reason.startswith("FJ014") for reason in framejit.statistics()["reasons"])


def test_values_of_sparse_tensors():
    for tensor in (x.to_sparse().coalesce(), x.to_sparse_csr()):
        assert torch.equal(framejit.compile(plain, backend="eager")(tensor.values()), tensor.values() + 1)


def test_no_advice_that_does_not_work():
    for reason in breaks.CATALOGUE.values():
        text = " ".join(reason.hints)
        assert not re.search(r"in a function marked with|mark the function", text), reason.id


def test_advice_about_a_clock():
    found = framejit.explain(lambda t: (t + 1, time.monotonic()))(x)
    assert "What to do: Read a clock, such as `time.perf_counter()`, before and after the call" in str(found)
    other = framejit.explain(lambda t: t + zlib.crc32(b"3"))(x)
    assert "custom operator" not in found.breaks[0].text and "Read a clock" not in other.breaks[0].text


class Checked(torch.autograd.Function):
    """Its backward looks at data."""

    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        ctx.set_materialize_grads(False)
        return t.clamp(0, 1)

    @staticmethod
    def backward(ctx, gradient):
        (t,) = ctx.saved_tensors
        if not torch.isfinite(gradient).all():
            warnings.warn("not finite", stacklevel=1)
        return gradient * (t >= 0)


class Masked(Checked):
    """Checked, rewritten as the advice about it says."""

    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t.clamp(0, 1)

    @staticmethod
    def backward(ctx, gradient):
        (t,) = ctx.saved_tensors
        return torch.where(torch.isfinite(gradient), gradient, 0) * (t >= 0)


def test_advice_on_the_context_of_an_autograd_function():
    stops = framejit.explain(lambda t: Checked.apply(t * 2) + 1)(leaf()).breaks
    [saving] = [stop for stop in stops if "set_materialize_grads" in stop.text]
    assert saving.id == "FJ003" and "ctx of an autograd.Function that runs uncompiled" in saving.reason
    assert "What to do: Remove what splits the graph" in saving.text and "torch.where chooses" not in saving.text
    assert framejit.explain(lambda t: Masked.apply(t * 2) + 1)(leaf()).breaks == []


STATISTIC = SimpleNamespace(best=0.0)


def improves(t):
    loss = t.mean()
    return t * 2 if loss.item() > STATISTIC.best else t[1:]


def counts_up_to(t):
    return [t + i for i in range(int(t.argmax()))]


def has_rows(t):
    n = int(t.argmax())
    return t * 2 if n > 3 else t[1:]


@pytest.mark.parametrize(("program", "check"), [(improves, None), (counts_up_to, None), (has_rows, "torch._check(int(t.argmax()) > 3)")])
def test_a_check_is_advised_where_it_can_be_made(program, check):
    [stop] = framejit.explain(program)(x).breaks
    assert stop.id == "FJ039" and ("_check" in stop.text) == (check is not None) and (check or "") in stop.text, stop.text
    assert "Return the number, or a tensor that holds it, and do this outside the compiled function." in stop.text and "..." not in stop.text


def test_advice_is_one_list():
    reason = breaks.DataDependent("item()")
    text = errors.explain_break(reason, [])
    assert text.count("What to do: ") == 1 and "\n      or: " in text
    assert logs.NAMES["fallbacks"]
