"""The command line of the tools that run cases with several compilers and backends, and write tables."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def table_options(description: str | None, cases: Iterable[str]) -> argparse.ArgumentParser:
    """A parser with the options that all of them have. `cases`: the names that `--only` takes."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="eager", help="comma-separated: eager (the default), aot_eager, inductor")
    parser.add_argument("--compiler", default="framejit,torch", help="comma-separated (default framejit,torch)")
    parser.add_argument("--only", help=f"comma-separated, of {', '.join(cases)}")
    parser.add_argument("--threads", type=int, default=1, help="torch's threads (default 1)")
    parser.add_argument("--markdown", type=Path, help="also write the tables to this file")
    return parser


def parsed(parser: argparse.ArgumentParser, select: Callable[[str | None], Any]) -> argparse.Namespace:
    """The options of this process. `select`: raises ValueError for what `--only` can't be."""
    options = parser.parse_args()
    try:
        select(options.only)
    except ValueError as error:
        parser.error(str(error))
    return options
