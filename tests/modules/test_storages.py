"""Which tensors share their memory, as programs ask for it: `data_ptr()`, `untyped_storage()`."""

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
