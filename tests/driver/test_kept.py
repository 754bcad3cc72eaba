"""Entries on disk: a later process runs them if nothing has changed that they depend on, and compiles if something has."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import importlib
import itertools
import os
import pathlib
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._inductor.config
from torch import nn

import framejit
from framejit import config
from framejit.driver import kept
from framejit.saved import folder

PROGRAM = '''
import enum
import functools
import math
import os

import torch
from torch import nn

import HELPERS as helpers
from HELPERS import imported

SCALE = 3
table = {"a": 1.0, "b": 2.0}
SIZES = [2, 3]
SWITCH = True
Kind = enum.Enum("Kind", "PLAIN OTHER")
KIND = Kind.PLAIN


def double(x, by=2, *, plus=0):
    return x * by + plus


def counted(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args) + 0.5

    return wrapper


@counted
def decorated(x):
    return x - 1


def adder(amount):
    def add(x):
        return x + amount

    return add


add = adder(4)
sine = functools.partial(torch.mul, other=7)


class Base(nn.Module):
    gain = 1.5

    def shift(self, x):
        return x + 1

    def other(self, x):
        return x * 5


class Layer(Base):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.act = nn.ReLU()
        self.times = 2
        self.register_buffer("offset", torch.ones(4))

    @property
    def slope(self):
        return 0.25

    @staticmethod
    def half(x):
        return x / 2

    @classmethod
    def quarter(cls, x):
        return x / 4 * cls.gain

    def forward(self, x):
        x = self.act(self.linear(x)) * self.slope + self.offset
        for _ in range(self.times):
            x = self.shift(x)
        x = self.half(x) + self.quarter(x)
        x = double(x) * SCALE + table["a"] + SIZES[0]
        x = helpers.triple(x) + imported(x) + helpers.CONSTANT
        x = decorated(add(sine(x)))
        if SWITCH and KIND is Kind.PLAIN:
            x = x * math.floor(2.7)
        return x + float(os.environ.get("KEPT_TEST", "0"))


def made():
    torch.manual_seed(0)
    return Layer().eval()
'''
HELPERS = '''
CONSTANT = 10


def triple(x):
    return x * inner()


def inner():
    return 3


def imported(x):
    return x.sin()
'''
EDITS = {
    "a constant of the module": ("SCALE = 3", "SCALE = 4"),
    "the type of a constant": ("SCALE = 3", "SCALE = 3.0"),
    "an item of a global dict": ('"a": 1.0', '"a": 1.25'),
    "the sign of a zero": ('"a": 1.0', '"a": -0.0'),
    "an item of a global list": ("SIZES = [2, 3]", "SIZES = [5, 3]"),
    "a switch": ("SWITCH = True", "SWITCH = False"),
    "a member of an enum": ("KIND = Kind.PLAIN", "KIND = Kind.OTHER"),
    "a default": ("def double(x, by=2,", "def double(x, by=5,"),
    "a keyword default": ("plus=0)", "plus=1)"),
    "the body of a function": ("return x * by + plus", "return x * by - plus + 1"),
    "a decorator": ("return function(*args) + 0.5", "return function(*args) + 1.5"),
    "a decorated function": ("return x - 1", "return x - 2"),
    "a missing decorator": ("@counted\ndef decorated", "def decorated"),
    "what a closure holds": ("adder(4)", "adder(6)"),
    "the body of a closure": ("return x + amount", "return x - amount"),
    "a partial's argument": ("other=7", "other=8"),
    "a partial's function": ("functools.partial(torch.mul, other=7)", "functools.partial(torch.add, other=7)"),
    "a method of a base class": ("return x + 1", "return x + 2"),
    "an attribute of a base class": ("gain = 1.5", "gain = 2.5"),
    "a method that overrides": ("    def forward(self, x):", "    def shift(self, x):\n        return x - 3\n\n    def forward(self, x):"),
    "a property": ("return 0.25", "return 0.75"),
    "a static method": ("return x / 2", "return x / 3"),
    "a class method": ("return x / 4 *", "return x / 5 *"),
    "forward": ("return x + float(", "return x - 1 + float("),
    "a submodule of another class": ("self.act = nn.ReLU()", "self.act = nn.Tanh()"),
    "an attribute of the instance": ("self.times = 2", "self.times = 3"),
    "a buffer of another dtype": ("torch.ones(4)", "torch.ones(4, dtype=torch.float64)"),
    "a buffer of another shape": ("torch.ones(4)", "torch.ones(1)"),
    "a layer without bias": ("nn.Linear(4, 4)", "nn.Linear(4, 4, bias=False)"),
    "weights that need no gradient": ("return Layer().eval()", "return Layer().eval().requires_grad_(False)"),
    "a module that trains": ("return Layer().eval()", "return Layer().train()"),
    "an attribute that hides a method": ("self.times = 2", "self.times = 2\n        self.shift = torch.neg"),
    "a function of torch replaced": ("SCALE = 3", "SCALE = 3\nmath = type('M', (), {'floor': staticmethod(lambda x: 9)})"),
    "a base class with __getattr__": ("    gain = 1.5\n", "    gain = 1.5\n\n    def __getattr__(self, name):\n        found = super().__getattr__(name)\n"
                                      "        return found * 2 if name == 'offset' else found\n"),
    "a hook": ("return Layer().eval()", "layer = Layer().eval()\n    layer.linear.register_forward_hook(lambda m, a, out: out * 2)\n    return layer"),
    "a forward of the instance": ("return Layer().eval()", "layer = Layer().eval()\n    layer.linear.forward = lambda x: x\n    return layer"),
    "a parametrization": ("return Layer().eval()", "layer = Layer().eval()\n    torch.nn.utils.parametrizations.weight_norm(layer.linear)\n    return layer"),
    "tied tensors": ("return Layer().eval()", "layer = Layer().eval()\n    layer.offset = layer.linear.bias\n    return layer"),
}  # fmt: skip
"""Changes of the program's file after which its compiled code would be wrong, or may be."""
EDITS_OF_HELPERS = {
    "a constant in another module": ("CONSTANT = 10", "CONSTANT = 11"),
    "a function in another module": ("return 3", "return 4"),
    "a function imported by name": ("return x.sin()", "return x.cos()"),
    "a function that calls another": ("return x * inner()", "return x * inner() * inner()"),
}
NUMBERS = itertools.count()


class Programs:
    """Imports a program as different processes would: anew each time, from a file that may have changed."""

    def __init__(self, place: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place, self.names = place, [f"kept_program_{next(NUMBERS)}", f"kept_helpers_{next(NUMBERS)}"]
        self.texts = [PROGRAM.replace("HELPERS", self.names[1]), HELPERS]
        monkeypatch.syspath_prepend(str(place))
        monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def edit(self, before: str, after: str, which: int = 0) -> None:
        assert before in self.texts[which]
        self.texts[which] = self.texts[which].replace(before, after)

    def start(self) -> Any:
        """The program's module, in what stands for a new process."""
        framejit.reset()
        for name, text in zip(self.names, self.texts):
            sys.modules.pop(name, None)
            (self.place / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        return importlib.import_module(self.names[0])


@pytest.fixture
def on_disk(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """Entries are written to an empty folder, however quickly they were made, and read from it. FRAMEJIT_CHECK=cache makes each entry again as if it had been
    read, and such an entry isn't written."""
    monkeypatch.setattr(kept, "LEAST_SECONDS", 0)
    checks = ",".join(sorted(config.current().checks() - {"cache"}))
    monkeypatch.setattr(config, "_base", dataclasses.replace(config.current(), cache=True, cache_dir=str(tmp_path / "entries"), check=checks))
    yield tmp_path / "entries"
    framejit.reset()


@pytest.fixture
def programs(on_disk: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Programs]:
    made = Programs(tmp_path, monkeypatch)
    yield made
    for name in made.names:
        sys.modules.pop(name, None)


X = torch.linspace(-2, 2, 12).reshape(3, 4)


def outcome(module: Any, x: torch.Tensor = X, call: Callable[[Any, torch.Tensor], Any] = lambda f, x: f(x), **options: Any) -> int:
    """Compare the program's result with eager's; return how often it was compiled."""
    layer = module.made()
    expected = call(layer, x)
    layer = module.made()
    compiled = framejit.compile(layer, backend="eager", **options)
    found = call(compiled, x)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    assert found.requires_grad == expected.requires_grad and found.dtype == expected.dtype
    return int(framejit.statistics()["frames"])


def test_the_next_process_compiles_nothing(programs: Programs) -> None:
    assert outcome(programs.start()) == 1
    for _ in range(3):
        assert outcome(programs.start()) == 0


@pytest.mark.parametrize("edit", EDITS)
def test_edits_are_noticed(programs: Programs, edit: str) -> None:
    assert outcome(programs.start()) == 1
    programs.edit(*EDITS[edit])
    assert outcome(programs.start()) >= 1
    assert outcome(programs.start()) == 0 or edit in ("a hook", "a forward of the instance", "a parametrization", "a function of torch replaced")


@pytest.mark.parametrize("edit", EDITS_OF_HELPERS)
def test_edits_of_other_files_are_noticed(programs: Programs, edit: str) -> None:
    assert outcome(programs.start()) == 1
    programs.edit(*EDITS_OF_HELPERS[edit], which=1)
    assert outcome(programs.start()) == 1
    assert outcome(programs.start()) == 0


def test_what_comes_back_is_found_again(programs: Programs) -> None:
    """An entry stays when the program changes, and is used again when it changes back."""
    assert outcome(programs.start()) == 1
    programs.edit("SCALE = 3", "SCALE = 4")
    assert outcome(programs.start()) == 1
    programs.edit("SCALE = 4", "SCALE = 3")
    assert outcome(programs.start()) == 0


def replaced(module: Any) -> None:
    module.double = lambda x: x * 100


def replaced_in_class(module: Any) -> None:
    module.Base.shift = lambda self, x: x * 100


def replaced_in_helpers(module: Any) -> None:
    module.helpers.triple = module.double


def other_class(module: Any) -> None:
    module.Layer = type("Layer", (module.Layer,), {"__module__": module.__name__, "half": staticmethod(lambda x: x * 7)})


@pytest.mark.parametrize("change", [replaced, replaced_in_class, replaced_in_helpers, other_class])
def test_changes_of_objects_are_noticed(programs: Programs, change: Callable[[Any], None]) -> None:
    assert outcome(programs.start()) == 1
    module = programs.start()
    change(module)
    assert outcome(module) == 1


def size_of_kind(x: torch.Tensor) -> torch.Tensor:
    return x * len(KINDS.Kind)


KINDS: Any = types.ModuleType("kept_kinds")


def test_a_member_that_an_enum_has_gained_is_noticed(on_disk: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The enum is in a file of which no function was traced."""
    monkeypatch.setitem(sys.modules, "kept_kinds", KINDS)
    for members, compilations in ((2, 1), (2, 0), (3, 1), (3, 0)):
        framejit.reset()
        KINDS.Kind = enum.Enum("Kind", list(zip("ABC", range(1, members + 1), strict=False)), module="kept_kinds")
        assert torch.equal(framejit.compile(size_of_kind, backend="eager")(X), size_of_kind(X))
        assert framejit.statistics()["frames"] == compilations


CIRCUMSTANCES: dict[str, Callable[[pytest.MonkeyPatch], contextlib.AbstractContextManager[Any] | None]] = {
    "a variable that the program reads": lambda patch: patch.setenv("KEPT_TEST", "2.5"),
    "a variable that the backend reads": lambda patch: patch.setenv("TORCHINDUCTOR_MAX_AUTOTUNE", "1"),
    "the version of torch": lambda patch: patch.setattr(torch, "__version__", "2.13.1"),
    "framejit's build": lambda patch: patch.setattr(kept, "build", lambda: ["another"]),
    "the processor": lambda patch: patch.setattr(kept, "processor", lambda: "another"),
    "a setting of Inductor": lambda patch: torch._inductor.config.patch(max_fusion_size=7),
    "framejit's options": lambda patch: patch.setattr(config, "_base", dataclasses.replace(config.current(), unroll_limit=500)),
    "mkldnn": lambda patch: patch.setattr(torch._C, "_get_mkldnn_enabled", lambda: False),
}


@pytest.mark.parametrize("change", CIRCUMSTANCES)
def test_changes_of_circumstances_are_noticed(programs: Programs, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    kept.of_the_machine.cache_clear()
    assert outcome(programs.start()) == 1
    assert outcome(programs.start()) == 0
    with monkeypatch.context() as patch, CIRCUMSTANCES[change](patch) or contextlib.nullcontext():
        kept.of_the_machine.cache_clear()
        assert outcome(programs.start()) == 1
    kept.of_the_machine.cache_clear()
    assert outcome(programs.start()) == 0


def test_declared_sizes(programs: Programs) -> None:
    """An entry for declared sizes serves all of them, and refuses others as if it had been compiled in this process."""
    rows = torch.export.Dim("rows", min=3, max=8)
    assert outcome(programs.start(), shapes={"x": (rows, 4)}) == 1
    assert outcome(programs.start(), torch.randn(7, 4), shapes={"x": (rows, 4)}) == 0
    compiled = framejit.compile(programs.start().made(), backend="eager", shapes={"x": (rows, 4)})
    for refused in (2, 9):
        with pytest.raises(framejit.ConstraintViolation, match=f"is {refused}; it was declared to be 'rows' from 3 to 8"):
            compiled(torch.randn(refused, 4))
    assert framejit.statistics()["frames"] == 0
    assert outcome(programs.start(), torch.randn(7, 4), shapes={"x": ("rows", 4)}) == 1
    assert outcome(programs.start(), torch.randn(7, 4)) == 1


DECIDING = '''
import torch


def decides(x, n):
    for _ in range(n[0].item()):
        x = x + 1
    if n.max() > 5 and (n % 2 == 0).any():
        return x * 2
    return x[: n[1].item()].view(n[1].item(), -1)
'''


def test_data_that_decides_is_compared_in_the_next_process(programs: Programs) -> None:
    programs.texts[0] = DECIDING
    compiled = []
    for numbers in ([2, 3], [2, 3], [2, 6], [4, 3], [2, 6], [2, 3]):
        program = programs.start().decides
        found = framejit.compile(program, backend="eager")(X, torch.tensor(numbers))
        assert torch.equal(found, program(X, torch.tensor(numbers))), numbers
        compiled.append(int(framejit.statistics()["frames"]))
    assert compiled == [1, 0, 1, 1, 0, 0]


def under(context: Callable[[], Any]) -> Callable[[Any, torch.Tensor], Any]:
    def call(f: Any, x: torch.Tensor) -> Any:
        with context():
            return f(x)

    return call


class DefaultDtype:
    def __enter__(self) -> None:
        torch.set_default_dtype(torch.float64)

    def __exit__(self, *error: Any) -> None:
        torch.set_default_dtype(torch.float32)


CALLS: dict[str, dict[str, Any]] = {
    "without gradients": {"call": under(torch.no_grad)},
    "in inference mode": {"call": under(torch.inference_mode)},
    "with autocast": {"call": under(lambda: torch.autocast("cpu", dtype=torch.bfloat16))},
    "another default dtype": {"call": under(DefaultDtype)},
    "other sizes": {"x": torch.ones(5, 4)},
    "other strides": {"x": torch.ones(4, 3).t()},
    "another dtype of a result": {"x": X.double().float().requires_grad_()},
    "a subclass of tensors": {"x": nn.Parameter(X.clone())},
    "no symbols": {"dynamic": False},
    "symbols": {"dynamic": True},
    "regions": {"regions": True},
    "one piece": {"fullgraph": True},
}


@pytest.mark.parametrize("change", CALLS)
def test_other_calls_are_noticed(programs: Programs, change: str) -> None:
    assert outcome(programs.start()) == 1
    assert outcome(programs.start(), **CALLS[change]) == 1
    assert outcome(programs.start()) == 0
    assert outcome(programs.start(), **CALLS[change]) == 0


def test_entries_for_other_sizes_are_found_too(programs: Programs) -> None:
    """Entries that a process has compiled for several sizes serve these sizes in the next process."""
    compiled = framejit.compile(programs.start().made(), backend="eager")
    for rows in (3, 5, 7):
        compiled(torch.ones(rows, 4))
    assert framejit.statistics()["frames"] == 2
    compiled = framejit.compile(programs.start().made(), backend="eager")
    for rows in (9, 3, 1):
        compiled(torch.ones(rows, 4))
    assert framejit.statistics()["frames"] == 1  # for one row, to which sizes from two on don't apply


def test_compiled_functions_without_a_name(on_disk: pathlib.Path) -> None:
    """A function in another, with a closure, needs no name: it is the one that is called."""

    def start(amount: float, tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
        framejit.reset()
        compiled = framejit.compile(lambda x: (x * amount + tensor).sum() + len(str(amount)), backend="eager")
        return compiled(X), framejit.statistics()["frames"]

    tensor = torch.ones(4)
    expected = (X * 2.0 + tensor).sum() + 3
    assert start(2.0, tensor) == (expected, 1)
    assert start(2.0, torch.ones(4)) == (expected, 0)
    assert start(4.0, tensor) == ((X * 4.0 + tensor).sum() + 3, 1)
    assert start(2.0, torch.ones(1)) == (expected, 1)


def test_effects_are_replayed(on_disk: pathlib.Path) -> None:
    """Changes of lists and dicts are made on the objects of this process."""

    def start() -> int:
        framejit.reset()
        seen: list[Any] = []
        state = {"calls": 0}

        def step(x: torch.Tensor) -> torch.Tensor:
            seen.append(x + 1)
            state["calls"] += 1
            return x * state["calls"]

        compiled = framejit.compile(step, backend="eager")
        torch.testing.assert_close(compiled(X), X)
        torch.testing.assert_close(seen, [X + 1])
        assert state == {"calls": 1}
        return int(framejit.statistics()["frames"])

    assert [start(), start(), start()] == [1, 0, 0]


def test_exceptions_lead_to_the_programs_line(programs: Programs) -> None:
    programs.edit("return x + float(", "x = x.view(5, 7) if x.sum() is not None else x\n        return x + float(")
    for _ in range(2):
        with pytest.raises(RuntimeError) as raised:
            framejit.compile(programs.start().made(), backend="eager")(X)
        assert "x.view(5, 7)" in str(raised.traceback[-1].statement)


def test_handlers_see_errors_of_kept_graphs(on_disk: pathlib.Path) -> None:
    def start(index: int) -> tuple[Any, int]:
        framejit.reset()

        def look_up(x: torch.Tensor, index: torch.Tensor) -> Any:
            try:
                return torch.nn.functional.embedding(index, x)
            except IndexError:
                return "no such row"

        compiled = framejit.compile(look_up, backend="eager")
        compiled(table, torch.tensor([0]))
        found = compiled(table, torch.tensor([index]))
        return found if isinstance(found, str) else found.tolist(), int(framejit.statistics()["frames"])

    table = torch.arange(6.0).reshape(3, 2)
    assert [start(2), start(2), start(3)] == [([[4.0, 5.0]], 1), ([[4.0, 5.0]], 0), ("no such row", 0)]


# What isn't kept.


def compiled_twice(function: Callable[..., Any], *args: Any) -> int:
    """Return the number of compilations of a function in two runs. A reset before each stands for a new process."""
    frames = 0
    for _ in range(2):
        framejit.reset()
        framejit.compile(function, backend="eager")(*args)
        frames += framejit.statistics()["frames"]
    return frames


def test_frames_that_run_uncompiled_arent_kept(on_disk: pathlib.Path) -> None:
    def raises(x: torch.Tensor) -> torch.Tensor:
        raise ValueError(tuple((x + 1).shape))

    for _ in range(2):
        framejit.reset()
        with pytest.raises(ValueError, match="3, 4"):
            framejit.compile(raises, backend="eager")(X)
    assert not list(on_disk.rglob(f"*{folder.ENTRY}"))


def test_objects_without_a_name_arent_kept(on_disk: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    class Flag:
        pass

    flag = Flag()

    def asks(x: torch.Tensor, given: Any) -> torch.Tensor:
        return x + 1 if given is flag else x - 1

    caplog.set_level("INFO", "framejit.cache")
    assert compiled_twice(asks, X, flag) == 2
    assert "isn't kept for later processes: it refers to" in caplog.text


def test_nothing_is_kept_if_that_is_off(on_disk: pathlib.Path) -> None:
    with config.replace(cache=False):
        assert compiled_twice(lambda x: x + 1, X) == 2
    assert not list(on_disk.rglob("*")) if on_disk.exists() else True


def test_quick_compilations_arent_kept(on_disk: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "LEAST_SECONDS", 60)
    assert compiled_twice(lambda x: x + 1, X) == 2


def test_explain_compiles(on_disk: pathlib.Path) -> None:
    """A report about a compilation needs one."""
    compiled_twice(step := lambda x: x + 1, X)
    assert framejit.explain(step, backend="eager")(X).graphs


# Damaged files, and folders that can't be used.


def entry_of(function: Callable[..., Any], place: pathlib.Path) -> pathlib.Path:
    framejit.reset()
    framejit.compile(function, backend="eager")(X)
    (found,) = place.rglob(f"*{folder.ENTRY}")
    return found


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut off": lambda data: data[: len(data) // 2],
    "a byte changed": lambda data: data[:-20] + bytes([data[-20] ^ 1]) + data[-19:],
    "of another program": lambda data: b"something else entirely",
    "of another format": lambda data: data.replace(b"framejit entry 1", b"framejit entry 0"),
    "not a pickle": lambda data: folder.MAGIC + folder.digest(b"nonsense").encode() + b"nonsense",
    "runs code": lambda data: folder.MAGIC + folder.digest(EVIL).encode() + EVIL,
}
EVIL = b"cos\nsystem\n(S'exit 1'\ntR."


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_entries_are_ignored(on_disk: pathlib.Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    path = entry_of(step := lambda x: x * 2, on_disk)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    caplog.set_level("INFO", "framejit.cache")
    framejit.reset()
    torch.testing.assert_close(framejit.compile(step, backend="eager")(X), X * 2)
    assert framejit.statistics()["frames"] == 1
    assert "damaged" in caplog.text or "can't be read" in caplog.text


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no such users here")
def test_folders_of_others_arent_used(on_disk: pathlib.Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    on_disk.mkdir(mode=0o777)
    on_disk.chmod(0o777)
    assert compiled_twice(lambda x: x * 2, X) == 2
    assert "because others may write to it" in caplog.text
    assert not list(on_disk.iterdir())


def test_a_folder_that_cant_be_made(on_disk: pathlib.Path) -> None:
    on_disk.write_text("a file stands in its place")
    assert compiled_twice(lambda x: x * 2, X) == 2


def test_a_disk_that_is_full(on_disk: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert compiled_twice(lambda x: x * 2, X) == 2
    assert not [path for path in on_disk.rglob("*") if path.is_file()]


def test_entries_are_freed(programs: Programs) -> None:
    """A module that is gone takes the entries with it that were read for it."""
    import gc
    import weakref

    outcome(programs.start())
    layer = programs.start().made()
    framejit.compile(layer, backend="eager")(X)
    assert framejit.statistics()["frames"] == 0
    reference = weakref.ref(layer)
    del layer
    gc.collect()
    assert reference() is None


# Processes.


def run(program: str, **variables: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


IMPORTED_IN_C = """
    import torch
    import framejit
    from framejit.driver import kept

    def step(x):
        return x + torch.full((3,), 1 / 4)  # for its first call, torch imports a module in C++

    kept.LEAST_SECONDS = 0
    print(framejit.compile(step, backend="eager")(torch.ones(3)).tolist(), framejit.statistics()["frames"])
"""


def test_kept_graphs_import_what_their_operators_need(tmp_path: pathlib.Path) -> None:
    variables = {"FRAMEJIT_CACHE": "1", "FRAMEJIT_CACHE_DIR": str(tmp_path), "FRAMEJIT_CHECK": ""}
    assert [run(IMPORTED_IN_C, **variables).split()[-1] for _ in range(2)] == ["1", "0"]


EXCEPTIONAL = """
    import sys
    import torch
    import framejit
    from framejit.driver import kept

    def step(x):
        y = x.sin()
        if y.sum() > 100:
            print("large")
        return y * 2

    kept.LEAST_SECONDS = 0
    fast = framejit.compile(step, backend="eager")
    fast(-torch.ones(300))
    before = framejit.statistics()["frames"]
    for _ in range(2):
        fast(torch.ones(300))
    fast(-torch.ones(300))
    print(before, framejit.statistics()["graph_breaks"])
"""


def test_exceptional_ways_of_kept_entries_are_counted(tmp_path: pathlib.Path) -> None:
    variables = {"FRAMEJIT_CACHE": "1", "FRAMEJIT_CACHE_DIR": str(tmp_path), "FRAMEJIT_CHECK": ""}
    assert [run(EXCEPTIONAL, **variables).split("\n")[-2:] for _ in range(2)] == [["1 1", ""], ["0 1", ""]]


OF_THE_PROCESS = """
    import copy
    import enum
    import functools
    import os

    import torch
    import framejit
    from framejit.driver import kept

    class Plain:
        def __init__(self):
            self.names = frozenset({"q", "w", "e", "r"})

    class Kind(enum.Enum):
        A, B, C = 1, 2, 3

    SETTINGS = {"sizes": [1, 2], "kind": Kind.A, "names": ["one", "two", "three"]}
    PLAIN, NAMES, SWITCH = Plain(), frozenset({"alpha", "beta", "gamma", "delta"}), os.environ["SWITCH"]

    @framejit.assume_constant_result
    def probe():
        return SWITCH

    @framejit.assume_constant_result
    def probe_of_several():
        return [SWITCH]

    @functools.lru_cache
    def cached(n):
        return n * len(SWITCH)

    def changed_set():
        names = {"alpha", "beta"}
        names.add("gamma")
        names.update(("delta", "epsilon"))
        return list(names), names.pop()

    ANSWERS = {
        "address": lambda: id(PLAIN),
        "address of a class": lambda: id(Plain),
        "address as a key": lambda: {id(PLAIN): 1},
        "order by address": lambda: [type(each).__name__ for each in sorted([PLAIN, Kind.A, NAMES], key=id)],
        "hash": lambda: hash("abc"),
        "hash of a tuple": lambda: hash(("abc", 1)),
        "hash of a class": lambda: hash(Plain),
        "constant set": lambda: [name for name in {"alpha", "beta", "gamma", "delta"}],
        "changed set": changed_set,
        "global set": lambda: list(NAMES),
        "default": lambda names=frozenset({"a", "b", "c", "d"}): list(names),
        "attribute": lambda: list(PLAIN.names),
        "set as text": lambda: str({"alpha", "beta", "gamma"}),
        "set of members": lambda: [kind.name for kind in {Kind.A, Kind.B, Kind.C}],
        "set of classes": lambda: [cls.__name__ for cls in {int, str, float, Plain}],
        "dict of a set": lambda: list(dict.fromkeys({"alpha", "beta", "gamma"})),
        "common names": lambda: list(NAMES & {"beta", "gamma", "delta", "zeta"}),
        "directory": lambda: os.getcwd(),
        "process": lambda: os.getpid(),
        "assumed": probe,
        "assumed list": probe_of_several,
        "cached": lambda: cached(3),
        "set of ints": lambda: [n for n in {3, 1, 2}],
        "look-up": lambda: "alpha" in {"alpha", "beta"},
        "set of a list": lambda: list(set(SETTINGS["names"])),
        "changed set of a list": lambda: [name for name in set(SETTINGS["names"]) | {SETTINGS["kind"].name}],
        "deep copy": lambda: copy.deepcopy(SETTINGS),
    }
    kept.LEAST_SECONDS = 0
    taken = []
    for name, answer in ANSWERS.items():
        framejit.reset()
        step = lambda x: (x + 1, answer())
        assert repr(framejit.compile(step, backend="eager")(torch.ones(2))) == repr(step(torch.ones(2))), name
        taken += [name] if framejit.statistics()["frames"] == 0 else []
    print(*taken, sep=",")
"""


def test_answers_of_one_process_arent_those_of_another(tmp_path: pathlib.Path) -> None:
    """Addresses, hashes and orders of sets are other ones, and so may be what functions give that are assumed to be constant."""
    variables = {"FRAMEJIT_CACHE": "1", "FRAMEJIT_CACHE_DIR": str(tmp_path), "FRAMEJIT_CHECK": ""}
    for seed, switch in (("1", "a"), ("2", "bcd"), ("3", "bcd"), ("3", "bcd")):
        taken = run(OF_THE_PROCESS, PYTHONHASHSEED=seed, SWITCH=switch, **variables).strip().split(",")
    assert {"assumed", "set of ints", "look-up", "deep copy", "set of a list"} <= {*taken}


WITH_INDUCTOR = """
    import sys
    import torch
    import framejit
    from framejit.driver import kept

    kept.LEAST_SECONDS = 0

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.up, self.down = torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

        def forward(self, x):
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))

    torch.manual_seed(0)
    model = torch.nn.Sequential(*[Block() for _ in range(2)]).eval()
    x = torch.randn(3, 8)
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x):
            self.seen.add_(x.sum(1))
            return self.seen * 2

    counts, twin = Counts(), Counts()
    counting = framejit.compile(counts)
    with torch.no_grad():
        for _ in range(2):
            version = counts.seen._version
            assert torch.allclose(counting(x), twin(x), atol=1e-5) and torch.allclose(counts.seen, twin.seen, atol=1e-5)
            assert counts.seen._version > version
    compiled = framejit.compile(model)
    with torch.no_grad():
        assert torch.allclose(compiled(x), model(x), atol=1e-5)
        assert torch.allclose(compiled(x * 2), model(x * 2), atol=1e-5)
    print(framejit.statistics()["frames"], *[name in sys.modules for name in ("torch._dynamo", "torch._inductor", "sympy", "framejit.compiler.compile")])
"""


def test_inductors_code_runs_without_loading_a_compiler(tmp_path: pathlib.Path) -> None:
    variables = {"FRAMEJIT_CACHE": "1", "FRAMEJIT_CACHE_DIR": str(tmp_path), "FRAMEJIT_CHECK": ""}
    assert run(WITH_INDUCTOR, **variables).split() == ["2", *["True"] * 4]
    assert run(WITH_INDUCTOR, **variables).split() == ["0", *["False"] * 4]
    for library in tmp_path.rglob(f"*{folder.LIBRARY}"):
        library.write_bytes(b"not a library")
    assert run(WITH_INDUCTOR, **variables).split()[0] == "2"
