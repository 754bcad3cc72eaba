"""Keys of dicts and elements of sets that code of the program's hashes and compares: that code is traced as often as the trace needs its answers.

CPython hashes a key once for each look-up, and compares it only with stored keys of the same hash. The trace calls `__hash__` and `__eq__` in other places, and
more often. So both may only compute, though `__hash__` may keep the number that it returns. Objects that are equal to each other have one PythonKey; whenever
one is looked up, it is compared once more with all objects of the same hash that have become keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import CodeType
from typing import Any, NoReturn, Protocol

from framejit import breaks
from framejit.ceval.frame import Frame
from framejit.effects import Effects, Logged
from framejit.guards.source import MISSING, Pinned
from framejit.library.torch.inner_graphs.changes import Reached, reachable, stored_outside
from framejit.objects.core import abstract, operators, text
from framejit.objects.core.hash_keys import PythonKey
from framejit.objects.core.object import Object, Raise
from framejit.objects.types.constobject import is_plain
from framejit.program import classes
from framejit.quick_dataclass import dataclass
from framejit.tracing.trace import Trace
from framejit.trail import Changed, EffectAnnounced, FieldFilled, FieldSet, NodeAdded, TrailRecord


class KeysTrace(Trace, Protocol):
    """The running trace, with its log of effects."""

    effects: Effects


@dataclass(slots=True, eq=False)
class Known:
    """An object that has become a key: the key, and the trail's position and the instruction at that time. `checked`: the position when it was last looked up.

    `hashed`, `compared`: the values from outside that were looked at to hash it, and to compare it.
    """

    obj: Object
    key: PythonKey
    mark: int
    place: tuple[CodeType, int]
    hashed: list[Object]
    compared: list[Object]
    checked: int


class PythonKeys:
    """The objects of one trace that have become such keys, by their identities, and the keys by their hashes."""

    def __init__(self, vm: KeysTrace, told_apart: dict[int, tuple[Object, bool]]) -> None:
        """`told_apart`: the keys of the trace that are compared by identity."""
        self._vm = vm
        self._told_apart = told_apart
        self._known: dict[int, Known] = {}
        self._by_hash: dict[int, list[PythonKey]] = {}
        self._constants: dict[tuple[int, type, Any], bool] = {}
        self._answers: dict[tuple[int, int], bool] = {}

    def key_of(self, obj: Object) -> PythonKey:
        """The key of an object. Breaks if it can't be found by running `__hash__` and `__eq__` here."""
        vm, place, known = self._vm, self._vm.place(), self._known.get(id(obj))
        is_checked = known is not None and self._is_as_checked(known, self._with_hash(known.key.number))
        number, hashed = (known.key.number, known.hashed) if known is not None and is_checked else self._hash(obj)
        if known is not None and known.key.number != number:
            self._reject(obj, "which has changed since it was a key")
        self._check_addresses(obj, number)
        mark = vm.trail.mark()
        compared: list[Object] = [] if known is None else known.compared
        keys = self._by_hash.setdefault(number, [])
        count = len(keys)
        equal = [key for key in list(keys) if self._belongs(obj, key, compared, is_checked)]
        if len(equal) > 1 or len(keys) > count or (known is not None and equal != [known.key]):
            self._reject(obj, "whose comparisons contradict each other")
        if known is None:
            known = self._new(obj, number, equal, Known(obj, PythonKey(number, self), mark, place, hashed, compared, mark))
        if not is_checked:
            self._check_constants(known)
        vm.trail.learned(self, setattr, known, "checked", known.checked)
        known.checked = vm.trail.mark()
        return known.key

    def _new(self, obj: Object, number: int, equal: Sequence[PythonKey], known: Known) -> Known:
        """Note an object that becomes a key. `equal`: the key of other objects that it is equal to, if there is one."""
        trail, keys = self._vm.trail, self._by_hash[number]
        if equal:
            known.key = equal[0]
        else:
            keys.append(known.key)
            trail.learned(self, keys.pop)
        known.key.objects.append(obj)
        trail.learned(self, known.key.objects.pop)
        self._known[id(obj)] = known
        trail.learned(self, self._known.pop, id(obj))
        return known

    def _with_hash(self, number: int) -> list[Known]:
        """The objects with a hash that have become keys."""
        return [self._known[id(obj)] for key in self._by_hash[number] for obj in key.objects]

    def _is_as_checked(self, known: Known, others: Sequence[Known]) -> bool:
        """Return whether nothing has changed since an object was last looked up on which its hash, or its comparisons with these others, may depend."""
        changes = self._changes_since(known.checked)
        return not changes or not any(has_changed(self._read_by(each), changes, max(each.mark, known.checked)) for each in (known, *others))

    def _read_by(self, known: Known) -> Reached:
        return reachable(self._vm, [known.obj, *known.hashed, *known.compared])

    def _check_constants(self, known: Known) -> None:
        """Break if an object doesn't compare as its key does with the constants that this has been compared with."""
        for (key, _, constant), answer in list(self._constants.items()):
            if key == id(known.key) and self._equals_constant(known, constant) is not answer:
                self._reject(known.obj, "whose comparisons contradict each other")

    def _hash(self, obj: Object) -> tuple[int, list[Object]]:
        """`hash(obj)`, and the values from outside that were looked at for it. A second call must do nothing but return the same number."""
        vm, found = self._vm, []
        for _ in range(2):
            mark = vm.trail.mark()
            number, looked_at = vm.noting_looks(lambda: text.hash_(vm, obj).constant(vm))
            found.append(number)
            if self._only_computed(mark, [obj, *looked_at]):
                break
        else:
            self._reject(obj, "whose __hash__ does more than to compute a number")
        if found[0] != found[-1]:
            self._reject(obj, "whose hash differs from call to call")
        return number, looked_at

    def _belongs(self, obj: Object, key: PythonKey, compared: list[Object], is_checked: bool) -> bool:
        """Return whether an object is equal to those of a key, as CPython compares those in a table with it: to all of them, or to none. `is_checked`: whether
        nothing has changed since it was last compared."""
        answers = {obj is other or self._are_equal(other, obj, compared, is_checked) for other in key.objects}
        if len(answers) > 1:
            self._reject(obj, "whose comparisons contradict each other")
        return answers.pop()

    def _are_equal(self, left: Object, right: Object, compared: list[Object], is_checked: bool) -> bool:
        """Return whether `left == right`."""
        pair = id(left), id(right)
        if not is_checked or pair not in self._answers:
            found, looked_at = self._compared(left, right)
            compared += looked_at
            self._known[id(left)].compared.extend(looked_at)
            self._vm.trail.learned(self, restore, self._answers, pair, self._answers.get(pair))
            self._answers[pair] = found
        return self._answers[pair]

    def _compared(self, left: Object, right: Object) -> tuple[bool, list[Object]]:
        """`left == right`, and the values from outside that were looked at for it."""
        vm, mark = self._vm, self._vm.trail.mark()
        try:
            found, looked_at = vm.noting_looks(lambda: self._is_equal(left, right))
        except Raise:
            self._reject(left, "whose __eq__ raises an exception")
        if not self._only_computed(mark, [left, right, *looked_at]):
            self._reject(left, "whose __eq__ does more than to compare")
        return found, looked_at

    def _is_equal(self, left: Object, right: Object) -> bool:
        """Return whether `left == right` is true. Only if it isn't, it matters that the two aren't the same object, which CPython finds first."""
        vm = self._vm
        return abstract.truth(vm, operators.compare(vm, "==", left, right)) or operators.is_(vm, left, right, unsure=False)

    def _only_computed(self, mark: int, values: Sequence[Object]) -> bool:
        """Return whether nothing that existed before has changed since a position of the trail. `values`: those that could be changed."""
        vm = self._vm
        records = vm.trail.since(mark)
        if any(isinstance(record, (NodeAdded, EffectAnnounced)) for record in records):
            return False
        changes = [record for record in records if isinstance(record, (Changed, FieldSet))]
        harmless = (vm, "handled"), (vm.graph.body, "_last_placeholder")
        for record in changes:
            is_of_value = isinstance(record.owner, (Object, Frame)) or isinstance(record, FieldFilled)
            if not is_of_value and not any(record.owner is owner and getattr(record, "field", None) == name for owner, name in harmless):
                return False
        if not changes:
            return True
        reached = reachable(vm, [*values, *stored_outside(vm)])
        return not any(map(reached.is_changed_by, changes))

    def _check_addresses(self, obj: Object, number: int) -> None:
        """Break if an object may have the hash of one that is compared by identity, since tables of the trace have other hashes for those."""
        for other, _ in self._told_apart.values():
            if other.value is not MISSING and object.__hash__(other.value) == number:
                self._reject(obj, "which has the hash of another object")

    def check_address(self, obj: Object) -> None:
        """Break if an object that is compared by identity, and becomes a key, has the hash of one of these keys."""
        if obj.value is not MISSING and object.__hash__(obj.value) in self._by_hash:
            self._vm.unsupported(breaks.ComparesByPython(f"a {classes.qualname(obj.cls)}, which has the hash of another object"))

    def equals(self, key: PythonKey, other: Any) -> bool:
        vm, name = self._vm, (id(key), type(other), other)
        answer = self._constants.get(name) if is_plain(other) else None
        known = [self._known[id(obj)] for obj in key.objects]
        if vm.trail.undoing or (vm.frame is None and answer is not None):
            return bool(answer)
        if vm.frame is None:
            vm.restart(known[0].place, breaks.ComparesByPython(f"a {classes.qualname(known[0].obj.cls)}, which has the hash of a key of another kind,"))
        if not is_plain(other):
            self._reject(known[0].obj, "which has the hash of a key of another kind")
        if answer is None:
            answers = {self._equals_constant(each, other) for each in known}
            if len(answers) > 1:
                self._reject(known[0].obj, "whose comparisons contradict each other")
            answer = self._constants[name] = answers.pop()
            vm.trail.learned(self, self._constants.pop, name)
        elif not all(self._is_as_checked(each, ()) for each in known):
            self._reject(known[0].obj, "which has changed since it was a key")
        return answer

    def _equals_constant(self, known: Known, constant: Any) -> bool:
        found, looked_at = self._compared(known.obj, self._vm.const(constant))
        known.compared.extend(looked_at)
        return found

    # Keys that change.

    def check_settled(self, keys: Sequence[PythonKey]) -> None:
        known = [self._known[id(obj)] for key in keys for obj in key.objects]
        changes = self._changes_since(min(each.mark for each in known))
        for each in known:
            if has_changed(self._read_by(each), changes, each.mark):
                self._reject(each.obj, "which has changed since it was a key")
        for each in [each for number in {key.number for key in keys} for each in self._with_hash(number)]:
            self._check_either_way(each)

    def _check_either_way(self, known: Known) -> None:
        """Break if an object isn't equal to those that are equal to it, or is equal to others: where two tables meet, either may be asked."""
        equal = [key for key in list(self._by_hash[known.key.number]) if self._belongs(known.obj, key, known.compared, True)]
        if equal != [known.key]:
            self._reject(known.obj, "whose comparisons contradict each other")

    def check_leaving(self, keys: Sequence[tuple[PythonKey, Sequence[Object]]], table: Object) -> None:
        vm = self._vm
        known = [self._known[id(obj)] for _, objects in keys for obj in objects if id(obj) in self._known]  # others are equal constants
        if not known:
            return
        changes, later = self._changes_since(min(each.mark for each in known)), later_changes(vm.effects.order(), table)
        in_one_place = Counter(each.key.number for each in known)
        for each in known:
            is_compared = table.source is not None or in_one_place[each.key.number] > 1  # with what else is in the table
            reached = reachable(vm, [each.obj, *each.hashed, *(each.compared if is_compared else ())])
            if id(table) in reached.made or has_changed(reached, changes, each.mark) or any(map(reached.has_outside, later)):
                vm.restart(each.place, breaks.ComparesByPython(f"a {classes.qualname(each.obj.cls)}, which the program changes besides,"))

    def _changes_since(self, start: int) -> list[tuple[int, TrailRecord]]:
        """The records of changes since a position of the trail, with their positions."""
        records = enumerate(self._vm.trail.since(start), start)
        return [(position, record) for position, record in records if isinstance(record, (Changed, FieldSet, EffectAnnounced))]

    def _reject(self, obj: Object, reason: str) -> NoReturn:
        self._vm.unsupported(breaks.ComparesByPython(f"a {classes.qualname(obj.cls)}, {reason},"))


def restore(answers: dict[tuple[int, int], bool], pair: tuple[int, int], before: bool | None) -> None:
    """Take back an answer."""
    if before is None:
        del answers[pair]
    else:
        answers[pair] = before


def has_changed(reached: Reached, changes: Sequence[tuple[int, TrailRecord]], start: int) -> bool:
    """Return whether one of these values has changed since a position of the trail, according to records with their positions."""
    since = [record for position, record in changes if position >= start]
    return any(reached.is_changed_by(record) or is_outside_change(reached, record) for record in since)


def is_outside_change(reached: Reached, record: TrailRecord) -> bool:
    """Return whether a record says that one of these values from outside has changed, or a class or the globals of a module, which any code may read."""
    owner = record.owner
    if not isinstance(record, EffectAnnounced) or not isinstance(owner, Object):
        return False
    return reached.has_outside(owner) or type(owner.source) is Pinned or issubclass(owner.cls, type)


def later_changes(effects: Sequence[Logged], table: Object) -> list[Object]:
    """The values from outside whose changes may be replayed only after those of a table, which may be one that the trace has made."""
    changed = [logged.effect for logged in effects if isinstance(logged.effect, Object)]
    own = next((index for index, obj in enumerate(changed) if obj is table), -1)
    return changed[own + 1 :]
