"""tracing/watches.py: watches of calls that are inside one another."""

from __future__ import annotations

from framejit.objects.types.constobject import ConstObject
from framejit.tracing.watches import Watches


def test_each_watch_notes_its_own_values_and_ends_alone() -> None:
    module, layer, other = (ConstObject(number) for number in range(3))
    watches = Watches()
    outer = watches.begin([module], [])
    inner = watches.begin([module, layer], [])
    assert watches.values == {id(module), id(layer)}
    watches.note(layer, None)
    watches.note(other, None)
    assert (outer.seen, inner.seen) == (False, True)
    watches.end()
    assert watches.values == {id(module)} and watches.begun == [outer]
    watches.note(module, None)
    assert outer.seen
    watches.end()
    assert not watches.values and not watches.begun
