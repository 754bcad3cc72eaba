"""Graph breaks inside library code: they are taken at the program's call of the library, once, and everything stays as it is in eager."""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import dataclasses
import functools
import gc
import inspect
import io
import json
import logging
import os
import pprint
import queue
import random
import re
import string
import sys
import tempfile
import threading
import traceback
import types
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import test.support
import torch
from torch import nn

import framejit
from framejit.errors import UserFrame
from framejit.program import code_kinds
from framejit.program.code_kinds import CodeKind
from framejit.program.naming import imported_name
from framejit.reporting.split_calls import at
from framejit.tracing import boundary

x = torch.arange(1.0, 5.0)
eager = functools.partial(framejit.compile, backend="eager")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    framejit.reset()
    yield


class Counts:
    """The increase of framejit's statistics since this object was made."""

    def __init__(self) -> None:
        self.before = framejit.statistics()

    def __getattr__(self, name: str) -> int:
        return framejit.statistics()[name] - self.before[name]


class Lines(logging.Handler):
    """Formats records as a program's handler does, and keeps the text."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s %(filename)s:%(lineno)d %(funcName)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


handler = Lines()
logger = logging.getLogger("tests.boundary")
logger.propagate = False
logger.addHandler(handler)


@pytest.fixture(autouse=True)
def logged() -> Iterator[list[str]]:
    logger.setLevel(logging.INFO)
    handler.lines.clear()
    yield handler.lines


# ---- one break for a call ----


@dataclasses.dataclass
class Point:
    x: int
    y: int


class OfPoints(json.JSONEncoder):
    def default(self, value: Any) -> Any:
        return dataclasses.asdict(value) if isinstance(value, Point) else super().default(value)


@functools.singledispatch
def size(value: Any) -> int:
    return 1


@size.register
def _(value: str) -> int:
    return len(value)


def parsed() -> int:
    parser = argparse.ArgumentParser(prog="tests")
    parser.add_argument("--size", type=int)
    return parser.parse_args(["--size", "4"]).size


def saved(v: torch.Tensor) -> torch.Tensor:
    file = io.BytesIO()
    torch.save({"v": v, "step": 3}, file)
    file.seek(0)
    return torch.load(file)["v"]


def sent(waiting: queue.Queue[int]) -> int:
    waiting.put(3)
    return waiting.get()


linear = nn.Linear(4, 4)
waiting: queue.Queue[int] = queue.Queue()
NOWHERE = open(os.devnull, "w")
CONFIG = {"name": "model", "sizes": [1, 2, 3], "nested": {"rate": 0.5, "none": None}}
CALLS: dict[str, tuple[int, Callable[[torch.Tensor], Any]]] = {
    "logging": (1, lambda v: logger.info("step %d of %s", 3, "all")),
    "logging.exception": (1, lambda v: logger.exception("no exception")),
    "logging, off": (0, lambda v: logger.debug("step %d", 3)),
    "warnings, which pytest records": (1, lambda v: warnings.warn("careful", UserWarning, stacklevel=2)),
    "warnings, of a line outside": (1, lambda v: warnings.warn("careful", UserWarning, stacklevel=9)),
    "json.dumps": (0, lambda v: json.dumps(CONFIG)),
    "json.dumps, indent": (0, lambda v: json.dumps(CONFIG, indent=2, sort_keys=True)),
    "json.dumps, encoder": (0, lambda v: json.dumps([Point(1, 2)], cls=OfPoints)),
    "json.loads": (0, lambda v: json.loads('{"a": [1, 2.5, null, {"b": "c"}]}')),
    "copy.deepcopy of a module": (0, lambda v: copy.deepcopy(linear)(v).detach()),
    "copy.deepcopy of tensors": (0, lambda v: copy.deepcopy([v, {"v": v}])),
    "copy.deepcopy of lists": (0, lambda v: copy.deepcopy([1, [2, {"a": 3}]])),
    "copy.copy": (0, lambda v: copy.copy([1, 2])),
    "pprint": (0, lambda v: pprint.pformat(CONFIG)),
    "string.Formatter": (0, lambda v: string.Formatter().format("{} {a!r:>4}", 1, a=2)),
    "string.Template": (0, lambda v: string.Template("$a b").substitute(a=3)),
    "random": (0, lambda v: random.Random(3).sample(range(9), 3)),
    "argparse": (3, lambda v: parsed()),
    "queue": (2, lambda v: sent(waiting)),
    "singledispatch": (0, lambda v: size("abc")),
    "torch.save and load": (5, saved),
    "repr of a tensor": (1, lambda v: repr(v)),
    "dataclasses.asdict": (0, lambda v: dataclasses.asdict(Point(1, 2))),
    "re.compile": (0, lambda v: re.compile(r"a(b|c)+[d-f]{2,3}").pattern),
    "traceback": (1, lambda v: len(traceback.extract_stack()) > 2),
    "autograd.functional.jacobian": (1, lambda v: torch.autograd.functional.jacobian(lambda u: u.tanh(), v, strict=True)),
}


@pytest.mark.parametrize("name", CALLS)
def test_one_break_for_each_call(name):
    uses, act = CALLS[name]

    def program(a):
        b = a.sin()
        found = act(b)
        return b.cos() + 1, found

    expected, made = program(x)
    compiled, counts = eager(program), Counts()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            got, found = compiled(x)
            assert torch.equal(got, expected)
            assert type(found) is type(made)
            assert repr(found) == repr(made)
    assert counts.graph_breaks <= uses, framejit.statistics()["reasons"]
    assert counts.graphs == (2 if uses else 1)
    assert counts.recompiles == counts.fallbacks == 0


def test_a_call_that_always_breaks_is_no_longer_traced(monkeypatch):
    """The library's frames cost time in each trace; two traces are enough to know better."""
    entered = []

    def spy(self, frame):
        entered.append(frame.code.co_filename)
        return run_frame(self, frame)

    def program(a):
        b = a.sin()
        logger.info("shape %s", tuple(a.shape))
        return b.cos()

    compiled = framejit.compile(program, backend="eager", dynamic=False)
    compiled(torch.ones(1))
    tracer = sys.modules["framejit.tracing.tracer"].Tracer
    run_frame = tracer.run_frame
    monkeypatch.setattr(tracer, "run_frame", spy)
    compiled(torch.ones(2))
    assert logging.__file__ in entered
    entered.clear()
    compiled(torch.ones(3))
    assert entered
    assert logging.__file__ not in entered
    framejit.reset()
    entered.clear()
    compiled(torch.ones(4))
    assert logging.__file__ in entered
    assert [line.rpartition(" ")[2] for line in handler.lines] == ["(1,)", "(2,)", "(3,)", "(4,)"]


def test_a_call_that_broke_once_may_be_traced_the_next_time():
    def program(a):
        b = a.sin()
        logger.info("here")
        return b.cos()

    compiled, counts = eager(program), Counts()
    compiled(torch.ones(1))
    assert counts.graph_breaks == 1
    logger.setLevel(logging.WARNING)
    assert not logger.isEnabledFor(logging.INFO)  # noted by the logger: the next time it takes no lock to find out
    compiled(torch.ones(2))
    assert counts.graph_breaks == 1
    assert len(handler.lines) == 1


def test_in_a_loop():
    """The program's frame goes on in a resume function, where the same call is met again."""

    def program(a):
        for step in range(6):
            a = a + step
            logger.info("step %d", step)
        return a

    compiled, counts = eager(program), Counts()
    assert torch.equal(compiled(x), program(x))
    assert len(handler.lines) == 12
    assert handler.lines[:6] == handler.lines[6:]
    made = counts.graphs
    compiled(x)
    assert counts.graphs == made


# ---- what is eager's stays eager's ----


def test_where_a_record_of_logging_was_made(logged):
    def inner(a):
        logger.warning("in a callee")
        return a + 1

    def program(a):
        logger.info("in the function")
        return inner(a.sin()).cos()

    program(x)
    expected = list(logged)
    logged.clear()
    eager(program)(x)
    assert logged == expected
    assert "test_boundary.py" in logged[0]
    assert logged[1].split()[3] == "inner"


def test_the_line_that_a_warning_is_about():
    def deprecated(a):
        warnings.warn("old", DeprecationWarning, stacklevel=2)
        return a + 1

    def program(a):
        return deprecated(a.sin()).cos()

    def places(function):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            function(x)
        return [(warning.filename, warning.lineno, str(warning.message)) for warning in caught]

    assert places(eager(program)) == places(program) != []


def test_what_inspect_finds_on_the_stack():
    def inner():
        return inspect.stack()

    def program(a):
        b = a + 1
        found = inner()
        return b.sin(), found

    def places(function):
        found = [(info.function, info.lineno, info.code_context) for info in function(x)[1] if info.filename == __file__]
        return found[: 1 + [name for name, *_ in found].index("program")]

    counts = Counts()
    assert places(eager(program)) == places(program)
    assert [name for name, *_ in places(eager(program))] == ["inner", "program"]
    assert counts.graph_breaks == 1


def test_exceptions_of_the_library():
    def program(a, text):
        b = a.sin()
        found = json.loads(text)
        return b.cos() + found

    def failing(function):
        with pytest.raises(json.JSONDecodeError) as caught:
            function(x, "{")
        return [(frame.name, frame.lineno) for frame in traceback.extract_tb(caught.value.__traceback__)][1:], str(caught.value)

    compiled = eager(program)
    assert torch.equal(compiled(x, "3"), program(x, "3"))
    assert failing(compiled) == failing(program)


def test_exceptions_of_the_library_that_the_program_handles():
    def program(a, text):
        b = a.sin()
        try:
            b = b + json.loads(text)
        except ValueError as error:
            b = b * error.colno
        return b.cos()

    compiled, counts = eager(program), Counts()
    for text in ("3", "{", "3", "{"):
        assert torch.equal(compiled(x, text), program(x, text))
    assert counts.fallbacks == 0


# ---- the program's own functions beneath the library's ----


def test_what_the_library_calls_back_is_compiled():
    """By its code in Python: functions that C code calls run uncompiled."""

    def listed(value):
        return (value.sin() * 2 + 1).tolist()

    def program(a):
        b = a.sin()
        return b.cos(), "".join(json.JSONEncoder(default=listed).iterencode({"b": b}))

    compiled = eager(program)
    for _ in range(2):
        got, expected = compiled(x), program(x)
        assert torch.equal(got[0], expected[0])
        assert got[1] == expected[1]
    assert [made.function.__name__ for made in compiled.upcalls.compiled if any(entry.code for entry in made.entries)] == ["listed"]


def test_a_break_in_what_the_library_calls_back_is_the_callbacks():
    """The program's frame is the innermost one: the library's around it goes on after the break as any other."""

    class Counting(dict):
        def __missing__(self, key):
            framejit.graph_break()
            return len(key)

    def program(a):
        b = a.sin()
        found = collections.ChainMap(Counting())["abc"]
        return b + found

    compiled, counts = eager(program), Counts()
    assert torch.equal(compiled(x), program(x))
    assert counts.graph_breaks == 1
    assert "FJ008" in framejit.statistics()["reasons"][-1]


class Managed(contextlib.ContextDecorator):
    """contextlib's wrapper calls the decorated function between `__enter__` and `__exit__`."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        logger.info("done")


@Managed()
def computes(a):
    return a.sin().cos().tan().exp()


def test_operations_beneath_a_wrapper_of_the_library_stay_in_the_graph():
    def program(a):
        return computes(a * 2) + 1

    graphs = []

    def keep(gm, inputs):
        graphs.append([node.target for node in gm.graph.nodes if node.op in ("call_function", "call_method")])
        return gm.forward

    compiled = framejit.compile(program, backend=keep)
    assert torch.equal(compiled(x), program(x))
    assert [len(graph) for graph in graphs] == [5, 1]


def test_modules_of_torch_are_split_in_the_middle():
    class Own(nn.Module):
        def forward(self, a):
            print("own", file=NOWHERE)
            return a.sin()

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), Own(), nn.Linear(4, 4))
    compiled, counts = eager(model), Counts()
    with torch.no_grad():
        assert torch.equal(compiled(x), model(x))
    assert counts.graphs == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", ["jvp", "hvp", "hessian"])
def test_derivatives_of_derivatives(name, backend):
    """They differentiate what autograd has computed: a graph that AOTAutograd makes of the program's function can't be."""
    function = getattr(torch.autograd.functional, name)
    weight = torch.full((4,), 2.0, requires_grad=True)

    def scored(a):
        found = (a * weight).tanh()
        return found if name == "jvp" else found.sum()

    def program(a):
        return function(scored, a.sin(), *([] if name == "hessian" else [torch.ones(4)]), strict=True)

    compiled, counts = framejit.compile(program, backend=backend), Counts()
    for _ in range(2):
        torch.testing.assert_close(compiled(x), program(x))
    assert counts.graph_breaks == 1


def test_library_code_as_the_compiled_function():
    compiled, counts = eager(json.dumps), Counts()
    assert compiled(CONFIG) == json.dumps(CONFIG)
    assert compiled(CONFIG) == json.dumps(CONFIG)
    assert counts.graph_breaks + counts.fallbacks <= 2


def test_threads_temporary_folders_and_progress():
    def program(a):
        found: list[int] = []
        thread = threading.Thread(target=found.append, args=(3,))
        thread.start()
        thread.join()
        with tempfile.TemporaryDirectory() as folder:
            b = a + len(folder) * 0
        return b.sin(), found

    compiled, counts = eager(program), Counts()
    for _ in range(2):
        got, found = compiled(x)
        assert torch.equal(got, x.sin())
        assert found == [3]
    assert counts.graph_breaks <= 9


# ---- messages ----


def test_messages_are_about_the_programs_line():
    def program(a):
        b = a.sin()
        logger.info("here")
        return b.cos()

    eager(program)(x)
    reason = framejit.statistics()["reasons"][-1]
    line = inspect.getsourcelines(program)[1] + 2
    assert reason.startswith("FJ043 call of logging.Logger.info()")
    assert reason.endswith(f"{__file__}:{line}")
    (broke,) = framejit.explain(program, backend="eager")(x).breaks
    assert broke.id == "FJ043"
    assert broke.place == f"{__file__}:{line}"


def test_an_error_is_about_the_programs_line():
    def program(a):
        return uuid.uuid4().version, a + 1

    with pytest.raises(framejit.Unsupported) as caught:
        framejit.compile(program, backend="eager", fullgraph=True)(x)
    assert caught.value.reason.id == "FJ043"
    assert [frame.filename for frame in caught.value.stack] == [__file__]


def advice_of(program: Any, *args: Any) -> list[str]:
    """Return the advice about the breaks inside library code, without the words that introduce each piece."""
    text = "\n".join(stop.text for stop in framejit.explain(program)(*args).breaks if stop.id == "FJ043")
    return re.findall(r"(?:What to do|      or): (.*)", text)


def test_advice_is_about_what_the_call_is_made_for():
    def uses_result(a):
        return uuid.uuid4().version, a + 1

    def writes(a):
        torch.save(a, io.BytesIO())
        return a + 1

    def tells(a):
        pprint.pprint({"a": 1}, stream=NOWHERE)
        return a + 1

    assert advice_of(uses_result, x) == ["Call it outside the compiled function, and pass in what it returns."]
    assert advice_of(writes, x) == ["Move the call out of the compiled function, to before or after it."]
    assert advice_of(tells, x)[0] == "Leave it out of compiled code with `if not framejit.is_compiling():`."


def test_what_a_wrapper_is_around_is_named_as_programs_import_it():
    assert imported_name(torch.distributed.all_reduce) == "torch.distributed.all_reduce"
    assert imported_name(torch.distributed.distributed_c10d._object_to_tensor) == "torch.distributed.distributed_c10d._object_to_tensor"
    assert imported_name(logging.Logger.info) == "logging.Logger.info"
    assert imported_name(advice_of) == f"{__name__}.advice_of"


PACKAGE = """
import functools

def logged(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper

@logged
def counted(items):
    return sum(memoryview(items))

def hook(module, args):
    counted(b"ab")
"""


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of a package that doesn't know torch; the package shows its function, around which there is a wrapper."""
    file = code_kinds.INSTALLED[0] + "framejit_tests/inside.py"
    inside, package = types.ModuleType("framejit_tests.inside"), types.ModuleType("framejit_tests")
    inside.__file__ = file
    exec(compile(PACKAGE, file, "exec"), inside.__dict__)
    package.counted, package.hook = inside.counted, inside.hook
    monkeypatch.setitem(sys.modules, "framejit_tests", package)
    monkeypatch.setitem(sys.modules, "framejit_tests.inside", inside)
    return package


def test_the_programs_call_is_named_and_not_a_wrapper(installed):
    def program(a):
        return a + installed.counted(b"ab")

    eager(program)(x)
    [reason] = framejit.statistics()["reasons"]
    assert reason.startswith("FJ043 call of framejit_tests.counted(), library code that cannot be traced to its end: FJ")
    assert "(framejit_tests/inside.py:12)" in reason and reason.endswith(f"at {__file__}:{program.__code__.co_firstlineno + 1}")


def test_the_line_of_the_program_comes_before_that_of_a_library():
    frames = [UserFrame(__file__, "program", 5), UserFrame(nn.Linear.forward.__code__.co_filename, "Linear.forward", 134)]
    assert at(frames) == f" at {__file__}:5 (in torch/nn/modules/linear.py:134)"
    assert at(frames[:1]) == f" at {__file__}:5" and at(frames[1:]).endswith("torch/nn/modules/linear.py:134") and at([]) == ""


def test_advice_about_hooks_of_modules(installed):
    module = nn.Linear(4, 4)
    module.register_forward_pre_hook(installed.hook)
    assert advice_of(module, x) == [
        "Compile the module's forward rather than the module, `m.forward = framejit.compile(m.forward)`; hooks run around it."
    ]
    expected = module(x)
    module.forward = eager(module.forward, fullgraph=True)
    assert torch.equal(module(x), expected)


# ---- what is library code ----


def made_by_a_library() -> Any:
    namespace: dict[str, Any] = {"__file__": __file__, "__name__": __name__}
    exec("def wrapper(a):\n    return a", namespace)
    return namespace["wrapper"]


def typed_at_a_prompt() -> Any:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("def typed(a):\n    return a", "<stdin>", "exec"), namespace)
    return namespace["typed"]


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (x.__class__.__repr__, CodeKind.TENSORS),
        (nn.Linear.forward, CodeKind.TENSORS),
        (nn.functional.softmax, CodeKind.TENSORS),
        (torch.optim.SGD.step, CodeKind.MACHINERY),
        (torch.save, CodeKind.WRAPPER),
        (torch.autograd.functional.jacobian, CodeKind.MACHINERY),
        (torch.compile, CodeKind.WRAPPER),
        (json.dumps, CodeKind.MACHINERY),
        (test.support.captured_stdout, CodeKind.PROGRAM),
        (copy.deepcopy, CodeKind.MACHINERY),
        (sys.modules["importlib._bootstrap"]._find_and_load, CodeKind.MACHINERY),
        (contextlib.ContextDecorator.__call__, CodeKind.WRAPPER),
        (functools.singledispatch, CodeKind.WRAPPER),
        (pytest.raises, CodeKind.WRAPPER),
        (framejit.compile, CodeKind.OURS),
        (Point.__init__, CodeKind.WRAPPER),
        (made_by_a_library(), CodeKind.WRAPPER),
        (typed_at_a_prompt(), CodeKind.PROGRAM),
        (parsed, CodeKind.PROGRAM),
        (OfPoints.default, CodeKind.PROGRAM),
    ],
)
def test_kinds(function, kind):
    function = inspect.unwrap(function)
    assert code_kinds.kind_of(function.__code__, function.__globals__) is kind


@pytest.mark.parametrize(
    ("namespace", "known"),
    [
        ({"torch": torch}, True),
        ({"F": nn.functional}, True),
        ({"Module": nn.Module}, True),
        ({"softmax": nn.functional.softmax}, True),
        ({"relu": torch.relu}, True),
        ({"json": json, "number": 3, "text": "torch", "Point": Point}, False),
    ],
)
def test_who_knows_torch(namespace, known):
    assert code_kinds.knows_torch(namespace) is known


def test_nothing_is_kept_of_code_that_is_gone():
    namespace: dict[str, Any] = {"__file__": __file__}
    exec("def wrapper(a):\n    print('broken')\n    return a", namespace)

    def program(a, wrapper):
        return wrapper(a.sin()).cos()

    eager(program)(x, namespace["wrapper"])
    code = weakref.ref(namespace["wrapper"].__code__)
    assert code() in [known.code() for known in boundary._known.values()]
    framejit.reset()
    assert not boundary._known
    namespace.clear()
    gc.collect()
    assert code() is None


# ---- what decorators of a library put around functions of the program ----

DECORATORS = """
import functools
import uuid

prepared = []

def prepare(model):
    model.ready = True
    prepared.append((model, uuid.uuid4()))

def preparing(function):
    @functools.wraps(function)
    def wrapper(model, *args):
        if not model.ready:
            prepare(model)
        return function(model, *args)
    return wrapper

def passing(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper
"""


@pytest.mark.parametrize("around", [(), ("passing",), ("passing", "passing")])
def test_the_decorated_function_is_in_one_graph_behind_what_breaks_in_a_librarys_decorator(around):
    """Libraries prepare a model so, in its first call."""
    library = types.ModuleType("decorators")
    library.__file__ = "decorators.py"
    exec(compile(DECORATORS, "<decorators>", "exec"), library.__dict__)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ready = False
            self.linear = linear

        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return self.layer(self.layer(a.sin()))

        def layer(self, a: torch.Tensor) -> torch.Tensor:
            return self.linear(a).cos()

    for name in ("preparing", *around):
        Model.forward = getattr(library, name)(Model.forward)  # type: ignore[method-assign]
    expected = Model()(x)
    model, counts = eager(Model()), Counts()
    assert torch.equal(model(x), expected)
    assert (counts.graphs, counts.graph_breaks, counts.fallbacks) == (1, 1, 0)
    assert model.ready
    assert len(library.prepared) == 2
    assert torch.equal(model(x), expected)
    assert torch.equal(model(x), expected)
    assert (counts.graphs, counts.graph_breaks, counts.fallbacks) == (2, 1, 0)


# ---- what libraries remember: functions under lru_cache ----

LIBRARY = """
import functools

class Recipe:
    def __init__(self, text):
        self.sizes = [int(part) for part in text.split(",")]

made = []
offset = 1

@functools.lru_cache(4)
def recipe(text, *, scale=1):
    return Recipe(text)

@functools.lru_cache(4)
def sizes(found, shape):
    return [size * length + offset for size, length in zip(found.sizes, shape)], shape

@functools.lru_cache(4)
def counted(text):
    made.append(text)
    return Recipe(text)

@functools.lru_cache(4)
def limited(text):
    if offset == 1:
        return Recipe(text)
    raise ValueError(offset)
"""


@pytest.fixture
def remembering() -> Any:
    """A library that remembers what it has made: einops does so with its patterns."""
    module = types.ModuleType("remembering")
    module.__file__ = "remembering.py"
    exec(compile(LIBRARY, "<remembering>", "exec"), module.__dict__)
    return module


def same(got: Any, expected: Any) -> None:
    assert torch.equal(got[0], expected[0])
    assert got[1:] == expected[1:]


def test_objects_that_a_librarys_cache_has_made(remembering):
    def program(a, text):
        found = remembering.recipe(text, scale=2)
        lengths, shape = remembering.sizes(found, a.shape)
        return a.sin() * lengths[0], lengths, shape, found

    compiled, counts = eager(program), Counts()
    for text in ("1,2", "1,2", "3,4", "1,2"):
        got, expected = compiled(x, text), program(x, text)
        same(got, expected)
        assert got[3] is expected[3]
        assert got[1] is expected[1]
    assert counts.graph_breaks == counts.fallbacks == 0


def test_a_cache_that_has_forgotten(remembering):
    def program(a):
        found = remembering.recipe("1,2")
        return a * found.sizes[1], found

    compiled = eager(program)
    first = compiled(x)[1]
    assert compiled(x)[1] is first
    remembering.recipe.cache_clear()
    second = compiled(x)[1]
    assert second is not first
    assert second is remembering.recipe("1,2")
    for number in range(8):
        remembering.recipe(str(number))
    assert compiled(x)[1] is remembering.recipe("1,2") is not second


def test_what_a_cache_holds_is_changed(remembering):
    def program(a):
        return a * remembering.recipe("1,2").sizes[1], 0

    compiled = eager(program)
    same(compiled(x), program(x))
    remembering.recipe("1,2").sizes[1] = 7
    same(compiled(x), program(x))
    assert torch.equal(compiled(x)[0], x * 7)


def test_the_trace_changes_what_the_cached_function_reads(remembering):
    def program(a, found):
        found.sizes.append(3)
        return a + len(remembering.sizes(found, (1, 2, 3))[0]), 0

    compiled = eager(program)
    same(compiled(x, remembering.Recipe("1,2")), (x + 3, 0))
    same(compiled(x, remembering.Recipe("1,2")), (x + 3, 0))


def test_cached_functions_with_effects_are_called_where_they_are(remembering):
    def program(a):
        remembering.made.append("before")
        return a * remembering.counted("1,2").sizes[1], remembering.made[:]

    compiled = eager(program)
    got = [compiled(x)[1] for _ in range(2)]
    assert got == [["before", "1,2"], ["before", "1,2", "before"]]


def test_cached_functions_that_raise(remembering):
    def program(a):
        return a * remembering.limited("1,2").sizes[1], 0

    compiled = eager(program)
    same(compiled(x), program(x))
    remembering.offset = 5
    same(compiled(x), program(x))
    remembering.limited.cache_clear()
    for function in (program, compiled, compiled):
        with pytest.raises(ValueError, match="5"):
            function(x)


def test_einops():
    einops = pytest.importorskip("einops")

    def program(a):
        b = einops.rearrange(a.sin(), "(a b) -> b a", a=2)
        c = einops.reduce(b, "a b -> a", "mean")
        return einops.einsum(c, einops.repeat(c, "a -> a c", c=3), "a, a c -> c").cos(), 0

    program(x)
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for size in (4, 6, 4):
        same(compiled(torch.ones(size)), program(torch.ones(size)))
