"""Errors of graphs that depend on data, where the program has handlers for them: results, order of what is printed, modes, tracebacks."""

from __future__ import annotations

import contextlib
import gc
import io
import threading
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import Comparison
from scenarios import compiled_function
from torch.nn import functional as F

import framejit

IN_THE_PLACE_OF_EAGER = ["eager", "aot_eager"]
TABLE = torch.arange(12.0).reshape(4, 3)
GOOD, BAD = torch.tensor([0, 1, 2]), torch.tensor([0, 1, 9])
CASES: list[Callable[..., Any]] = []
lock = threading.Lock()


@pytest.fixture(autouse=True)
def entries_begin_anew() -> None:
    framejit.reset()


def case(function: Callable[..., Any]) -> Callable[..., Any]:
    CASES.append(function)
    return function


class Block:
    def __init__(self, suppresses: bool = False) -> None:
        self.suppresses = suppresses

    def __enter__(self) -> None:
        print("entered")

    def __exit__(self, kind: Any, value: Any, trace: Any) -> bool:
        print("left", kind, None if value is None else value.args)
        return self.suppresses


@contextlib.contextmanager
def managed():
    try:
        yield
    finally:
        print("cleaned")


@case
def caught(table, index):
    try:
        rows = F.embedding(index, table)
    except IndexError as error:
        print("caught", error)
        rows = table[:1]
    return rows + 1


@case
def caught_elsewhere(table, index):
    try:
        table = table * 2
    except IndexError:
        return None
    return F.embedding(index, table)


@case
def not_the_kind_that_is_caught(table, index):
    try:
        table = F.embedding(index, table)
    except (KeyError, TypeError):
        return None
    return table


@case
def finally_without_effects_before(table, index):
    try:
        return F.embedding(index, table) + 1
    finally:
        print("finally")


@case
def a_block_behind_a_break(table, index):
    with Block():
        print("in it")
        rows = F.embedding(index, table)
    return rows + 1


@case
def a_block_that_suppresses(table, index):
    rows = table
    with Block(suppresses=True):
        print("in it")
        rows = F.embedding(index, table)
    return rows + 1


@case
def a_block_of_the_trace(table, index):
    with managed():
        rows = F.embedding(index, table)
    return rows + 1


@case
def a_lock(table, index):
    with lock:
        print("locked", lock.locked())
        table = F.embedding(index, table)
    return table


@case
def gradients_off_behind_a_break(table, index):
    with torch.no_grad():
        print("in it")
        rows = F.embedding(index, table)
    return rows + 1


@case
def behind_a_block_that_has_a_break(table, index):
    with torch.no_grad(), lock, managed():
        print("in it")
        table = table + 1
    return F.embedding(index, table)


@case
def behind_an_inlined_block_that_has_a_break(table, index):
    def inner():
        with Block():
            print("in it")
            return table + 1

    return F.embedding(index, inner())


@case
def a_handler_around_inlined_calls(table, index):
    def look_up(n):
        return F.embedding(index + n, table) if n == 2 else look_up(n + 1)

    try:
        return look_up(0)
    except IndexError as error:
        print(error)
        return table + 1


@case
def only_whether_it_raises(table, index):
    try:
        F.embedding(index, table) * 2
        valid = True
    except IndexError:
        valid = False
    return valid, table + 1


@case
def only_whether_it_raises_in_a_view(table, index):
    try:
        F.embedding(index, table).reshape(-1)
        valid = True
    except IndexError:
        valid = False
    return valid, table + 1


@case
def only_whether_it_raises_and_nothing_else(table, index):
    try:
        rows = F.embedding(index, table)
    except IndexError:
        return "invalid"
    rows = rows + 1
    return "valid"


@case
def breaks_behind_the_error(table, index):
    for n in range(3):
        try:
            table = F.embedding(index, table) + n
        except IndexError:
            print("caught in", n)
            index = index.clamp(max=2)
        print("at the end of", n)
    return table


@case
def raised_anew(table, index):
    try:
        return F.embedding(index, table)
    except IndexError as error:
        raise ValueError("no such row") from error


@case
def random_numbers(table, index):
    try:
        rows = F.dropout(table, 0.5)
        return F.embedding(index, rows)
    except IndexError:
        return torch.rand(3)


@torch.library.custom_op("framejit_tests::drawing", mutates_args=())
def drawing(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(x.shape)


@drawing.register_fake
def _(x):
    return torch.empty_like(x)


LSTM = torch.nn.LSTM(3, 3, num_layers=2, dropout=0.5)
DRAWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rand_like": torch.rand_like,
    "new tensor": lambda x: torch.randn(4, 3) + x,
    "in place": lambda x: x.clone().uniform_(),
    "dropout": lambda x: F.dropout(x, 0.5),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5)[0],
    "lstm": lambda x: LSTM(x)[0],
    "gumbel_softmax": lambda x: F.gumbel_softmax(x),
    "rrelu": lambda x: F.rrelu(-x, training=True),
    "randperm": lambda x: x[torch.randperm(4)],
    "custom operator": drawing,
    "vmap": lambda x: torch.vmap(lambda row: row + torch.rand(()), randomness="different")(x),
    "checkpoint": lambda x: torch.utils.checkpoint.checkpoint(lambda y: F.dropout(y, 0.5), x, use_reentrant=False),
}


@pytest.mark.parametrize("inference", [False, True], ids=["", "inference mode"])
@pytest.mark.parametrize("name", DRAWS)
def test_numbers_that_a_graph_has_drawn_before_it_raises_are_drawn_again(name, inference):
    draw = DRAWS[name]

    def look_up(table, index):
        try:
            return F.embedding(index, draw(table))
        except IndexError:
            return draw(table)

    def called(function, index):
        with torch.inference_mode(inference):
            torch.manual_seed(0)
            return function(TABLE.clone(), index), torch.rand(3)

    for _ in range(2):  # torch knows the results of operators on fakes the second time
        framejit.reset()
        compiled = framejit.compile(look_up, backend="eager")
        for index in (GOOD, BAD):
            Comparison().same(called(compiled, index), called(look_up, index))


@pytest.mark.parametrize("inference", [False, True], ids=["", "inference mode"])
def test_a_graph_that_draws_nothing_asks_for_no_state_of_the_generator(inference, monkeypatch):
    def look_up(table, index):
        try:
            rows = F.embedding(index, F.dropout(table, training=False))
            rows = F.scaled_dot_product_attention(rows[None], rows[None], rows[None])[0]
            return F.layer_norm(F.linear(rows, torch.eye(3)), [3])
        except IndexError:
            return None

    class Asked:
        def get_state(self):
            pytest.fail("its state is asked for")

        def set_state(self, state):
            pytest.fail("its state is set")

    monkeypatch.setattr(torch, "default_generator", Asked())
    compiled = framejit.compile(look_up, backend="eager")
    with torch.inference_mode(inference):
        assert [compiled(TABLE, index) is None for index in (GOOD, BAD, GOOD)] == [False, True, False]


def observed(function: Callable[..., Any], index: torch.Tensor) -> tuple[Any, ...]:
    printed, value, raised = io.StringIO(), None, None
    torch.manual_seed(0)
    with contextlib.redirect_stdout(printed):
        try:
            value = function(TABLE.clone(), index)
        except Exception as error:
            raised = error
    errors = []
    while raised is not None:
        places = [(entry.name.partition(" (resumed")[0], entry.lineno) for entry in traceback.extract_tb(raised.__traceback__) if entry.filename == __file__]
        errors.append((type(raised), str(raised), raised.__cause__ is None, places))
        raised = raised.__context__
    return value, printed.getvalue(), errors, torch.is_grad_enabled(), lock.locked()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_the_programs_handlers_see_errors_of_graphs(function, backend):
    compiled = framejit.compile(function, backend=backend)
    for index in (GOOD, BAD, BAD, GOOD):
        expected, got = observed(function, index), observed(compiled, index)
        assert got[1:] == expected[1:]
        Comparison().same(got[0], expected[0])
    assert framejit.statistics()["fallbacks"] == 0


def test_arguments_of_all_kinds():
    def takes(a, /, b, *rest, key=1, **named):
        try:
            return F.embedding(b, a) + key
        except IndexError:
            return a, b, rest, key, named

    args, kwargs = (TABLE, BAD, 3, "x"), {"key": 5, "other": TABLE}
    Comparison().same(framejit.compile(takes, backend="eager")(*args, **kwargs), takes(*args, **kwargs))


def test_functions_that_share_an_entry_run_as_themselves():
    def make(name):
        def look_up(table, index):
            try:
                return F.embedding(index, table)
            except IndexError:
                return name

        return framejit.compile(look_up, backend="eager")

    first, second = make("first"), make("second")
    first(TABLE, GOOD), second(TABLE, GOOD)
    assert (first(TABLE, BAD), second(TABLE, BAD)) == ("first", "second")
    assert framejit.statistics()["frames"] == 1


def test_a_graph_that_changes_an_input_is_repeated_after_the_input_has_its_data_back():
    def add(total, table, index):
        try:
            total += 1
            return F.embedding(index, table)
        except IndexError:
            return None

    total = torch.zeros(1)
    assert framejit.compile(add, backend="eager")(total, TABLE, BAD) is None
    assert total.item() == 1


@pytest.mark.parametrize("function", [caught, not_the_kind_that_is_caught, raised_anew, random_numbers], ids=lambda function: function.__name__)
def test_with_handlers_calls_need_no_frame_either(function):
    compiled = framejit.compile(function, backend="eager")
    assert observed(compiled, GOOD)[0] is not None
    (entry,) = compiled_function(compiled).entries
    assert entry.direct
    for index, hits in ((BAD, 1), (GOOD, 2), (BAD, 3)):
        expected, got = observed(function, index), observed(compiled, index)
        assert got[1:] == expected[1:] and entry.direct_hits == hits
        Comparison().same(got[0], expected[0])
    without = framejit.compile(function, backend="eager")
    observed(without, BAD)  # in a frame, as it has just been compiled
    assert observed(without, BAD)[1:] == observed(function, BAD)[1:]


class Kept:
    """An object outside of the call, whose attributes the call sets."""

    def __init__(self) -> None:
        self.last, self.calls = None, 0


def test_a_store_to_an_attribute_from_outside_needs_no_frame():
    kept = Kept()

    def look_up(table, index):
        kept.last = index
        kept.calls = 5
        try:
            return F.embedding(index, table)
        except IndexError:
            kept.calls = -1
            return None

    compiled = framejit.compile(look_up, backend="eager")
    compiled(TABLE, GOOD)
    (entry,) = compiled_function(compiled).entries
    for index, calls in ((GOOD, 5), (BAD, -1), (GOOD, 5)):
        kept.last, kept.calls = None, 0
        assert (compiled(TABLE, index) is None, kept.calls) == (index is BAD, calls) and kept.last is index
    assert entry.direct and entry.direct_hits == 3


def test_what_the_graph_has_computed_is_gone_when_the_call_runs_again():
    alive: list[bool] = []
    computed: list[Any] = []

    @torch.library.custom_op("framejit_tests::watched", mutates_args=())
    def watched(x: torch.Tensor) -> torch.Tensor:
        alive.append(any(reference() is not None for reference in computed))
        result = x + 1
        computed.append(weakref.ref(result))
        return result

    watched.register_fake(torch.empty_like)

    def look_up(table, index):
        try:
            return F.embedding(index, watched(table))
        except IndexError:
            return None

    for backend in ("eager", lambda graph, inputs: graph.forward):
        compiled = framejit.compile(look_up, backend=backend)
        compiled(TABLE, GOOD)
        for _ in range(2):
            alive.clear()
            assert compiled(TABLE, BAD) is None
            assert alive == [False, False]


def test_without_handlers_calls_need_no_frame_and_hold_nothing():
    for function in (plain := lambda table, index: F.embedding(index, table), torch.no_grad()(plain)):
        compiled = framejit.compile(function, backend="eager")
        compiled(TABLE, GOOD)
        (entry,) = compiled_function(compiled).entries
        assert entry.direct


@torch.library.custom_op("framejit_tests::interrupted", mutates_args=())
def interrupted(x: torch.Tensor) -> torch.Tensor:
    raise KeyboardInterrupt


@interrupted.register_fake
def _(x):
    return torch.empty_like(x)


def test_ctrl_c_in_a_graph_leaves_the_blocks_entered_before():
    def program(x):
        with Block():
            print("in it")
            x = interrupted(x) + 1
        return x

    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), pytest.raises(KeyboardInterrupt):
            compiled(TABLE)
        assert printed.getvalue().splitlines() == ["entered", "in it", "left <class 'KeyboardInterrupt'> ()"]


def test_the_error_holds_nothing_when_it_is_gone():
    compiled = framejit.compile(caught, backend="eager")
    enabled = gc.isenabled()
    gc.disable()
    try:
        table = TABLE.clone()
        reference = weakref.ref(table)
        with contextlib.redirect_stdout(io.StringIO()):
            compiled(table, BAD)
        del table
        assert reference() is None
    finally:
        if enabled:
            gc.enable()
