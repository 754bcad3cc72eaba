"""Settings of every test run: internal errors raise, a crash of native code prints where Python was, and no test leaves the hook up."""

import faulthandler
import os
from collections.abc import Iterator

os.environ["FRAMEJIT_STRICT"] = "1"  # before framejit is imported
os.environ["FRAMEJIT_VERIFY"] = "1"
faulthandler.enable()

import pytest  # noqa: E402
import torch  # noqa: E402

from framejit import _runtime  # noqa: E402


@pytest.fixture(autouse=True)
def hook_is_down_afterwards() -> Iterator[None]:
    # A generator of an earlier test's program that is collected late may leave its `no_grad` now, as it may in any program.
    torch.set_grad_enabled(True)
    yield
    assert not _runtime.hook_installed()
    assert not _runtime.is_thread_compiling()
    assert not _runtime.is_thread_disabled()
