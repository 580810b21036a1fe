"""Every change of a field with meaning is noticed: all formulations, all solvers, one field at a time.

A result that nothing is wrong with is taken apart; one of its fields is changed, emptied or removed; either it can no
longer be read, or the judge finds something wrong, or something is left on trust that was not before. What may change
unnoticed is free text and measurement (:data:`FREE`), or leaves the claim true (:func:`still_true`).

``make fuzz`` tries as many more as it is told to.
"""

from __future__ import annotations

import copy
import math
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from optplan.contracts import Instance, Result, Solution, Status
from optplan.contracts.registry import Formulation, SolverEntry
from optplan.errors import DataError, UsageError
from optplan.formulations import formulation_of, formulations
from optplan.instances.changes import apply_changes, parse_change
from optplan.instances.library import build_named
from optplan.solving import solve
from optplan.verification import verify

Data = dict[str, Any]
Path = tuple[str | int, ...]

#: Changes of instances that several features need.
_TWO_TYPES = (
    "gpu_types.a100={price_usd_per_hour: 4.0}",
    "classes.vision.speedup.a100={form: table, gpus: [1, 2, 4, 8], speedup: [2.0, 3.6, 6.0, 9.0]}",
    "classes.speech.speedup.a100={form: amdahl, serial_fraction: 0.1}",
    "budget=25usd/hour",
)
_JOINT = ("gpu_types.a100.quota_gpus=2", "classes.speech.most_mean_jct=53min", "classes.vision.least_mean_gpus=3")
_NOISE = ("training.iteration_noise={form: normal, sd_fraction: 0.1}",)

#: Instances that between them make every solver give every kind of answer it has, proven, infeasible, without a bound,
#: and that have each feature: quotas, due dates, floors, caps, several of them, whole nodes, spot, two limits.
INSTANCES: dict[str, tuple[str, tuple[str, ...]]] = {
    "boa": ("boa-two-classes", ()),
    "boa-mixed": ("boa-two-epochs", ("policy=mixed",)),
    "boa-continuous": ("boa-two-epochs", ("problem=continuous",)),
    "boa-infeasible": ("boa-two-classes", ("budget=1gpu",)),
    "rubberband": ("rubberband-two-stages", ()),
    "rubberband-infeasible": ("rubberband-two-stages", ("deadline_s=60",)),
    "rubberband-confidence": ("rubberband-resnet50-stragglers", ("confidence=0.95",)),
    "rubberband-confidence-infeasible": (
        "rubberband-two-stages",
        (*_NOISE, "deadline_s=290", "budget=0.37usd", "confidence=0.95"),
    ),
    "seer": ("seer-paper-example", ()),
    "seer-infeasible": ("seer-paper-example", ("budget=0.1gpu-min",)),
    "srift": ("srift-interruption", ()),
    "srift-infeasible": ("srift-interruption", ("deadline_s=1",)),
    "boa-quotas": ("boa-two-classes", (*_TWO_TYPES, "gpu_types.a100.quota_gpus=1.5")),
    "boa-due": ("boa-two-classes", ("classes.speech.most_mean_jct=53min",)),
    "boa-floors": ("boa-two-classes", ("classes.speech.least_mean_gpus=2",)),
    "boa-cap": ("boa-two-classes", ("most_gpus={gpus: 20, probability: 0.9}",)),
    "boa-joint": ("boa-two-classes", (*_TWO_TYPES, *_JOINT)),
    "boa-joint-infeasible": ("boa-two-classes", (*_TWO_TYPES, *_JOINT, "budget=5usd/hour")),
    "boa-whole-nodes": ("boa-two-classes", ("gpu_types.v100.gpus_per_node=4", "whole_nodes=true", "budget=20gpu")),
    "boa-spot": ("boa-two-classes", ("gpu_types.v100.spot={interruptions_per_gpu_hour: 0.05, restart_s: 120}",)),
    "rubberband-both": ("rubberband-two-stages", ("deadline_s=400", "budget=0.5usd")),
    "rubberband-both-confidence": (
        "rubberband-two-stages",
        (*_NOISE, "deadline_s=400", "budget=0.5usd", "confidence=0.9"),
    ),
    "seer-informed": ("seer-informed-example", ("prior.samples=500", "prior.choice_samples=100")),
    "srift-both": ("srift-interruption", ("budget=1000usd",)),
    "throughputs": ("throughputs-resnet50-gavel", ()),
    "throughputs-infeasible": ("throughputs-resnet50-gavel", ("deadline_s=1",)),
}

#: Fields that are free text, or say who worked, how long and how hard: nobody can check them, nothing rests on them.
#: The gap that was asked for is the user's statement; which solver it was shows in nothing but its kinds of proof.
FREE = {
    "events",
    "engine",
    "engine_version",
    "optplan_version",
    "termination",
    "seed",
    "solve_seconds",
    "verify_seconds",
    "counters",
    "warnings",
    "on_trust",
    "changes",
    "gap_target",
}

#: Changes tried for each solver and instance.
CHANGES = max(60, int(os.environ.get("OPTPLAN_FUZZ_CASES", "0")) // 50)
SEED = int(os.environ.get("OPTPLAN_FUZZ_SEED", "1"))


@dataclass(frozen=True)
class Case:
    """A solver's result of an instance, as data, and what the judge takes on trust of it."""

    instance: Instance
    result: Result[Solution]
    data: Data
    trusted: tuple[str, ...]


@cache
def solved(label: str, solver: str) -> Case | None:
    """Solve an instance by a solver; None when it refuses the instance."""
    name, changes = INSTANCES[label]
    instance = apply_changes(build_named(name), [parse_change(change) for change in changes])
    formulation = formulation_of(instance)
    if formulation.solver(solver).refusal(instance, formulation.describe(instance)) is not None:
        return None
    result = solve(instance, solver=solver, time_limit_s=20.0)
    return Case(instance, result, result.to_json_data(), verify(instance, result).on_trust)


def walk(data: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """Yield every value in plain data with its path, containers too."""
    if path:
        yield path, data
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inner:
        yield from walk(value, (*path, key))


def list_changes(value: object, rng: random.Random) -> list[object]:
    """List other values for a field, of its own kind; an ellipsis stands for leaving it out."""
    match value:
        case bool():
            return [not value]
        case int() | float():
            factors = (1.01, 0.99, 1.0 + 1e-5, 1.0 - 1e-5, -1.0, 0.0, 2.0, 1e300)
            return [value * factor if value else rng.choice((0.01, -1.0, 1e9)) for factor in factors] + [...]
        case str():
            return [value + "x", "", ...]
        case dict() | list():
            return [type(value)(), ...]
    return [0.0, "x"]


def changed(data: Data, path: Path, value: object) -> Data:
    """Return a copy of the data with another value at a path, or without it."""
    copied = copy.deepcopy(data)
    inner: Any = copied
    for part in path[:-1]:
        inner = inner[part]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return copied


def still_true(case: Case, path: Path, data: Data) -> bool:
    """Whether a changed result claims nothing that is not so."""
    if path[0] in FREE or "content" in path:
        return True  # a tree that is read otherwise proves its claim all the same, or is refused
    if type(case.result).parse(data).to_json_data() == case.data:
        return True  # a default was left out
    if path[0] == "certificates" and len(path) == 2:
        return bool(case.data["certificates"][path[1]]["form"] != case.data["bound_proof"])  # not what it rests on
    silent = path == ("demand",) or (path[0] == "evidence" and "assumed" not in case.data["evidence"])
    if silent and not data.get(str(path[0])):
        return True  # as results of earlier versions, it says nothing of that
    last = path[-1]
    inside = any(part in ("multipliers", "less_multipliers", "more_multipliers") for part in path)
    if inside and isinstance(last, str) and last in case.instance.limits:
        # Any multiple of a proof of infeasibility is one; beside its maximum the dual function hardly changes.
        # A weight that is left out is none. Where several limits bind, it may be flat along one of them, and any
        # weights at which the dual bound is as good prove as much; whether it is, the judge computes.
        flat = 0.02 if len(case.instance.limits) > 1 else 1e-4
        old, new = look_up(case.data, path), look_up(data, path)
        proof = path[0] == "infeasibility" and path[1] in ("multipliers", "hopeless")
        return (proof and new > 0.0) or (old == 0.0 and math.isnan(new)) or abs(new - old) <= flat * abs(old)
    if "parts" in path and len(look_up(case.data, path[: path.index("parts") + 1])) == 1:
        part = look_up(data, path)  # one part is the whole
        return not part or (isinstance(part, float) and math.isnan(part))
    if path[0] == "shadow_prices":
        # Without the prices that a solver need not give less is said; the dual function is flat beside its maximum.
        if last in ("less", "more"):
            return bool(abs(look_up(data, path) - look_up(case.data, path)) <= 1e-4 * look_up(case.data, path))
        gives = formulations()[case.result.formulation].solver(case.result.solver).prices
        return len(path) <= 2 and not gives
    default = last == "enough" or (last == "fraction" and look_up(case.data, path) == 1.0)
    emptied = "solution" in path and not look_up(data, path[: path.index("solution") + 1])  # its only field left out
    if path[0] == "infeasibility" and (last == "solution" or emptied or (default and math.isnan(look_up(data, path)))):
        return True  # less is said then of what is enough, or decisions take it that are as good, or the same
    if path[0] == "infeasibility" and any(claim.startswith("infeasibility") for claim in case.trusted):
        return True  # it is on trust already, and no more is said of it
    if last == "allowance":  # looking further proves as much, within reason
        old, new = look_up(case.data, path), look_up(data, path)
        return bool(old < new < 3 * old) or (old == 0.0 and new > 0.0)
    if last == "optimum" and path[0] == "certificates" and math.isnan(look_up(data, path)):
        return True  # no plan that keeps the limits is said to be found, and the bound is derived all the same
    return last == "reason"


def look_up(data: Data, path: Path) -> Any:  # noqa: ANN401 - whatever stands there
    """Return the value at a path; NaN where it was left out."""
    inner: Any = data
    for part in path:
        if isinstance(inner, dict) and part not in inner:
            return float("nan")
        inner = inner[part]
    return inner


def is_noticed(case: Case, data: Data) -> bool:
    """Whether changed data cannot be read, belong to something else, are wrong, or leave more on trust."""
    try:
        verification = verify(case.instance, type(case.result).parse(data))
    except (DataError, UsageError):
        return True
    return not verification.nothing_wrong or set(verification.on_trust) > set(case.trusted)


def pairs() -> Iterator[Any]:
    """Yield every instance with every solver of its formulation."""
    for label, (name, _) in INSTANCES.items():
        for entry in formulation_named_by(name).solvers:
            yield pytest.param(label, entry, id=f"{label}-{entry.name}")


def formulation_named_by(name: str) -> Formulation:
    """Return the formulation that an instance of the library belongs to: its name begins with the formulation's."""
    return formulations()[name.split("-", maxsplit=1)[0]]


@pytest.mark.parametrize(("label", "entry"), list(pairs()))
def test_every_change_with_meaning_is_noticed(label: str, entry: SolverEntry) -> None:
    """One field at a time, by little, by much, emptied, left out; never an error of the judge's own."""
    case = solved(label, entry.name) if entry.available() else None
    if case is None:
        return  # what a solver refuses is the conformance tests' matter
    rng = random.Random(f"{SEED} {label} {entry.name}")
    every = [(path, other) for path, value in walk(case.data) for other in list_changes(value, rng)]
    unnoticed = []
    for path, other in rng.sample(every, min(CHANGES, len(every))):
        data = changed(case.data, path, other)
        if data != case.data and not is_noticed(case, data) and not still_true(case, path, data):
            unnoticed.append((path, look_up(case.data, path), other))
    assert unnoticed == []


def test_feasible_is_not_said_where_the_gap_is_closed() -> None:
    """The status is part of the claim, both ways."""
    case = solved("boa", "layered-paths")
    assert case is not None
    assert case.result.status is Status.OPTIMAL
    assert is_noticed(case, case.data | {"status": "feasible"})
    assert is_noticed(case, case.data | {"solver": "nobody"})
