"""The command line: `python -m framejit explain FJ012`, `breaks`, `logs`, `cache`, `artifact`, `env`, `--version`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import framejit
from framejit import environment, logs
from framejit.errors import FramejitError
from framejit.reporting import catalogue
from framejit.saved import folder


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m framejit", description="What framejit's reports mean, and what is installed.")
    made.add_argument("--version", action="version", version=environment.version())
    commands = made.add_subparsers(dest="command", required=True)
    explain = commands.add_parser("explain", help="explain a reason for graph breaks")
    explain.add_argument("reason", help="its id, as reports show it: FJ012")
    breaks = commands.add_parser("breaks", help="list all reasons for graph breaks")
    breaks.add_argument("--write", metavar="FOLDER", type=Path, help="write a page for each into a folder instead")
    commands.add_parser("logs", help="list what FRAMEJIT_LOGS can show")
    cache = commands.add_parser("cache", help="list or delete the compiled code that is kept on disk for later processes")
    cache.add_argument("what", nargs="?", choices=("list", "clear"), default="list")
    artifact = commands.add_parser("artifact", help="say what a file covers that was written by precompile")
    artifact.add_argument("path", metavar="FILE", type=Path)
    commands.add_parser("env", help="report versions, the build, devices, caches and variables, to paste into an issue")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit status: 0, or 1 with a message on stderr."""
    asked = parser().parse_args(arguments)
    try:
        if asked.command == "explain":
            print(catalogue.page(catalogue.find(asked.reason)), end="")
        elif asked.command == "logs":
            print(logs.help_text())
        elif asked.command == "env":
            print(environment.report())
        elif asked.command == "artifact":
            print(framejit.load(asked.path))
        elif asked.command == "cache":
            print(folder.listing() if asked.what == "list" else folder.cleared())
        elif asked.write is None:
            for reason in catalogue.CATALOGUE.values():
                print(f"{reason.id}  {reason.__name__:<26}  {catalogue.summary(reason)}")
        else:
            for path in catalogue.write(asked.write):
                print(path)
    except (FramejitError, OSError) as error:
        print(f"python -m framejit: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
