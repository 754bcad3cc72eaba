"""Calls of libraries in the middle of a tensor program: what the table of the boundary to library code runs."""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import csv
import dataclasses
import datetime
import decimal
import functools
import hashlib
import inspect
import io
import json
import logging
import logging.handlers
import os
import pathlib
import pickle
import pprint
import queue
import random
import re
import shutil
import statistics
import string
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import traceback
import urllib.parse
import uuid
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

folder = tempfile.mkdtemp(prefix="framejit-boundary-")
silent = logging.getLogger("tools.bench.boundary.silent")
silent.propagate = False
silent.setLevel(logging.INFO)
silent.addHandler(logging.NullHandler())
formatting = logging.getLogger("tools.bench.boundary.formatting")
formatting.propagate = False
formatting.setLevel(logging.INFO)
formatting.addHandler(logging.StreamHandler(io.StringIO()))
formatting.handlers[0].setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(filename)s:%(lineno)d %(message)s"))
writing = logging.getLogger("tools.bench.boundary.writing")
writing.propagate = False
writing.setLevel(logging.INFO)
writing.addHandler(logging.handlers.RotatingFileHandler(os.path.join(folder, "log"), maxBytes=10**6))
lock = threading.Lock()
waiting: queue.Queue[int] = queue.Queue()
linear = nn.Linear(4, 4)
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=3)
CONFIG = {"name": "model", "sizes": [1, 2, 3], "rate": 0.5, "nested": {"flag": True, "none": None}}


@dataclasses.dataclass
class Settings:
    size: int = 3
    names: list[str] = dataclasses.field(default_factory=lambda: ["a", "b"])
    rate: float = 0.5


class Pair(NamedTuple):
    first: int
    second: int


class Word:
    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"Word({self.text!r})"


class JsonOfWords(json.JSONEncoder):
    def default(self, value: Any) -> Any:
        return value.text if isinstance(value, Word) else super().default(value)


@contextlib.contextmanager
def doubled(x: torch.Tensor) -> Iterator[torch.Tensor]:
    yield x * 2


@functools.singledispatch
def width(value: Any) -> int:
    return 1


@width.register
def _(value: str) -> int:
    return len(value)


@functools.lru_cache
def cached(size: int) -> int:
    return size + 1


def deprecated(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=2)


def caught(x: torch.Tensor) -> None:
    try:
        raise ValueError("no")
    except ValueError:
        formatting.exception("went wrong")


def warned_once() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("quiet", UserWarning, stacklevel=2)


def write_rows() -> int:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([1, 2, 3])
    return len(out.getvalue())


def write_dicts() -> int:
    out = io.StringIO()
    csv.DictWriter(out, ["a", "b"]).writerow({"a": 1, "b": 2})
    return len(out.getvalue())


def hold_lock() -> int:
    with lock:
        return 3


def wait_in_queue() -> int:
    waiting.put(3)
    return waiting.get()


def run_thread() -> int:
    found: list[int] = []
    thread = threading.Thread(target=found.append, args=(3,))
    thread.start()
    thread.join()
    return found[0]


def swap(match: re.Match[str]) -> str:
    return match.group(0).upper()


def in_a_folder() -> bool:
    with tempfile.TemporaryDirectory() as name:
        return name is not None


def counted() -> int:
    counter = collections.Counter("abracadabra")
    counter.update("abc")
    return counter.most_common(1)[0][1]


def saved(x: torch.Tensor) -> torch.Tensor:
    path = os.path.join(folder, "x.pt")
    torch.save(x, path)
    return torch.load(path)


def saved_in_memory(x: torch.Tensor) -> torch.Tensor:
    file = io.BytesIO()
    torch.save({"x": x, "step": 3}, file)
    file.seek(0)
    return torch.load(file)["x"]


def saved_weights() -> int:
    file = io.BytesIO()
    torch.save(linear.state_dict(), file)
    return file.tell()


def who() -> int:
    return len(inspect.stack()[0].function)


def caller() -> int:
    return len(inspect.currentframe().f_code.co_name)  # type: ignore[union-attr]


def number(value: Any) -> float:
    return float(bool(value))


CASES: dict[str, tuple[int, Callable[[torch.Tensor], Any]]] = {
    "logging, below the level": (0, lambda x: silent.debug("s %s", 3)),
    "logging.info, NullHandler": (1, lambda x: silent.info("s %s", 3)),
    "logging.info, formatter": (1, lambda x: formatting.info("s %s", 3)),
    "logging.warning, file": (1, lambda x: writing.warning("s %s", 3)),
    "logging.exception": (1, caught),
    "logging.getLogger": (1, lambda x: logging.getLogger("tools.bench").name),
    "warnings.warn": (1, lambda x: warnings.warn("w", UserWarning, stacklevel=2)),
    "warnings.warn in a callee": (1, lambda x: deprecated("v")),
    "warnings.warn, filtered": (4, lambda x: warned_once()),
    "torch.save and load, file": (3, saved),
    "torch.save and load, BytesIO": (5, saved_in_memory),
    "torch.save of a state_dict": (4, lambda x: saved_weights()),
    "json.dumps": (1, lambda x: json.dumps(CONFIG)),
    "json.dumps, indent": (1, lambda x: json.dumps(CONFIG, indent=2)),
    "json.dumps, own encoder": (1, lambda x: json.dumps({"w": Word("a")}, cls=JsonOfWords)),
    "json.dumps, default=": (1, lambda x: json.dumps({"w": Word("a")}, default=str)),
    "json.loads": (1, lambda x: json.loads('{"a": [1, 2, {"b": null}]}')),
    "json.loads, hook": (1, lambda x: json.loads('{"a": 1}', object_hook=lambda found: sorted(found))),
    "re.match": (1, lambda x: number(re.match(r"(\w+)-(\d+)", "layer-12"))),
    "re.compile of a new pattern": (1, lambda x: number(re.compile(r"a(b|c)+[d-f]{2,3}?(?P<name>x)\1").pattern)),
    "re.sub with a callback": (1, lambda x: re.sub(r"\d", swap, "a1b2")),
    "copy.copy of a list": (0, lambda x: copy.copy([1, 2])),
    "copy.copy of an object": (1, lambda x: copy.copy(Word("a")).text),
    "copy.deepcopy of lists": (1, lambda x: copy.deepcopy([1, [2, {"a": 3}]])),
    "copy.deepcopy of a tensor": (1, lambda x: copy.deepcopy(x)),
    "copy.deepcopy of tensors": (1, lambda x: copy.deepcopy([x, {"a": x}])),
    "copy.deepcopy of a module": (1, lambda x: copy.deepcopy(linear)(x)),
    "pickle.dumps, loads": (2, lambda x: pickle.loads(pickle.dumps(CONFIG))),
    "pickle of a tensor": (2, lambda x: pickle.loads(pickle.dumps(x))),
    "subprocess.run": (1, lambda x: subprocess.run(["true"], check=True).returncode),
    "os.environ, os.path": (4, lambda x: os.path.join(os.path.dirname(os.path.abspath("a")), os.environ.get("HOME", ""))),
    "os.makedirs, os.listdir": (3, lambda x: (os.makedirs(os.path.join(folder, "m"), exist_ok=True), os.listdir(folder))),
    "shutil.rmtree": (2, lambda x: shutil.rmtree(os.path.join(folder, "none"), ignore_errors=True)),
    "print to a StringIO": (2, lambda x: print("a", file=io.StringIO())),
    "pathlib, joined": (2, lambda x: (pathlib.Path("a") / "b").name),
    "pathlib, written and read": (4, lambda x: (pathlib.Path(folder, "t").write_text("a"), pathlib.Path(folder, "t").read_text())),
    "datetime.now": (2, lambda x: datetime.datetime.now().isoformat()),
    "datetime, timedelta": (4, lambda x: (datetime.date(2020, 1, 2) + datetime.timedelta(days=3)).day),
    "random": (3, lambda x: (random.random(), random.randint(1, 3), random.sample([1, 2, 3], 2))),
    "random.Random": (2, lambda x: random.Random(3).choice([1, 2, 3])),
    "time": (2, lambda x: (time.time(), time.strftime("%Y"))),
    "threading.Lock": (2, lambda x: hold_lock()),
    "threading.Thread": (4, lambda x: run_thread()),
    "queue": (2, lambda x: wait_in_queue()),
    "csv.writer": (5, lambda x: write_rows()),
    "csv.DictWriter": (5, lambda x: write_dicts()),
    "tempfile": (2, lambda x: in_a_folder()),
    "uuid.uuid4": (2, lambda x: len(str(uuid.uuid4()))),
    "hashlib": (2, lambda x: hashlib.sha256(b"a").hexdigest()),
    "argparse": (1, lambda x: parser.parse_args(["--size", "4"]).size),
    "argparse, new parser": (3, lambda x: (lambda p: (p.add_argument("-n", type=int), p.parse_args(["-n", "1"])))(argparse.ArgumentParser())),
    "dataclasses.asdict": (1, lambda x: dataclasses.asdict(Settings())),
    "dataclasses.replace": (0, lambda x: dataclasses.replace(Settings(), size=4).size),
    "namedtuple._replace": (0, lambda x: Pair(1, 2)._replace(first=3)),
    "pprint.pformat": (1, lambda x: pprint.pformat(CONFIG)),
    "textwrap": (2, lambda x: (textwrap.dedent("  a\n  b"), textwrap.fill("some words to fill", 8))),
    "string.Template": (2, lambda x: string.Template("$a b").substitute(a=3)),
    "string.Formatter": (1, lambda x: string.Formatter().format("{} {a}", 1, a=2)),
    "collections.Counter": (3, lambda x: counted()),
    "functools.lru_cache": (1, lambda x: cached(3)),
    "functools.singledispatch": (1, lambda x: width("abc")),
    "contextlib.contextmanager": (0, lambda x: doubled(x).__enter__()),
    "contextlib.suppress": (0, lambda x: contextlib.suppress(ValueError).__enter__()),
    "decimal": (3, lambda x: float(decimal.Decimal("1.5") + 1)),
    "statistics": (2, lambda x: (statistics.mean([1.0, 2.0]), statistics.stdev([1.0, 2.0]))),
    "traceback.format_stack": (1, lambda x: len(traceback.format_stack())),
    "inspect.stack": (1, lambda x: who()),
    "inspect.currentframe": (2, lambda x: caller()),
    "inspect.signature": (1, lambda x: len(inspect.signature(swap).parameters)),
    "urllib.parse": (1, lambda x: urllib.parse.urlparse("http://a.b/c?d=e").netloc),
    "sys.stdout.write": (1, lambda x: sys.stdout.write("a\n")),
    "repr of a tensor": (1, lambda x: len(repr(x))),
    "torch.vmap": (1, lambda x: torch.vmap(lambda y: y + 1)(x)),
    "torch.func.grad": (1, lambda x: torch.func.grad(lambda y: (y * y).sum())(x)),
    "torch.autograd.functional.jacobian": (1, lambda x: torch.autograd.functional.jacobian(lambda y: y * 2, x)),
    "torch.manual_seed": (1, lambda x: number(torch.manual_seed(3))),
    "torch.utils.data": (2, lambda x: sum(len(b) for b in torch.utils.data.DataLoader([1, 2, 3, 4], batch_size=2))),
    "state_dict, load_state_dict": (2, lambda x: len(linear.load_state_dict(linear.state_dict()))),
}
"""By name: how often the program uses a library (calls, `with` statements, operators, the ends of files and threads), and what it does with
the tensor."""
