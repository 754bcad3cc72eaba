"""The folder of compiled code: files are whole or not there, whoever writes, reads and is killed meanwhile; what is old goes."""

from __future__ import annotations

import os
import pathlib
import random
import signal
import time

import pytest

from framejit.saved import folder


def whole(place: pathlib.Path) -> list[bytes]:
    """The contents of all entries; each must be whole."""
    found = [folder.read_entry(path) for path in folder.entries(place)]
    assert None not in found
    return [each for each in found if each is not None]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork")
@pytest.mark.parametrize("kills", [15, pytest.param(200, marks=pytest.mark.slow)])
def test_writers_that_are_killed_leave_whole_files(tmp_path: pathlib.Path, kills: int) -> None:
    dice = random.Random(0)
    reads, writes = os.pipe()
    for number in range(kills):
        child = os.fork()
        if child == 0:
            for count in range(1000):
                folder.write_entry(tmp_path, f"{number} {count}".encode() * 5000)
                os.write(writes, b"." if count == 0 else b"")
            os._exit(0)
        assert os.read(reads, 1)  # the child has written an entry
        time.sleep(dice.random() * 0.01)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    os.close(reads)
    os.close(writes)
    assert len(whole(tmp_path)) >= kills
    assert folder.prune(tmp_path, most_days=0) > 0 and not folder.entries(tmp_path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork")
def test_eight_writers_at_once(tmp_path: pathlib.Path) -> None:
    """They write some of the same entries, and read and delete meanwhile."""
    children = []
    for number in range(8):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for count in range(100):
                    folder.write_entry(tmp_path, f"{count % 20} {number % 2}".encode() * 1000)
                    whole_or_gone = [folder.read_entry(path) for path in folder.entries(tmp_path)]
                    assert all(data is None or len(data) in (3000, 4000) for data in whole_or_gone)
                    if number == 7 and count % 10 == 0:
                        folder.prune(tmp_path, most_bytes=50_000)
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
    whole(tmp_path)
    assert not list(tmp_path.rglob(f"*{folder.UNFINISHED}"))


def test_what_is_old_or_too_much_is_deleted(tmp_path: pathlib.Path) -> None:
    paths = [folder.write_entry(tmp_path, bytes([number]) * 1000) for number in range(10)]
    now = time.time()
    for age, path in enumerate(paths):
        os.utime(path, (now - age * folder.DAY, now - age * folder.DAY))
    unfinished = tmp_path / f"left{folder.UNFINISHED}"
    unfinished.write_bytes(b"half")
    assert folder.prune(tmp_path, most_days=5.5) == 4
    assert [path.exists() for path in paths] == [True] * 6 + [False] * 4
    assert folder.prune(tmp_path, most_bytes=3500) == 3
    assert [path.exists() for path in paths[:4]] == [True, True, True, False]
    assert unfinished.exists()
    os.utime(unfinished, (now - 2 * folder.DAY,) * 2)
    assert folder.prune(tmp_path) == 1
    assert folder.clear(tmp_path) == 3 and not list(tmp_path.iterdir())


def test_reading_counts_as_use(tmp_path: pathlib.Path) -> None:
    path = folder.write_entry(tmp_path, b"contents")
    os.utime(path, (0, 0))
    assert folder.read_entry(path) == b"contents"
    assert folder.prune(tmp_path) == 0


def test_modes(tmp_path: pathlib.Path) -> None:
    """Only the user may read and write."""
    path = folder.write_entry(tmp_path / "one" / "two", b"contents")
    assert path.stat().st_mode & 0o077 == 0 and path.parent.stat().st_mode & 0o077 == 0
    path.chmod(0o666)
    assert folder.read_entry(path) is None
