"""Two installations of optplan, measured side by side on what the library records: times, and answers that differ.

It runs with the interpreter of one and is told the other's::

    python benchmarks/beside.py ../old/.venv/bin/python --only boa

Each measures in a process of its own (``side.py``), and they take turns, so that both see the same machine. Times are
processor time of whole calls, the least of several, on instances that are read anew; a solve has its check within.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from optplan.contracts import Instance
from optplan.errors import DataError, UsageError
from optplan.instances.changes import apply_changes, parse_change
from optplan.instances.files import format_json, write_json
from optplan.instances.library import ask_as_recorded, build_named, name_record
from optplan.lab.benchmarks import best_known
from optplan.progress import Event

#: Milliseconds from which a row counts in the median of how much quicker the other installation is.
LONG_MS = 20.0
#: Answers may differ by so much, relative to the larger.
TOLERANCE = 1e-12
#: What is explained, too.
_EXPLAINED = frozenset({"boa-newtrace", "boa-newtrace-quotas"})
_SIDE_BY_SIDE = "experiment={form: hyperband, most_iterations: 27, order: side-by-side}"
#: Searches of the library with what their own questions lack.
_SEARCHES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("rubberband-resnet101-20min", ("mode=fair",)),
    ("rubberband-resnet101-20min", ("cloud.minimum_charge_s=300",)),
    ("rubberband-resnet101-20min", ("cloud.minimum_charge_s=3600",)),
    ("rubberband-resnet152-60min", ("cloud.minimum_charge_s=900",)),
    ("rubberband-resnet50-stragglers", ("cloud.minimum_charge_s=300",)),
    ("rubberband-resnet101-30min", ("cloud.billing=per-function",)),
    ("rubberband-resnet50-512", ("cloud.billing=per-function",)),
    ("rubberband-resnet101-20min", ("budget=12.9usd",)),
    ("rubberband-resnet50-data", ("budget=60usd",)),
    ("rubberband-resnet101-20min", (_SIDE_BY_SIDE, "deadline_s=3600")),
    ("rubberband-resnet101-20min", (_SIDE_BY_SIDE, "deadline_s=null", "objective=time", "budget=40usd")),
)

Row = dict[str, Any]
#: The name of a question, what is called, and on which instance.
Question = tuple[str, str, Instance]


def list_questions(*, quick: bool) -> Iterator[Question]:
    """List what both are asked: every recorded solve, frontiers, explanations, and searches with further rules."""
    kinds, built = {}, cache(build_named)
    for name, record in best_known.list_questions(quick=quick):
        instance = ask_as_recorded(built(name), record)
        kinds[name, record["problem"], record["policy"]] = name_record(name, record), instance
        yield name_record(name, record), "solve", instance
    for (name, problem, policy), (label, instance) in kinds.items():
        if name.startswith("boa") and policy == "mixed" and name != "boa-gavel":
            yield f"frontier-{label}", "frontier", instance
        if name in _EXPLAINED and problem == "rescaling":
            yield f"explain-{label}", "explain", instance
    for name, changes in _SEARCHES:
        changed = apply_changes(built(name), [parse_change(text) for text in changes])
        yield f"rubberband+{name[11:]}-{'-'.join(changes)}", "solve", changed


def compare_installations(
    python: str,
    *,
    only: str = "",
    quick: bool = False,
    repeats: int = 3,
    on_event: Callable[[Event], None] | None = None,
) -> list[Row]:
    """Measure this installation beside the one of another interpreter, of whatever version.

    Questions are those whose name the regular expression ``only`` finds; of ``repeats`` calls the least time counts,
    after one that fills caches. Each row has ``name``; ``other`` and ``own``, each with ``ms``, ``solver_ms``,
    ``check_ms``; ``quicker``, the other's time over the own; ``same``, whether status, objective and bound agree to a
    relative 1e-12.
    """
    asked = [question for question in list_questions(quick=quick) if re.search(only, question[0])]
    if not asked:
        raise UsageError(f"only: no question has {only!r} in its name")
    with _start(python) as other, _start(sys.executable) as own, tempfile.TemporaryDirectory() as folder:
        rows = []
        for number, (name, question, instance) in enumerate(asked):
            write_json(instance, Path(folder) / f"{number}.json")
            request = {"question": question, "instance": str(Path(folder) / f"{number}.json")}
            turns = [[_ask(side, request, name) for side in (other, own)] for _ in range(repeats + 1)]
            rows.append(_make_row(name, *([turn[side] for turn in turns] for side in (0, 1))))
            if on_event is not None:
                on_event(Event(name, 0.0, fraction=(number + 1) / len(asked)))
        for side in (other, own):
            side.terminate()
    return rows


def _start(python: str) -> subprocess.Popen[str]:
    command = [python, "-P", str(Path(__file__).with_name("side.py"))]
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        raise UsageError(f"beside: {python} cannot be started: {error.strerror}; give the path of a Python") from None


def _ask(side: subprocess.Popen[str], request: dict[str, str], name: str) -> Row:
    if side.stdin is None or side.stdout is None:
        raise RuntimeError("the process was started without pipes")
    try:
        os.write(side.stdin.fileno(), (json.dumps(request) + "\n").encode())  # unbuffered: an end is seen here
        told = side.stdout.readline()
    except BrokenPipeError:
        told = ""
    if not told:
        raise DataError("beside", f"an installation ended at {name}", "its message is above")
    answer: Row = json.loads(told)
    return answer


def _make_row(name: str, other: Sequence[Row], own: Sequence[Row]) -> Row:
    times = ("ms", "solver_ms", "check_ms")
    least = [{time: min(row[time] for row in side[1:]) for time in times} for side in (other, own)]
    quicker = least[0]["ms"] / least[1]["ms"]
    same = is_same(other[-1]["answer"], own[-1]["answer"])
    return {"name": name, "other": least[0], "own": least[1], "quicker": quicker, "same": same}


def is_same(before: Sequence[Any], after: Sequence[Any]) -> bool:
    """Whether two answers are the same up to rounding."""
    return len(before) == len(after) and all(
        one == other
        or (isinstance(one, float) and isinstance(other, float) and abs(one - other) <= TOLERANCE * max(one, other))
        for one, other in zip(before, after, strict=True)
    )


def summarise(rows: Sequence[Row]) -> list[Row]:
    """Say what the rows of each kind of question amount to."""
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        kinds.setdefault(re.split("[-+]", row["name"])[0], []).append(row)
    return [{"questions": kind, **_summarise(own)} for kind, own in sorted(kinds.items())]


def _summarise(rows: Sequence[Row]) -> Row:
    long = [row["quicker"] for row in rows if row["other"]["ms"] > LONG_MS]
    slowest = max(rows, key=lambda row: row["own"]["ms"] - row["other"]["ms"])
    return {
        "rows": len(rows),
        f"of {LONG_MS:g} ms and more": len(long),
        "quicker in the median": median(long) if long else None,
        "at worst": min(long) if long else None,
        "most ms more": slowest["own"]["ms"] - slowest["other"]["ms"],
        "in": slowest["name"],
        f"check over solver or {LONG_MS:g} ms": max(
            row["own"]["check_ms"] / max(row["own"]["solver_ms"], LONG_MS) for row in rows
        ),
        "answers differ": sum(not row["same"] for row in rows),
    }


def main() -> None:
    """Print what each question took in either installation, and what these amount to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", help="the other installation's interpreter")
    parser.add_argument("--only", default="", metavar="REGEX", help="only questions that have this in their name")
    parser.add_argument("--quick", action="store_true", help="few limits")
    asked = parser.parse_args()
    rows = compare_installations(
        asked.python, only=asked.only, quick=asked.quick, on_event=lambda event: print(event.stage, file=sys.stderr)
    )
    print(format_json({"rows": rows, "summary": summarise(rows)}))


if __name__ == "__main__":
    main()
