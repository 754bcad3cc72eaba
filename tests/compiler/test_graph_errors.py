"""Errors that a graph raises because of the data have the traceback that eager code gives them."""

import gc
import threading
import traceback
import weakref

import pytest
import torch

import framejit
from framejit.backends import node_lines

GOOD, BAD = torch.tensor([0, 1]), torch.tensor([0, 70])
BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])
x = torch.randn(4, 4)


def entries(call, *args):
    """Of the exception that a call raises: its type, and the program's places in its traceback, behind that of the call."""
    try:
        call(*args)
    except Exception as error:
        found = traceback.extract_tb(error.__traceback__)
        return type(error), [(e.name, e.lineno, e.end_lineno, e.colno, e.end_colno) for e in found[1:] if "site-packages" not in e.filename]
    raise AssertionError("nothing was raised")


def check(program, good, bad, backend, breaks=0):
    """Compile with arguments that are fine, and compare what others raise."""
    compiled, before = framejit.compile(program, backend=backend), framejit.statistics()
    assert torch.equal(compiled(*good), program(*good))
    expected = entries(program, *bad)
    for _ in range(2):
        assert entries(compiled, *bad) == expected
    assert torch.equal(compiled(*good), program(*good))
    assert [framejit.statistics()[name] - before[name] for name in ("recompiles", "graph_breaks")] == [0, breaks]


def on_several_lines(a, index):
    b = a + 1
    c = (
        b.sin()
        + b[index].sum()
    )  # fmt: skip
    return c * 2


def twice_on_a_line(a, index):
    return a.sin()[index - index] + a.cos()[:2] * a[index]


def called(a, index):
    doubled = a * 2
    return doubled[index]


def calls(a, index):
    b = a.sin()
    return [called(b + number, index) for number in range(2)][1].cos()


def loops(a, index):
    for step in range(3):
        a = a + step
        if step == 2:
            a = a[index]
    return a


def has_variables_of_its_own(a, index):
    def inner(b):
        return b[index] + a.sum()

    return inner(a + 1)


def looks_up(a, index):
    return torch.nn.functional.embedding(index, a) + 1


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(4, 8)
        self.linear = torch.nn.Linear(8, 2)

    def forward(self, index):
        return self.linear(
            self.embedding(index)
        )  # fmt: skip


@BACKENDS
@pytest.mark.parametrize("program", [on_several_lines, twice_on_a_line, calls, loops, has_variables_of_its_own, looks_up], ids=lambda f: f.__name__)
def test_the_line_is_that_of_the_operation(program, backend):
    check(program, (x, GOOD), (x, BAD), backend)


@BACKENDS
def test_code_that_needs_a_frame(backend):
    made = []

    def program(a, index):
        made.append(a.shape[0])
        b = a.sin()
        return b.cos()[index]

    check(program, (x, GOOD), (x, BAD), backend)


@BACKENDS
def test_a_module(backend):
    model = Model()
    compiled, expected = framejit.compile(model, backend=backend), entries(model, BAD)
    assert torch.equal(compiled(GOOD), model(GOOD))
    assert entries(compiled, BAD) == expected and expected[1][-1][0] == "forward"


@BACKENDS
def test_a_factorisation_and_a_solution(backend):
    def program(a):
        b = a @ a.T
        c = torch.linalg.cholesky(b)
        return torch.linalg.solve(b, c)

    check(program, (torch.eye(3),), (torch.zeros(3, 3),), backend)


MODES = pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode], ids=lambda mode: mode.__name__)


def errors_in(mode, program, backend, good, bad):
    """Compare what a program raises under a mode, compiled and not. Returns the number of graphs."""
    compiled = framejit.compile(program, backend=backend)
    with mode():
        assert torch.equal(compiled(good), program(good))
        for _ in range(2):
            with pytest.raises(RuntimeError) as expected:
                program(bad)
            with pytest.raises(RuntimeError) as found:
                compiled(bad)
            assert type(found.value) is type(expected.value) and str(found.value) == str(expected.value)
    return framejit.statistics()["graphs"]


@BACKENDS
@MODES
def test_a_factorisation_whose_result_nobody_needs(mode, backend):
    def program(a):
        torch.linalg.inv(a)
        torch.linalg.cholesky(a)
        return a + 1

    framejit.reset()
    assert errors_in(mode, program, backend, torch.eye(3), torch.zeros(3, 3)) == 1


@BACKENDS
@MODES
def test_a_factorisation_in_one_way_of_a_branch_on_data(mode, backend):
    def program(a):
        return a * 2 if a.sum() > 1 else torch.linalg.inv(a)

    errors_in(mode, program, backend, torch.eye(3), torch.zeros(3, 3))


@BACKENDS
@MODES
def test_a_check_of_data(mode, backend):
    def program(a):
        torch._assert_async(a.sum() > 0, "the sum isn't positive")
        return a * 2

    framejit.reset()
    assert errors_in(mode, program, backend, torch.eye(3), torch.zeros(3, 3)) == 1


@BACKENDS
def test_a_check_of_data_whose_error_the_program_handles(backend):
    def program(a):
        try:
            torch._assert_async(a.sum() > 0, "the sum isn't positive")
        except RuntimeError as error:
            return a - 1, str(error)
        return a * 2, ""

    compiled = framejit.compile(program, backend=backend)
    for value in (torch.eye(3), torch.zeros(3, 3), torch.eye(3)):
        found, expected = compiled(value), program(value)
        assert torch.equal(found[0], expected[0]) and found[1] == expected[1]


@BACKENDS
def test_behind_a_graph_break(backend):
    def program(a, index):
        b = a + 1
        print(end="", file=Silent())
        c = b.sin()
        return c[index]

    check(program, (x, GOOD), (x, BAD), backend, breaks=1)


class Silent:
    def write(self, text):
        framejit.graph_break()


@BACKENDS
def test_before_a_graph_break(backend):
    def program(a, index):
        b = a[index]
        framejit.graph_break()
        return b.sin()

    check(program, (x, GOOD), (x, BAD), backend, breaks=1)


@pytest.mark.only_eager("AOTAutograd's operators have no lines of a backward pass that is in the graph")
def test_backward_in_the_graph():
    class Checks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, index):
            ctx.save_for_backward(index)
            return a * 2

        @staticmethod
        def backward(ctx, gradient):
            (index,) = ctx.saved_tensors
            return gradient * 2 + gradient[index].sum(), None

    def program(a, index):
        a = a.detach().requires_grad_()
        Checks.apply(a, index).sum().backward()
        return a.grad

    check(program, (x, GOOD), (x, BAD), "eager")


@BACKENDS
def test_a_branch_of_cond(backend, capfd):
    def program(a, index):
        return torch.cond(a.sum() > 0, lambda b: b[index], lambda b: b[:2], (a + 1,))

    compiled = framejit.compile(program, backend=backend)
    ones = torch.ones(4, 4)
    assert torch.equal(compiled(ones, GOOD), ones[GOOD] + 1)
    line = program.__code__.co_firstlineno + 1
    assert [place[:2] for place in entries(compiled, ones, BAD)[1]] == [("program", line), ("<lambda>", line)]
    assert capfd.readouterr().err == ""


def test_a_handler_of_the_caller_sees_it_and_holds_nothing():
    def program(a, index):
        b = a.sin()
        return b[index]

    compiled = framejit.compile(program, backend="eager")
    compiled(x, GOOD)
    given = torch.randn(4, 4)
    alive = weakref.ref(given)
    try:
        compiled(given, BAD)
    except IndexError as error:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][1:]
        assert [frame.f_code.co_name for frame in frames] == ["program"] and frames[0].f_globals is globals()
        kept = error
    del given, frames
    assert alive() is None and type(kept) is IndexError


def test_in_threads():
    def program(a, index):
        b = a + 1
        return b[index]

    compiled = framejit.compile(program, backend="eager")
    compiled(x, GOOD)
    expected, found = entries(program, x, BAD), []
    threads = [threading.Thread(target=lambda: found.extend(entries(compiled, x, BAD) for _ in range(50))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 200


@BACKENDS
def test_what_is_known_of_lines_goes_with_the_graph(backend):
    def program(a, index):
        return torch.cond(a.sum() > 0, lambda b: b + 1, lambda b: b - 1, (a[index],))

    before = set(node_lines._lines)
    compiled = framejit.compile(program, backend=backend)
    compiled(x, GOOD)
    assert len(set(node_lines._lines) - before) == 3
    del compiled, program
    framejit.reset()
    gc.collect()
    assert not set(node_lines._lines) - before


# ---- graphs that run as code which a backend has generated ----


@torch.library.custom_op("framejit_graph_errors::halved", mutates_args=())
def halved(a: torch.Tensor) -> torch.Tensor:
    if len(a) % 2:
        raise ValueError("an odd length")
    return a[::2].clone()


@halved.register_fake
def _(a):
    return a.new_empty((len(a) // 2, *a.shape[1:]))


def halves(a):
    b = a.sin()
    return halved(b) * 2


def halves_twice(a):
    b = halved(a)
    return halved(b) * 2


def generated(gm, example_inputs):
    """Stands for Inductor, whose code calls operators by such lines."""

    def run(a):
        return (torch.ops.framejit_graph_errors.halved.default(a.sin()) * 2,)

    return run


def test_an_operator_of_the_programs_that_fails_in_generated_code_is_found_by_its_name():
    compiled = framejit.compile(halves, backend=generated, dynamic=False)
    with pytest.raises(ValueError, match="odd length") as caught:
        compiled(torch.ones(3))
    frames = [frame for frame in traceback.extract_tb(caught.value.__traceback__)[1:] if "site-packages" not in frame.filename]
    assert [(frame.name, frame.line) for frame in frames] == [("halves", "return halved(b) * 2"), ("halved", 'raise ValueError("an odd length")')]
    assert torch.equal(compiled(torch.ones(4)), halves(torch.ones(4)))


def test_an_operator_that_is_called_in_several_places_is_not_guessed_at():
    compiled = framejit.compile(halves_twice, backend=generated, dynamic=False)
    with pytest.raises(ValueError, match="odd length") as caught:
        compiled(torch.ones(3))
    assert "run" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
