"""Settings of torch, Python and NumPy that a compiled function reads: each of torch's getters is found, and every setting is changed under it."""

from __future__ import annotations

import codecs
import contextlib
import contextvars
import decimal
import gc
import locale
import os
import re
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.backends.mha
import torch.backends.mkldnn
import torch.utils.deterministic
import torch.utils.flop_counter

import framejit

x = torch.arange(6.0)
PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device, tuple)
VARIABLE: contextvars.ContextVar[int] = contextvars.ContextVar("VARIABLE", default=0)


@contextlib.contextmanager
def put(get: Callable[[], Any], change: Callable[[Any], Any], value: Any) -> Iterator[None]:
    """A setting changed inside the `with` block."""
    before = get()
    change(value)
    try:
        yield
    finally:
        change(before)


@contextlib.contextmanager
def attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


SETTINGS: dict[str, Callable[[], Any]] = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "autocast to float16": lambda: torch.autocast("cpu", torch.float16),
    "autocast without cache": lambda: torch.autocast("cpu", cache_enabled=False),
    "cache of autocast": lambda: put(torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled, False),
    "dtype of autocast": lambda: put(lambda: torch.get_autocast_dtype("cpu"), lambda v: torch.set_autocast_dtype("cpu", v), torch.float16),
    "default dtype": lambda: put(torch.get_default_dtype, torch.set_default_dtype, torch.float64),
    "default device": lambda: torch.device("meta"),
    "deterministic": lambda: put(torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, True),
    "deterministic, warnings only": lambda: put(torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode, "warn"),
    "filled memory": lambda: attribute(torch.utils.deterministic, "fill_uninitialized_memory", False),
    "matmul precision": lambda: put(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"),
    "anomaly": lambda: torch.autograd.set_detect_anomaly(True),
    "anomaly without check": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
    "warnings always": lambda: put(torch.is_warn_always_enabled, torch.set_warn_always, True),
    "threads of torch": lambda: put(torch.get_num_threads, torch.set_num_threads, torch.get_num_threads() + 1),
    "fast path": lambda: put(torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled, False),
    "flash attention": lambda: put(torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp, False),
    "math attention": lambda: put(torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp, False),
    "cudnn": lambda: torch.backends.cudnn.flags(enabled=False, benchmark=True, deterministic=True),
    "mkldnn": lambda: torch.backends.mkldnn.flags(enabled=False),
    "threads of autograd": lambda: torch.autograd.set_multithreading_enabled(False),
    "view replay": lambda: torch.autograd.grad_mode._force_original_view_tracking(True),
    "checks of sparse tensors": lambda: torch.sparse.check_sparse_tensor_invariants(True),
    "swapped parameters": lambda: put(
        torch.__future__.get_swap_module_params_on_conversion, torch.__future__.set_swap_module_params_on_conversion, True
    ),
    "overwritten parameters": lambda: put(
        torch.__future__.get_overwrite_module_params_on_conversion, torch.__future__.set_overwrite_module_params_on_conversion, True
    ),
    "sharing": lambda: put(torch.multiprocessing.get_sharing_strategy, torch.multiprocessing.set_sharing_strategy, "file_system"),
    "torch function disabled": torch._C.DisableTorchFunction,
    "a dispatch mode": lambda: torch.utils.flop_counter.FlopCounterMode(display=False),
    "recursion limit": lambda: put(sys.getrecursionlimit, sys.setrecursionlimit, 3210),
    "digits": lambda: put(sys.get_int_max_str_digits, sys.set_int_max_str_digits, 700),
    "switch interval": lambda: put(sys.getswitchinterval, sys.setswitchinterval, 0.25),
    "collector": lambda: put(gc.isenabled, lambda on: gc.enable() if on else gc.disable(), False),
    "thresholds": lambda: put(gc.get_threshold, lambda v: gc.set_threshold(*v), (701, 11, 11)),
    "directory": lambda: put(os.getcwd, os.chdir, "/"),
    "environment": lambda: attribute(os, "environ", {**os.environ, "FRAMEJIT_TEST_SETTING": "1"}),
    "variable of the environment": lambda: pytest.MonkeyPatch.context(),
    "locale": lambda: put(lambda: locale.setlocale(locale.LC_ALL), lambda v: locale.setlocale(locale.LC_ALL, v), "C.UTF-8"),
    "filters of warnings": warnings.catch_warnings,
    "decimal": lambda: decimal.localcontext(decimal.Context(prec=5)),
    "context variable": lambda: put(VARIABLE.get, VARIABLE.set, 3),
    "thread's name": lambda: attribute(threading.current_thread(), "name", "renamed"),
    "path": lambda: attribute(sys, "path", [*sys.path, "/nowhere"]),
    "arguments": lambda: attribute(sys, "argv", ["program"]),
    "errors of NumPy": lambda: np.errstate(all="raise"),
    "silence of NumPy": lambda: np.errstate(all="ignore"),
    "printing of NumPy": lambda: np.printoptions(precision=2, legacy="1.13"),
    "byte code": lambda: attribute(sys, "dont_write_bytecode", not sys.dont_write_bytecode),
    "stdout": lambda: contextlib.redirect_stdout(None),
}


def torchs_getters() -> dict[str, Callable[[], Any]]:
    """Torch's functions without arguments that say a plain value, by their names."""
    modules = [
        torch, torch.amp, torch.autograd, torch.autograd.graph, torch.autograd.forward_ad, torch.cuda, torch.random, torch.sparse, torch.overrides, torch.jit,
        torch.multiprocessing, torch.__future__, torch.utils.deterministic, torch._C, torch._C._autograd,
        *[module for name, module in sorted(sys.modules.items()) if name.startswith("torch.backends")],
    ]  # fmt: skip
    found: dict[str, Callable[[], Any]] = {}
    for module in modules:
        for name in dir(module):
            if not re.search(r"^_?(is|are|get|has|len)_|_enabled$|^(enabled|benchmark|deterministic|allow_tf32|fill_)", name):
                continue
            if re.search(r"rng|cpp|overridable|testing|ignored|code_cov|schema|operator|worker_info|sequence_nr|init|memory|stack_at|file_path|jit", name):
                continue
            value = getattr(module, name, None)
            if callable(value) and not isinstance(value, (type, types.ModuleType)):
                with contextlib.suppress(BaseException), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    if isinstance(value(), PLAIN):
                        found[f"{module.__name__}.{name}()"] = value
            elif isinstance(value, PLAIN):
                found[f"{module.__name__}.{name}"] = lambda module=module, name=name: getattr(module, name)
    return found


def in_thousands() -> str:
    return format(1234567, "n") + f"{1234567.5:n}"


def quotient_of_zero() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return repr(np.float32(1) / np.float32(0)), repr(np.float64(0.0) / np.float64(0.0))


def ask_for_a_device() -> Any:
    return torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), str(torch.empty(1).device), torch.tensor(1.5).dtype


PYTHONS: dict[str, Callable[[], Any]] = {
    "sys.getrecursionlimit": sys.getrecursionlimit,
    "sys.get_int_max_str_digits": sys.get_int_max_str_digits,
    "sys.getswitchinterval": sys.getswitchinterval,
    "gc.isenabled": gc.isenabled,
    "gc.get_threshold": gc.get_threshold,
    "os.getcwd": os.getcwd,
    "os.path.abspath": lambda: os.path.abspath("a"),
    "os.environ": lambda: os.environ.get("FRAMEJIT_TEST_SETTING"),
    "os.getenv": lambda: os.getenv("FRAMEJIT_TEST_SETTING"),
    "locale": lambda: locale.setlocale(locale.LC_ALL),
    "in thousands": in_thousands,
    "warnings.filters": lambda: len(warnings.filters),
    "decimal.getcontext": lambda: decimal.getcontext().prec,
    "decimal.Decimal": lambda: str(decimal.Decimal(1) / 3),
    "context variable": VARIABLE.get,
    "thread": lambda: threading.current_thread().name,
    "sys.path": lambda: len(sys.path),
    "sys.argv": lambda: len(sys.argv),
    "sys.dont_write_bytecode": lambda: sys.dont_write_bytecode,
    "sys.stdout": lambda: sys.stdout is None,
    "digits": lambda: len(str(7**1000)),
    "digits of text": lambda: int("7" * 800) % 1000,
    "digits of f-strings": lambda: len(f"{7**1000}{7**1000:d}"),
    "numpy.geterr": np.geterr,
    "quotient of zero": quotient_of_zero,
    "text of NumPy's numbers": lambda: (repr(np.float32(0.1)), str(np.float64(1e20)), f"{np.float16(3.0)}"),
    "device and autocast": ask_for_a_device,
}
GETTERS = {**torchs_getters(), **PYTHONS}


def answer(read: Callable[[], Any]) -> Any:
    try:
        return repr(read())
    except Exception as error:
        return type(error).__name__, str(error)


@contextlib.contextmanager
def changed(setting: str) -> Iterator[None]:
    """One of the settings is another one inside the `with` block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        entered = SETTINGS[setting]()
        with entered as made:
            if isinstance(made, pytest.MonkeyPatch):
                made.setenv("FRAMEJIT_TEST_SETTING", "2")
            elif isinstance(entered, warnings.catch_warnings):
                warnings.simplefilter("ignore", BytesWarning)
            yield


def readers_of(setting: str) -> list[str]:
    """The getters that give another answer under the setting."""
    before = {name: answer(read) for name, read in GETTERS.items()}
    steady = [name for name, read in GETTERS.items() if answer(read) == before[name]]
    with changed(setting):
        return [name for name in steady if answer(GETTERS[name]) != before[name]]


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_that_is_read_is_read_again(setting):
    wrong = []
    for name in readers_of(setting):
        read = GETTERS[name]

        def program(t, read=read):
            return t.sum(), read()

        def result(fn):
            return answer(lambda: fn(x)[1])

        framejit.reset()
        compiled = framejit.compile(program, backend="eager", isolate_recompiles=True)
        answers = [(result(program), result(compiled))]
        with changed(setting):
            answers += [(result(program), result(compiled)), (result(program), result(compiled))]
        answers.append((result(program), result(compiled)))
        if any(eager != ours for eager, ours in answers):
            wrong.append(f"{name}: {answers}")
    assert not wrong, "\n".join(wrong)


def test_codecs_and_error_handlers_of_the_programs_own_run_at_each_call():
    calls = []

    def handler(error):
        calls.append(error.reason)
        return "?", error.end

    codecs.register_error("framejit-test", handler)

    def program(t):
        own = "é".encode("ascii", "framejit-test"), b"\xff".decode(errors="framejit-test"), str(b"\xff", "ascii", "framejit-test")
        return t + 1, own, bytes("é", "ascii", "framejit-test"), "é".encode("UTF-8"), b"a".decode("ascii"), "é".encode(), bytes("a", "utf-8")

    compiled = framejit.compile(program, backend="eager")
    runs = []
    for fn in (program, compiled):
        calls.clear()
        runs.append(([fn(x)[1:] for _ in range(3)], calls[:]))
    assert runs[0] == runs[1]
    codecs.register_error("framejit-test", lambda error: ("!", error.end))
    assert compiled(x)[1:] == program(x)[1:]
