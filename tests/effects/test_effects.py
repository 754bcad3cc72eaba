"""framejit.effects: the ordered, undoable log of mutations."""

from framejit.bytecode.instruction import Position
from framejit.effects import Effects
from framejit.guards.source import Local, Root, Slot
from framejit.objects.core.object import LazyObject, Object
from framejit.trail import Trail


class Tracer:
    def __init__(self):
        self.trail = Trail()
        self.line = 1
        self.answers = self
        self.noted = []

    def has_changed(self, obj):
        self.noted.append(obj)

    def root_position(self):
        return Position(self.line, self.line, 0, 1)


class Mode:
    def replay(self, cg):
        pass

    def referents(self):
        return []


def from_outside(root, index):
    return Object(list, root.child(Local, Slot(index, f"a{index}")), [])


def test_mutations_are_replayed_in_order_of_the_first_one_and_once():
    tracer, root = Tracer(), Root()
    effects = Effects(tracer)
    a, b = from_outside(root, 0), from_outside(root, 1)
    for line, obj in enumerate((b, a, b, a), start=10):
        tracer.line = line
        effects.mutated(obj)
    assert [logged.effect for logged in effects.order()] == [b, a]
    assert [logged.position.lineno for logged in effects.order()] == [10, 11]
    assert effects.is_mutated(a) and len(effects) == 2
    assert tracer.noted == [b, a, b, a]


def test_effects_of_no_object_come_last():
    tracer = Tracer()
    effects = Effects(tracer)
    first, second, obj = Mode(), Mode(), from_outside(Root(), 0)
    effects.at_end(first)
    effects.mutated(obj)
    effects.at_end(second)
    assert [logged.effect for logged in effects.order()] == [obj, first, second]


def test_a_value_made_by_the_trace_is_not_replayed():
    effects = Effects(Tracer())
    effects.mutated(Object(list))
    assert effects.order() == []


def test_a_lazy_value_and_what_it_was_observed_to_be_are_one():
    tracer, root = Tracer(), Root()
    effects = Effects(tracer)
    real = from_outside(root, 0)
    lazy = LazyObject([], real.source)
    lazy.real = real
    effects.mutated(lazy)
    effects.mutated(real)
    assert [logged.effect for logged in effects.order()] == [real]


def test_the_trail_takes_effects_back():
    tracer, root = Tracer(), Root()
    effects = Effects(tracer)
    kept, dropped = from_outside(root, 0), from_outside(root, 1)
    effects.mutated(kept)
    mark = tracer.trail.mark()
    effects.mutated(dropped)
    effects.mutated(kept)
    effects.at_end(Mode())
    tracer.trail.undo_to(mark)
    assert [logged.effect for logged in effects.order()] == [kept]
    effects.mutated(dropped)
    assert [logged.effect for logged in effects.order()] == [kept, dropped]
