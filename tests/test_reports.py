"""What users read: logs, reasons, errors and explanations name things as their program does, and advise what works."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from resume_programs import CASES
from torch import nn
from torch.nn import functional as F

import framejit
from framejit import breaks, errors, library, logs
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


class Block(nn.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.linear, self.index, self.seen = nn.Linear(3, 3), index, 0

    @torch.no_grad()
    def forward(self, t):
        t = self.linear(t)
        self.seen += 1
        if t.sum().item() > self.index:
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
    return t * total if total % 100 else t


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
    assert frames == [(__file__, "Net.forward"), (__file__, "Block.forward")] and "t.sum().item()" in text
    recompiled = next(text for text in told.texts if text.startswith("recompiling"))
    assert "`t.sum().item()`: expected that it == " in recompiled and "in Block.forward" in recompiled


def test_frames_that_are_left_out():
    def frame(path: str, name: str = "f") -> errors.UserFrame:
        return errors.UserFrame(path, name, 1)

    mine, theirs = frame("mine.py"), frame(f"{library.INSTALLED[0]}transformers/model.py")
    module, functional = frame(f"{library.TORCH}nn/modules/module.py"), frame(f"{library.TORCH}nn/functional.py")
    wrapper, standard = frame(f"{library.TORCH}utils/_contextlib.py"), frame(f"{library.STANDARD_LIBRARY}json/decoder.py")
    assert stacks.shown([module, mine, wrapper, theirs, module, mine]) == [mine, theirs, mine]
    assert stacks.shown([mine, module, functional]) == [mine, functional] and stacks.shown([mine, standard]) == [mine, standard]
    assert stacks.shown([mine, module]) == [mine] and stacks.shown([module]) == [module] and stacks.shown([]) == []
    assert stacks.shown([mine, frame(f"{library.OURS}regions.py")]) == [mine]


# ---- what is printed ----

FALLBACK = """
import framejit, torch
framejit_compile = framejit.compile(backend="eager", recompile_limit=2)

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
        assert done.stderr.startswith("framejit: f runs as written: FJ019 f has reached recompile_limit (2); what is changing: n: ")
        assert f"({program}:7)" in done.stderr and "What to do: Pass it as a tensor" in done.stderr and "fallbacks says more." in done.stderr
    elif wanted == "fallbacks":
        assert "What to do:" in done.stderr and "or: FRAMEJIT_LOGS=recompiles" in done.stderr
    else:
        assert "runs as written" not in done.stderr


def test_reasons_name_their_places():
    framejit.reset()
    calls(lambda t, n: t * n, *[(x, float(n)) for n in range(10)])
    calls(nn.Sequential(nn.Linear(3, 3)), *[(torch.ones(n, 3),) for n in range(1, 11)])
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


def hooked(t):
    t.register_hook(lambda grad: grad * 2)
    return t


HINTS = {
    # id: (the program that breaks, the program with what a hint says, the arguments of the second)
    "FJ001": (lambda t: torch.from_numpy(t.numpy() * 2) + 1, lambda t: doubled(t) + 1, (x,)),
    "FJ005": (lambda t: t * 2 if t.sum() > 0 else -t, lambda t: torch.where(t.sum() > 0, t * 2, -t), (x,)),
    "FJ008": (lambda t: (framejit.graph_break(), t + 1)[1], lambda t: t + 1, (x,)),
    "FJ012": (lambda t: (print(end=""), t + 1)[1], lambda t: ((None if framejit.is_compiling() else print(end="")), t + 1)[1], (x,)),
    "FJ013": (lambda t: t.as_subclass(Sub) + 1, lambda t: t + 1, (x.as_subclass(Sub).as_subclass(torch.Tensor),)),
    "FJ018": (lambda t, items=(n for n in [1, 2]): t + next(items), lambda t, items=(1, 2): t + next(iter(items)), (x,)),
}  # fmt: skip


@pytest.mark.parametrize("id", HINTS)
def test_advice_works(id):
    breaking, advised, args = HINTS[id]
    with pytest.raises(framejit.Unsupported, match=id):
        framejit.compile(breaking, backend="eager", fullgraph=True)(x)
    expected = advised(*args)
    assert torch.equal(framejit.compile(advised, backend="eager", fullgraph=True)(*args), expected)


def test_no_advice_that_does_not_work():
    with pytest.raises(framejit.Unsupported):
        framejit.compile(lambda t: torch.cond(t.sum() > 0, lambda t: t, lambda t: -t, (t,)), backend="eager", fullgraph=True)(x)
    for reason in breaks.CATALOGUE.values():
        text = " ".join(reason.hints)
        assert "torch.cond" not in text and not re.search(r"in a function marked with|mark the function", text), reason.id


def test_advice_is_one_list():
    reason = breaks.DataDependent("item()")
    text = errors.explain_break(reason, [])
    assert text.count("What to do: ") == 1 and "\n      or: " in text
    assert logs.NAMES["fallbacks"]
