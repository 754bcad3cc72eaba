"""Settings of every test run: internal errors raise, a crash of native code prints where Python was, and no test leaves the hook up."""

import faulthandler
import os
from collections.abc import Iterator

os.environ["FRAMEJIT_STRICT"] = "1"  # before framejit is imported
os.environ.setdefault("FRAMEJIT_CHECK", "compile,guards")
faulthandler.enable()

import pytest  # noqa: E402
import torch  # noqa: E402

from framejit import _runtime, compiled_module, retained, sharing  # noqa: E402

UNDO_RATE, UNDO_LOOKS = 0.02, 0.5


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--undo", metavar="SEED", help="execute, undo and repeat instructions at random in every trace, and compare the state")


@pytest.fixture(autouse=True)
def undone(request: pytest.FixtureRequest) -> Iterator[list[str] | None]:
    """The instructions that `--undo` has taken back in this test."""
    seed = request.config.getoption("--undo")
    if seed is None:
        yield None
        return
    from undo import undoing  # loads the compiler

    with undoing(UNDO_RATE, f"{seed} {request.node.nodeid}", UNDO_LOOKS) as undone:
        yield undone


@pytest.fixture(autouse=True)
def nothing_shared_with_earlier_tests() -> None:
    # What earlier tests have compiled may wait for the garbage collector, and would serve the same code here.
    retained.clear()
    sharing._pools.clear()
    compiled_module._fronts.clear()


@pytest.fixture(autouse=True)
def hook_is_down_afterwards() -> Iterator[None]:
    # A generator of an earlier test's program that is collected late may leave its `no_grad` now, as it may in any program.
    torch.set_grad_enabled(True)
    yield
    assert not _runtime.hook_installed()
    assert not _runtime.is_thread_compiling()
    assert not _runtime.is_thread_disabled()
