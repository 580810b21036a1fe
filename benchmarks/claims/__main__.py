"""Measure what is missing for the claims of the papers, and write their pages."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from claims.papers import CACHE, NAMES, measure, parts_of
from claims.record import Scope
from claims.tables import write_all
from optplan.errors import DataWarning, OptplanError


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m claims", description=__doc__)
    parser.add_argument("papers", nargs="*", metavar="PAPER", help=f"of {', '.join(NAMES)}; default: all")
    parser.add_argument("--data", type=Path, help="folder of the public data; parts that need it are left out without")
    parser.add_argument("--quick", action="store_true", help="smaller, into out/claims: does it run?")
    parser.add_argument(
        "--pages", action="store_true", help="measure nothing, write the pages of the rows that are kept"
    )
    parser.add_argument("--again", action="append", default=[], metavar="PART", help="measure it though it is kept")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.papers if name not in NAMES]
    if unknown:
        parser.error(f"no paper is called {unknown[0]!r}; there are {', '.join(NAMES)}")
    lost = [part for part in asked.again if not any(part in parts_of(name) for name in asked.papers or NAMES)]
    if lost:
        parts = ", ".join(repr(part) for name in asked.papers or NAMES for part in parts_of(name))
        parser.error(f"--again: nothing that is measured is called {lost[0]!r}; there are {parts}")
    docs, cache = (Path("out/claims"), Path("out/claims/rows")) if asked.quick else (Path("docs"), CACHE)
    readme = None if asked.quick else Path("README.md")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # noise below zero and few jobs are what some claims are about
            for name in () if asked.pages else asked.papers or NAMES:
                measure(name, Scope(asked.data, asked.quick), cache, asked.again, _say)
        for path in write_all(docs, cache, readme):
            _say(f"wrote {path}")
    except OptplanError as error:
        _say(str(error))
        return 1
    return 0


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
