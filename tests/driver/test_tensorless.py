"""Functions that compute no tensors run natively as a whole where what they draw decides which way they go; numbers out of data are symbolic at once."""

import abc
import random

import numpy as np
import pytest
import torch

import framejit
from framejit.driver import tensorless


def spans(length, p, width=2):
    """Random spans, as models of speech mask them."""
    rounding = np.random.rand(1).item()

    def count(length):
        found = int(p * length / width + rounding)
        return length // width if found * width > length else found

    found = np.zeros(length, dtype=bool)
    if count(length) == 0:
        return found
    for start in np.random.choice(np.arange(length - width), count(length), replace=False):
        found[start : start + width] = True
    return found


def box(shape, margin=0):
    """A random box of an image, as augmentations cut them."""
    height, width = shape[-2:]
    if np.random.rand() < 0.5:
        margin += 1
    y = np.random.randint(margin, height)
    x = y if np.random.rand() < 0.5 else np.random.randint(margin, width)
    return np.clip(y - 1, 0, height), np.clip(y + 1, 0, height), np.clip(x - 1, 0, width), np.clip(x + 1, 0, width)


@pytest.fixture(autouse=True)
def fresh():
    framejit.reset()


class Masked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.length, self.p = 6, 0.4

    def draw(self, rows):
        return sum([self.row(row) for row in range(rows)])

    def row(self, row):
        return random.randint(0, row) if random.random() < self.p else self.length

    def forward(self, x):
        mask = torch.tensor(spans(x.shape[0], self.p))
        return torch.where(mask[:, None], self.linear(x), x) * self.draw(3)


def look_at_data(x):
    return int(x.sum()) if x.sum() > 3 else 2


def through_a_helper(length):
    return look_at_data(torch.ones(length) + random.random()) if random.random() < 2 else 0


def seeded(seed):
    random.seed(seed)
    np.random.seed(seed)


def same_over_seeds(eager, compiled, *args):
    for seed in range(6):
        seeded(seed)
        expected = eager(*args), np.random.rand(), random.random()
        seeded(seed)
        got = compiled(*args), np.random.rand(), random.random()
        torch.testing.assert_close(got, expected, rtol=0, atol=0)


def test_functions_that_draw_are_called_natively():
    model = Masked()
    same_over_seeds(model, framejit.compile(model, backend="eager"), torch.randn(6, 4))
    found = framejit.statistics()
    # Before `spans`, which makes the first graph empty, behind it, and behind `draw`: the number that it gives is symbolic at once.
    assert (found["graph_breaks"], found["graphs"], found["recompiles"], found["fallbacks"]) == (2, 2, 0, 0), found["reasons"]


def test_functions_that_are_given_the_shape_of_a_tensor():
    def cut(images):
        top, bottom, left, right = box(images.shape)
        images = images.clone()
        images[:, top:bottom, left:right] = 0
        return images * 2

    same_over_seeds(cut, framejit.compile(cut, backend="eager"), torch.randn(2, 5, 6))
    assert framejit.statistics()["graph_breaks"] == 1, framejit.statistics()["reasons"]


def choices(rows, length):
    """Columns for each row of a sparse attention, one part of them after the other, as BigBird chooses them."""
    ends = np.array([length // 2, length])
    chosen = [np.zeros((rows, 2), dtype=np.int32) for head in range(2)]
    for part in range(2):
        for row in range(rows):
            for head in range(2):
                chosen[head][row, part : part + 1] = permuted(ends[part - 1] if part else 0, ends[part], row)
    return np.stack(chosen)


def permuted(first, last, excluded):
    order = np.random.permutation(np.arange(first, last, dtype=np.int32))
    return [each for each in order if each != excluded][:1]


def test_a_function_that_an_array_decides_for():
    def attend(x, rows):
        columns = torch.tensor(choices(rows, x.shape[0]))
        return x[columns.long()].sum(0)

    x, before = torch.randn(8, 4), framejit.statistics()
    compiled = framejit.compile(attend, backend="eager")
    for seed in range(3):
        np.random.seed(seed)
        expected = attend(x, 3)
        np.random.seed(seed)
        assert torch.equal(compiled(x, 3), expected)
    assert framejit.statistics()["graph_breaks"] - before["graph_breaks"] == 1


def test_functions_that_compute_tensors_are_split_in_the_middle():
    def step(x):
        return x * through_a_helper(x.shape[0])

    same_over_seeds(step, framejit.compile(step, backend="eager"), torch.randn(5))
    assert framejit.statistics()["graphs"] > 1


@pytest.mark.parametrize("held_in_a_cell", [False, True], ids=["in a variable", "in a cell"])
def test_numbers_out_of_data_are_symbolic_behind_a_break(held_in_a_cell):
    def step(x):
        n = x.sum().item()
        print(end="")
        again = (lambda: n * 2) if held_in_a_cell else None
        print(end="")
        return x + (again() if held_in_a_cell else n)

    compiled = framejit.compile(step, backend="eager")
    for _ in range(3):
        x = torch.randn(3)
        torch.testing.assert_close(compiled(x), step(x), rtol=0, atol=0)
    found = framejit.statistics()
    assert (found["graph_breaks"], found["recompiles"]) == (2, 0), found["reasons"]


class Reads:
    scale = 2

    def numbers(self):
        return np.arange(self.scale) + self.more()

    def more(self):
        return self.scale

    def itself(self):
        return len([self])

    def layers(self):
        return self.layer


READS = Reads()
READS.layer = torch.nn.Linear(1, 1)


@framejit.disable
def answer(number):
    return number


def hooked_class():
    weight = torch.ones(2)

    class Hooked(abc.ABC):
        @classmethod
        def __subclasshook__(cls, other):
            nonlocal weight
            return answer(2) > 1 and other.__name__ == "Reads"

    return Hooked


def test_a_class_method_that_native_code_calls():
    def program(x, cls):
        return x + 1, isinstance(READS, cls), isinstance(x, cls)

    compiled = framejit.compile(program, backend="eager")
    for _ in range(3):
        x = torch.randn(2)
        (expected, *answers), (found, *compiled_answers) = program(x, hooked_class()), compiled(x, hooked_class())
        assert torch.equal(found, expected) and compiled_answers == answers == [True, False]


@pytest.mark.parametrize(
    "function, receiver, expected",
    [
        (spans, None, True),
        (look_at_data, None, True),  # its argument is a tensor, which only its frame shows
        (through_a_helper, None, False),
        (Reads.numbers, READS, True),
        (Reads.itself, READS, False),
        (Reads.layers, READS, False),
        (random.shuffle, None, True),
    ],
)
def test_what_counts_as_tensorless(function, receiver, expected):
    assert tensorless.is_tensorless(function, receiver) is expected


def test_methods_of_metaclasses_are_looked_at_too():
    """A class is an object of its metaclass, whose methods break the graph."""

    class Meta(type):
        def __instancecheck__(cls, instance):
            print(instance)
            return cls.__name__ == "Numbers" and instance > 1

    class Numbers(metaclass=Meta):
        pass

    def program(t, n):
        return t + 1, isinstance(n, Numbers)

    compiled = framejit.compile(program, backend="eager")
    for n in (1, 2, 1):
        assert compiled(torch.ones(2), n)[1] is (n > 1)
