"""Measure whole calls of two installations of optplan beside one another: the library's questions, frontiers, explain.

Either installation runs in a process of its own; the two take turns, so that both see the same machine. Times are
processor time, the least of several calls on instances that are read anew; a solve has its check within::

    python benchmarks/compare_versions.py OLD/bin/python NEW/bin/python --only boa --repeats 5 -o rows.json
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

#: Milliseconds from which a row counts in the median of how much quicker the other installation is.
LONG_MS = 20.0
#: Values may differ by so much, relative to the larger.
TOLERANCE = 1e-12

Row = dict[str, Any]


def main() -> None:
    """Print a table of both installations' times, or be the process that measures one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", nargs="?", help="the interpreter of one installation")
    parser.add_argument("new", nargs="?", help="the interpreter of the other")
    parser.add_argument("--only", default="", help="rows whose name has this, a regular expression")
    parser.add_argument("--repeats", type=int, default=3, help="calls of which the least time counts")
    parser.add_argument("-o", "--output", type=Path, help="where to write the rows as JSON")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        answer_requests()
        return
    rows = list(compare(arguments.old, arguments.new, arguments.only, arguments.repeats))
    print_summary(rows)
    if arguments.output:
        arguments.output.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


# ------------------------------------------------------------------------------------------------- two installations


def compare(old: str, new: str, only: str, repeats: int) -> Iterator[Row]:
    """Yield a row for each question, printed as soon as it is measured."""
    sides = [start(python) for python in (old, new)]
    names = [name for name in ask(sides[1], {"list": True}) if re.search(only, name)]
    print(f"{'':66} {'old ms':>9} {'new ms':>9} {'old/new':>8} {'solver':>8} {'check':>8}")
    for name in names:
        found: list[list[Row]] = [[], []]
        for _ in range(repeats + 1):  # the first call imports and fills caches
            for side, measured in zip(sides, found, strict=True):
                measured.append(ask(side, {"name": name}))
        before, after = ({**row[-1], **least(row[1:])} for row in found)
        row = {"name": name, "old": before, "new": after, "same": is_same(before["answer"], after["answer"])}
        print(
            f"{name[:66]:66} {before['ms']:9.2f} {after['ms']:9.2f} {before['ms'] / after['ms']:8.2f} "
            f"{after['solver_ms']:8.2f} {after['check_ms']:8.2f}{'' if row['same'] else '  DIFFERS'}",
            flush=True,
        )
        yield row
    for side in sides:
        side.terminate()


def start(python: str) -> subprocess.Popen[str]:
    """Start the process that measures an installation."""
    command = [python, "-P", __file__, "--measure"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(side: subprocess.Popen[str], request: dict[str, Any]) -> Any:  # noqa: ANN401 - what the request is about
    """Send a request to such a process and return what it answers."""
    if side.stdin is None or side.stdout is None:
        raise RuntimeError("the process was started without pipes")
    side.stdin.write(json.dumps(request) + "\n")
    side.stdin.flush()
    return json.loads(side.stdout.readline())


def least(rows: list[Row]) -> Row:
    """Return the least of each time."""
    return {key: min(row[key] for row in rows) for key in ("ms", "solver_ms", "check_ms")}


def is_same(before: list[Any], after: list[Any]) -> bool:
    """Whether two answers are the same up to rounding."""
    return len(before) == len(after) and all(
        one == other
        or (isinstance(one, float) and isinstance(other, float) and abs(one - other) <= TOLERANCE * max(one, other))
        for one, other in zip(before, after, strict=True)
    )


def print_summary(rows: list[Row]) -> None:
    """Print what the rows amount to."""
    kinds = {row["name"]: re.split("[-+]", row["name"])[0] for row in rows}
    for kind in sorted(set(kinds.values())):
        own = [row for row in rows if kinds[row["name"]] == kind]
        long = [row["old"]["ms"] / row["new"]["ms"] for row in own if row["old"]["ms"] > LONG_MS]
        slower = max(own, key=lambda row: row["new"]["ms"] - row["old"]["ms"])
        checks = [row["new"]["check_ms"] / max(row["new"]["solver_ms"], LONG_MS) for row in own]
        print(
            f"{kind}: {len(own)} rows, {len(long)} of {LONG_MS:g} ms and more"
            f"{f', {median(long):.2f} times quicker in the median, {min(long):.2f} at worst' if long else ''}; "
            f"most milliseconds more: {slower['new']['ms'] - slower['old']['ms']:.1f} ({slower['name']}); "
            f"check over the greater of solver and {LONG_MS:g} ms: {max(checks):.2f} at worst; "
            f"answers differ: {sum(not row['same'] for row in own)}"
        )


# ------------------------------------------------------------------------------------------------- one installation


def answer_requests() -> None:
    """Answer requests from standard input, one a line."""
    warnings.simplefilter("ignore")
    questions = dict(list_questions())
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        answer = list(questions) if "list" in request else questions[request["name"]]()
        print(json.dumps(answer), flush=True)


def list_questions() -> Iterator[tuple[str, Callable[[], Row]]]:
    """Yield what can be asked, by name."""
    from optplan.lab.benchmarks import best_known

    for name, record in best_known.list_questions(quick=False):
        yield best_known.name_record(name, record), partial(measure, solve, read_recorded, name, record)
    kinds = {
        (name, record["problem"], record["policy"]): record for name, record in best_known.list_questions(quick=True)
    }
    for (name, problem, policy), record in kinds.items():
        label = best_known.name_record(name, record)
        if name.startswith("boa") and policy == "mixed" and name != "boa-gavel":
            yield f"frontier-{label}", partial(measure, trade, read_recorded, name, record)
        if name in EXPLAINED and problem == "rescaling":
            yield f"explain-{label}", partial(measure, tell, read_recorded, name, record)
    for name, changes in RUBBERBAND:
        words = "-".join(
            f"{field}={value if not isinstance(value, dict) else value['form']}" for field, value in changes.items()
        )
        yield f"rubberband+{name[11:]}-{words}", partial(measure, solve, vary, name, changes)


def measure(how: Callable[[Any], Row], read: Callable[[str, Any], Any], name: str, what: object) -> Row:
    """Measure on an instance that is read anew."""
    return how(read(name, what))


#: What is explained, too.
EXPLAINED = frozenset({"boa-newtrace", "boa-newtrace-quotas"})
SIDE_BY_SIDE = {"form": "hyperband", "most_iterations": 27, "order": "side-by-side"}
#: Searches of the library with what their own questions lack, by the words of the instance's file.
RUBBERBAND: tuple[tuple[str, dict[str, Any]], ...] = (
    ("rubberband-resnet101-20min", {"mode": "fair"}),
    ("rubberband-resnet101-20min", {"cloud.minimum_charge_s": 300.0}),
    ("rubberband-resnet101-20min", {"cloud.minimum_charge_s": 3600.0}),
    ("rubberband-resnet152-60min", {"cloud.minimum_charge_s": 900.0}),
    ("rubberband-resnet50-stragglers", {"cloud.minimum_charge_s": 300.0}),
    ("rubberband-resnet101-30min", {"cloud.billing": "per-function"}),
    ("rubberband-resnet50-512", {"cloud.billing": "per-function"}),
    ("rubberband-resnet101-20min", {"budget": "12.9usd"}),
    ("rubberband-resnet50-data", {"budget": "60usd"}),
    ("rubberband-resnet101-20min", {"experiment": SIDE_BY_SIDE, "deadline_s": 3600.0}),
    (
        "rubberband-resnet101-20min",
        {"experiment": SIDE_BY_SIDE, "deadline_s": None, "objective": "time", "budget": "40usd"},
    ),
)


def read_recorded(name: str, record: dict[str, Any]) -> Any:  # noqa: ANN401 - an instance
    """Return an instance of the library as a record asks it."""
    from optplan.instances import library
    from optplan.lab.benchmarks import best_known

    return best_known.ask_as_recorded(library.build_named(name), record)


def vary(name: str, changes: dict[str, Any]) -> Any:  # noqa: ANN401 - an instance
    """Return an instance of the library with some fields changed; a dot leads into a part."""
    from optplan.instances import library

    instance = library.build_named(name)
    words = instance.to_json_data()
    for field, value in changes.items():
        place = words
        *parts, last = field.split(".")
        for part in parts:
            place = place[part]
        place[last] = value
    return type(instance).parse(words)


def solve(instance: Any) -> Row:  # noqa: ANN401 - an instance
    """Measure a solve with its check, and the check alone."""
    import optplan

    gc.collect()
    begin = time.process_time()
    result = optplan.solve(instance)
    whole = time.process_time() - begin
    begin = time.process_time()
    optplan.verify(instance, result)
    check = time.process_time() - begin
    answer = [result.status.value, result.objective, result.bound]
    return {"ms": 1e3 * whole, "solver_ms": 1e3 * (whole - check), "check_ms": 1e3 * check, "answer": answer}


def trade(instance: Any) -> Row:  # noqa: ANN401 - an instance
    """Measure the frontier of an instance."""
    import optplan

    gc.collect()
    begin = time.process_time()
    found = optplan.frontier(instance)
    whole = time.process_time() - begin
    answer = [float(axis[end]) for axis in (found.budgets, found.objectives) for end in (0, -1)]
    return {"ms": 1e3 * whole, "solver_ms": 1e3 * whole, "check_ms": 0.0, "answer": answer}


def tell(instance: Any) -> Row:  # noqa: ANN401 - an instance
    """Measure the explanation of a plan."""
    import optplan

    result = optplan.solve(instance)
    gc.collect()
    begin = time.process_time()
    found = optplan.explain(instance, result)
    whole = time.process_time() - begin
    return {"ms": 1e3 * whole, "solver_ms": 1e3 * whole, "check_ms": 0.0, "answer": [found is not None]}


if __name__ == "__main__":
    main()
