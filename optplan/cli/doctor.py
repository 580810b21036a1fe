"""``optplan doctor``: what is installed here, and whether it works."""

from __future__ import annotations

import platform
import re
import shutil
import sys
import time
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec
from typing import Any

from optplan import wings
from optplan.cli.commands import command
from optplan.cli.console import Shown, print_answer, print_json
from optplan.errors import OptplanError, one_line

#: Extras that are for those who develop optplan.
_DEVELOPERS = frozenset({"test", "dev", "docs"})
#: A solver of each engine with a small instance that it takes, and what differs there: every answer is verified.
_TRIED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("layered-paths", {}),
    ("highs", {}),
    ("cp-sat", {}),
    ("conic", {"problem": "continuous", "policy": "mixed"}),
)
_INSTANCE = "boa-two-classes"
#: Programs of others that plans are handed to.
_PROGRAMS = {
    "sbatch": "Slurm: run --executor slurm, submit",
    "kubectl": "Kubernetes: submit",
    "sky": "SkyPilot: submit",
    "torchrun": "PyTorch: fleets, measure jobs",
}
_WORKS, _MISSING = "works", "missing"
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[[^]]*])?(?P<range>[^;]*)(?:;.*extra == ['\"](?P<extra>[\w-]+))?")


@command(
    short_help="Say what is installed here, and whether it works.", examples=("optplan doctor", "optplan doctor --json")
)
def doctor(*, as_json: bool) -> int:
    """Say what is installed here, and whether it works.

    Each engine solves a small instance, and what it answers is verified without it; nothing else is changed or asked of
    anybody. Exit code 1: something that is installed does not work.
    """
    engines = [_try_solver(name, changes) for name, changes in _TRIED]
    here, listed = _describe_here(), {"engines": engines, "packages": _list_packages(), "programs": _list_programs()}
    if as_json:
        print_json({"here": here, **listed})
    else:
        from optplan.reporting.tables import fact_table, record_table

        parts: list[Shown] = [fact_table(here.items())]
        for name, records in listed.items():
            parts += ["", record_table(name, records)]
        print_answer(*parts)
    return 0 if all(each["state"] in (_WORKS, _MISSING) for each in engines) else 1


def _describe_here() -> dict[str, str]:
    kernel = find_spec("optplan.solvers.paths.kernel")
    is_compiled = kernel is not None and not str(kernel.origin).endswith(".py")
    slow = "not compiled, 20 times slower: install a C compiler, then optplan again"
    there = [wing.__name__.rpartition(".")[2] for wing in wings.wings()]
    return {
        "optplan": _find_version("optplan") or "not installed: this is its source",
        "kernel": "compiled" if is_compiled else slow,
        "wings": ", ".join(there) or "none: the core alone",
        "Python": f"{platform.python_version()}, {sys.executable}",
        "system": platform.platform(),
    }


def _try_solver(name: str, changes: dict[str, Any]) -> dict[str, Any]:
    """Let a solver solve, and verify what it says; whatever goes wrong is the answer."""
    from optplan import read_instance, solve, verify
    from optplan.formulations import formulation_named

    entry = next(each for each in formulation_named("boa").solvers if each.name == name)
    record = {"solver": name, "state": _MISSING, "needs": entry.needs, "seconds": None}
    if not entry.available():
        return record | {"needs": f'{entry.needs}: pip install "optplan[{entry.extra}]"'}
    since_s = time.perf_counter()
    try:
        instance = read_instance(_INSTANCE).replace(**changes)
        result = solve(instance, solver=name, ranges=False)
        state = (
            _WORKS
            if result.status == "optimal" and verify(instance, result).nothing_wrong
            else f"wrong: {result.status}"
        )
    except (OptplanError, ImportError, OSError) as error:
        state = one_line(f"{type(error).__name__}: {error}")
    return record | {"state": state, "seconds": round(time.perf_counter() - since_s, 2)}


def _list_packages() -> list[dict[str, Any]]:
    try:
        needed = distribution("optplan").requires or []
    except PackageNotFoundError:
        return []
    records = []
    for text in needed:
        match = _REQUIREMENT.match(text)
        if match and match["extra"] not in _DEVELOPERS:
            extra = match["extra"]
            told = _find_version(match["name"]) or (f'missing: pip install "optplan[{extra}]"' if extra else "missing")
            records.append({"package": match["name"], "extra": extra, "needs": match["range"].strip(), "here": told})
    return records


def _find_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _list_programs() -> list[dict[str, Any]]:
    return [{"program": name, "for": what, "here": shutil.which(name) or _MISSING} for name, what in _PROGRAMS.items()]
