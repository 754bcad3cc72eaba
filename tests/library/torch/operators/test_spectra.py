"""torch.istft: part of the graph, with eager's signals, gradients and errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framejit

BACKENDS = ("eager", "aot_eager")
WINDOW = torch.hann_window(8)
SPECTRUM = torch.stft(torch.randn(2, 40), 8, hop_length=2, window=WINDOW, return_complex=True)

CALLS: dict[str, Any] = {
    "window": lambda spectrum, window: torch.istft(spectrum, 8, 2, window=window),
    "method": lambda spectrum, window: spectrum.istft(8, hop_length=2, window=window),
    "by name": lambda spectrum, window: torch.istft(input=spectrum, n_fft=8, hop_length=2, window=window[2:], win_length=6),
    "length": lambda spectrum, window: torch.istft(spectrum, 8, 2, window=window, length=29),
    "no window": lambda spectrum, window: torch.istft(spectrum * window.sum(), 8),
    "not centered": lambda spectrum, window: torch.istft(spectrum, 8, 2, window=window + 1, center=False),
    "complex": lambda spectrum, window: torch.istft(torch.cat([spectrum, spectrum.flip(1)[:, 1:-1]], 1), 8, 2, 8, window, onesided=False, return_complex=True),
}
"""By name: calls on a spectrum of (2, 5, frames) and a window of 8."""


def outcome(fn: Any, spectrum: torch.Tensor, window: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The signal and the gradients of both arguments."""
    spectrum, window = spectrum.clone().requires_grad_(), window.clone().requires_grad_()
    signal = fn(spectrum, window)
    return signal.detach(), *torch.autograd.grad(signal.abs().pow(2).sum(), (spectrum, window))


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CALLS)
def test_signals_and_gradients(name: str, backend: str) -> None:
    """The second call has fewer frames, which are symbolic then."""
    framejit.reset()
    compiled = framejit.compile(CALLS[name], backend=backend)
    for spectrum in (SPECTRUM, SPECTRUM[:, :, :16], SPECTRUM[:, :, :18]):
        torch.testing.assert_close(outcome(compiled, spectrum, WINDOW), outcome(CALLS[name], spectrum, WINDOW))
    found = framejit.statistics()
    assert found["graph_breaks"] == 0 and found["graphs"] <= 3 and found["fallbacks"] == 0, found


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", [*BACKENDS, pytest.param("inductor", marks=pytest.mark.slow)])
def test_a_window_that_lets_nothing_through(backend: str, dynamic: bool) -> None:
    """The check of eager, which torch's version for AOTAutograd leaves out, is made in each call."""
    compiled = framejit.compile(CALLS["window"], backend=backend, dynamic=dynamic, fullgraph=True)
    torch.testing.assert_close(compiled(SPECTRUM, WINDOW), CALLS["window"](SPECTRUM, WINDOW))
    with pytest.raises(RuntimeError, match="window overlap add min"):
        compiled(SPECTRUM, torch.eye(8)[0])


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_window_of_another_length(backend: str) -> None:
    """Eager's error, in its words."""
    with pytest.raises(RuntimeError) as expected:
        CALLS["window"](SPECTRUM, WINDOW[1:])
    with pytest.raises(RuntimeError) as found:
        framejit.compile(CALLS["window"], backend=backend)(SPECTRUM, WINDOW[1:])
    assert str(found.value) == str(expected.value)
