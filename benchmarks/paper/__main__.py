"""Run BOA Constrictor's evaluation and write its page: see ``--help``."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from suites.sweeps import count_processors

from optplan.errors import DataWarning, OptplanError
from optplan.progress import Event
from optplan.units import parse_duration
from paper.gathering import gather_all
from paper.pages import write_page
from paper.running import Runner
from paper.setting import QUICK, Scope, Setting


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is not there yet, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m paper", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data")
    parser.add_argument(
        "--cells", type=Path, default=Path("out/paper"), help="what was simulated; default: %(default)s"
    )
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="where the page goes; default: %(default)s")
    parser.add_argument("--processes", type=int, default=count_processors(), help="at once; default: %(default)s")
    parser.add_argument("--time-limit", help="begin no more cells after this time, such as 1h")
    parser.add_argument(
        "--without", action="append", default=[], metavar="POLICY", help="begin no cells of it, as pollux"
    )
    parser.add_argument("--quick", action="store_true", help="sub-traces and few sizes: does it run?")
    asked = parser.parse_args(arguments)
    limit_s = parse_duration(asked.time_limit, what="--time-limit") if asked.time_limit else None
    try:
        setting = Setting(asked.data, asked.cells, QUICK if asked.quick else Scope())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # rates that rest on few jobs are what sub-traces have
            told = gather_all(Runner(setting, asked.processes, limit_s, asked.without, _say))
        command = "make bench-paper" + (" PAPER_FLAGS=--quick" if asked.quick else "")
        for path in write_page(told, asked.docs, command=command):
            sys.stderr.write(f"wrote {path}\n")
    except OptplanError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _say(event: Event) -> None:
    sys.stderr.write(f"{event.elapsed_s:.0f} s: {event.stage}\n")


if __name__ == "__main__":
    sys.exit(main())
