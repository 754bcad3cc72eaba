"""Programs that find out which tensors share memory, by `data_ptr()` and `untyped_storage()`."""

from __future__ import annotations

import pytest
import torch
from agreement import agree

import framejit


def shared_views(x):
    y, z = x.view(-1), x + 1
    return x.data_ptr() == y.data_ptr(), x.data_ptr() == z.data_ptr(), x[1:].data_ptr() == x.data_ptr(), x.data_ptr() != z.data_ptr(), y * 2


def storages_by_identity(x):
    y = x[1:]
    return y.untyped_storage() is x.untyped_storage(), x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr(), y.data_ptr() in {x.data_ptr()}


def counted(x):
    seen = {}
    for t in (x, x.view(-1), x * 2, x[1:]):
        seen.setdefault(t.data_ptr(), []).append(t.sum())
    return list(seen.values())


def of_nothing(x):
    return x[:0].data_ptr(), x[:0].data_ptr() == x[2:2].data_ptr(), bool(x.data_ptr()), x.data_ptr() == 0, x.data_ptr() is None


def sizes_of_results(x):
    y = x * 2
    return y.untyped_storage().nbytes(), len(y[1:].untyped_storage()), y.untyped_storage().size()


@pytest.mark.parametrize("program", [shared_views, storages_by_identity, counted, of_nothing, sizes_of_results], ids=lambda program: program.__name__)
def test_what_shares_memory_is_known_while_tracing(program):
    agree(program, torch.randn(3, 2))
    agree(program, torch.randn(3, 2), backend="aot_eager")


def test_where_a_tensor_begins_in_its_storage_is_guarded():
    program = lambda x: (x.storage_offset(), x[1:].storage_offset(), (x * 2)[1].storage_offset(), x.T.storage_offset())
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    memory = torch.randn(20)
    for offset in (0, 3, 0, 4):
        x = memory[offset : offset + 6].view(3, 2)
        assert compiled(x) == program(x)


def test_inputs_are_guarded_to_share_memory_as_on_the_first_call():
    def tied(a, b):
        return a + b if a.data_ptr() == b.data_ptr() else a * b

    x, y = torch.randn(3), torch.randn(3)
    compiled = framejit.compile(tied, backend="eager", fullgraph=True, isolate_recompiles=True)
    before = framejit.statistics()["graphs"]
    for pair in ((x, y), (y, x), (x, x.view(-1)), (x, x), (torch.randn(4)[:3], torch.randn(3)), (x, y)):
        assert torch.equal(compiled(*pair), tied(*pair))
    assert framejit.statistics()["graphs"] - before <= 4


def test_addresses_that_leave_are_real():
    def addresses(x):
        y = x * 2
        return y, y.data_ptr(), x.untyped_storage().data_ptr(), {x.data_ptr(): "x"}, x.view(-1).untyped_storage()

    compiled = framejit.compile(addresses, backend="eager", fullgraph=True)
    x = torch.randn(3)
    y, address, beginning, names, storage = compiled(x)
    assert (address, beginning, names) == (y.data_ptr(), x.data_ptr(), {x.data_ptr(): "x"})
    assert storage is x.untyped_storage()


def test_tied_weights_are_found_in_a_model():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Embedding(4, 3)
            self.b = torch.nn.Linear(3, 4, bias=False)
            self.b.weight = self.a.weight

        def forward(self, ids):
            tied = len({p.data_ptr() for p in (self.a.weight, self.b.weight)}) == 1
            return self.b(self.a(ids)), tied

    agree(Tied(), torch.tensor([1, 2]))


def test_arithmetic_on_addresses_splits_the_graph():
    def aligned(x):
        return x * 2 if x.data_ptr() % 4 == 0 else x

    x = torch.randn(3)
    with pytest.raises(framejit.Unsupported, match="address of a tensor's data"):
        framejit.compile(aligned, backend="eager", fullgraph=True)(x)
    agree(aligned, x, fullgraph=False)


def test_a_storage_that_is_handed_over():
    """One from outside, or from before a graph break, was no storage that the trace knew: an error of framejit's own."""

    def program(x, storage):
        y = x * 2
        mine = y.untyped_storage()
        print(end="")
        return y, storage.data_ptr() == x.data_ptr(), storage.nbytes(), mine.nbytes(), mine.data_ptr() == y.data_ptr(), len(mine)

    compiled = framejit.compile(program, backend="eager")
    for size in (2, 3, 4):
        x = torch.ones(size)
        assert compiled(x, x.untyped_storage())[1:] == program(x, x.untyped_storage())[1:]


def test_storages_are_compared_where_another_input_is_written_to():
    def tied(a, b, count):
        count.add_(1)
        return a.data_ptr() == b.data_ptr()

    x, y = torch.randn(3), torch.randn(3)
    compiled = framejit.compile(tied, backend="eager", fullgraph=True)
    assert [compiled(x, other, torch.zeros(1)) for other in (y, x, x.view(-1))] == [False, True, True]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_written_through_data_is_seen_by_inputs_that_share_the_memory(backend):
    def write(a, b):
        a.data.add_(1)
        return b * 2

    compiled = framejit.compile(write, backend=backend, fullgraph=True)
    for begin in (4, 2, 0):
        for call in (compiled, write):
            memory = torch.arange(8.0)
            result = call(memory[:4], memory[begin : begin + 4])
            expected = (torch.arange(8.0) + (torch.arange(8) < 4))[begin : begin + 4] * 2
            assert torch.equal(result, expected)


def test_inputs_that_are_only_read_share_memory_as_they_like():
    def update(total, index, rows):
        return total.index_add_(0, index, rows[index] * 2)

    compiled = framejit.compile(update, backend="aot_eager", fullgraph=True, dynamic=False)
    memory, before = torch.randn(40), framejit.statistics()["graphs"]
    for offset in (0, 5, 9):
        index = torch.arange(6)[offset // 5 :][:3]
        total = torch.zeros(12)[offset % 5 :][:8]
        assert torch.equal(compiled(total.clone(), index, memory[offset:][:8]), update(total, index, memory[offset:][:8]))
    assert framejit.statistics()["graphs"] - before == 1
    compiled(memory[:8], torch.arange(3), memory[8:16])
    assert framejit.statistics()["graphs"] - before == 2


def test_a_subclass_is_asked_for_what_the_program_calls_only():
    asked: list[str] = []

    class Asked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            asked.append(function.__name__)
            return super().__torch_function__(function, types, args, kwargs or {})

    def f(x):
        return x.storage_offset() * x.as_strided((2,), (1,), 1)

    x = torch.arange(4.0)[1:].as_subclass(Asked)
    f(x)
    expected = list(asked)
    asked.clear()
    framejit.compile(f, backend="eager")(x)
    assert asked == expected


LOOKS_AMONG_NUMBERS = [
    lambda x, known: x + 1 if x.data_ptr() in known else x - 1,
    lambda x, known: x + 1 if x.untyped_storage().data_ptr() in dict.fromkeys(known) else x - 1,
    lambda x, known: x * dict.fromkeys(known, 5).get(x.data_ptr(), 1),
    lambda x, known: x * len({x.data_ptr()} | set(known)),
    lambda x, known: x * len({x.data_ptr(), (x + 1).data_ptr()} - set(known)),
    lambda x, known: x * len(set(known).intersection([x.data_ptr()])),
    lambda x, known: x + 1 if {x.data_ptr()} <= set(known) else x - 1,
    lambda x, known: x + 1 if set(known).isdisjoint([x.data_ptr()]) else x - 1,
    lambda x, known: x + 1 if next(iter(known)) in {x.data_ptr()} else x - 1,
    lambda x, known: x + 1 if (x.data_ptr(), 3) in {(address, 3) for address in known} else x - 1,
]


@pytest.mark.parametrize("kind", [set, dict.fromkeys, tuple])
@pytest.mark.parametrize("program", LOOKS_AMONG_NUMBERS)
def test_an_address_is_found_among_numbers_from_outside(program, kind):
    """As where a program notes which tensors it has seen: whether a number is the address of a tensor, only the program can tell."""
    x, y = torch.randn(3), torch.randn(3)
    compiled = framejit.compile(program, backend="eager", isolate_recompiles=True)
    for known in (kind([x.data_ptr()]), kind([y.data_ptr()])):
        for argument in (x, y):
            assert torch.equal(compiled(argument, known), program(argument, known))


def test_a_number_from_outside_is_no_key_of_what_the_trace_keeps_by_address():
    def noted(x, seen):
        seen.setdefault(x.data_ptr(), []).append(1)
        return x + len(seen)

    compiled, x = framejit.compile(noted, backend="eager"), torch.randn(3)
    seen, expected = {}, {}
    for _ in range(3):
        assert torch.equal(compiled(x, seen), noted(x, expected))
    assert seen == expected and list(seen) == [x.data_ptr()]


def test_small_numbers_are_no_addresses():
    program = lambda x, known: x + 1 if x.data_ptr() in known else x - 1
    x = torch.randn(3)
    assert torch.equal(framejit.compile(program, backend="eager", fullgraph=True)(x, {0: "a", 1: "b"}), x - 1)
