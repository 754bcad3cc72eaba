"""The source of a lock that the guard walk takes: it agrees with its reference, and a walk that doesn't match leaves the lock free."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from guarding import HERE, call_of, matched, slot

from framejit import _runtime
from framejit.guards.build import build
from framejit.guards.kinds import ValueIs
from framejit.guards.locks import HeldLock, is_free, released
from framejit.guards.source import MISSING, Root


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_a_match_holds_the_lock_until_it_is_released_or_gone(make: Any) -> None:
    lock, source = make(), slot(Root()).child(HeldLock)
    tree = build([], [source], [])
    for release in (_runtime.release_lock, lambda held: released(ValueError(), held), lambda held: None):
        found = matched(tree, lock)
        assert found is not None and not free_elsewhere(lock)
        release(found[0])
        del found
        assert free_elsewhere(lock)


def free_elsewhere(lock: Any) -> bool:
    """Return whether another thread could take the lock."""
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(is_free(lock)))
    thread.start()
    thread.join()
    return found[0]


def test_release_twice_and_of_something_else() -> None:
    lock = threading.Lock()
    found = matched(build([], [slot(Root()).child(HeldLock)], []), lock)
    assert found is not None
    (held,) = found
    _runtime.release_lock(held)
    with lock:
        _runtime.release_lock(held)
        assert lock.locked()
    with pytest.raises(TypeError, match="guard walk"):
        _runtime.release_lock(lock)


def test_a_walk_that_does_not_match_leaves_the_lock_free() -> None:
    lock, root = threading.Lock(), Root()
    tree = build([ValueIs(slot(root, 1), HERE, None)], [slot(root).child(HeldLock)], [])
    for _ in range(3):
        assert matched(tree, lock, 1) is None
        assert not lock.locked()
        found = matched(tree, lock, None)
        assert found is not None and lock.locked()
        del found
        assert not lock.locked()
    with lock:
        assert matched(tree, lock, None) is None
        assert lock.locked()


@pytest.mark.parametrize("value", [None, 1, "acquire", threading.Condition(), threading.Semaphore(), threading.Event(), threading.Lock, threading.Lock()])
def test_reference_agrees(value: Any) -> None:
    source = slot(Root()).child(HeldLock)
    expected = source.fetch(call_of(value)) is MISSING
    found = matched(build([], [source], []), value)
    assert (found is None) == expected
