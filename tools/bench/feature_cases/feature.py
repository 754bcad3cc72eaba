"""`Feature`, a row of the table of features, and the table that rows register themselves in."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Feature:
    """A program, and how its arguments are made.

    Attributes:
        family: the file that the program is in.
        name: the name of its row.
        function: the program. It is called three times, with fresh arguments each time.
        arguments: makes the arguments. They, what the program returns, and all gradients of its results' sum are compared with eager's.
        packages: packages without which the row is skipped.
        environment: variables of the environment under which its process runs.
    """

    family: str
    name: str
    function: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    packages: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    def missing(self) -> list[str]:
        """Its packages that aren't installed."""
        return [package for package in self.packages if importlib.util.find_spec(package) is None]


FEATURES: dict[str, Feature] = {}


def a_matrix() -> tuple[torch.Tensor]:
    """One argument: a 4 by 6 matrix that requires a gradient."""
    return (torch.randn(4, 6, requires_grad=True),)


def feature(
    name: str,
    arguments: Callable[[], tuple[Any, ...]] = a_matrix,
    packages: tuple[str, ...] = (),
    environment: dict[str, str] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the decorated program as a row; the arguments are `Feature`'s."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if name in FEATURES:
            raise ValueError(f"two rows have the name {name!r}")
        family = function.__module__.rpartition(".")[2]
        FEATURES[name] = Feature(family, name, function, arguments, packages, tuple((environment or {}).items()))
        return function

    return register
