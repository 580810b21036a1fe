"""Instances with known optima of Srift, and of jobs with measured speeds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.judge.evaluation import evaluate as evaluate_fleet
from optplan.formulations.throughputs.data import ThroughputsInstance
from optplan.instances.library import build_named
from optplan.schema import FloatArray

from .known_optima import Case


def srift_cases() -> Iterator[Case]:
    """Yield Srift's cases: published choices, and small offers whose every fleet is judged here."""
    for name, optimum in (("srift-case2", 3.2106), ("srift-case3", 2.7388)):  # US dollars, of the calibration
        instance = build_named(name)
        assert isinstance(instance, SriftInstance)
        known = evaluate_fleet(instance, PUBLISHED_FLEETS[name]).objective
        assert known == pytest.approx(optimum, rel=1e-4)
        yield Case(name, instance, known)
    for name, changes in FLEETS.items():
        figures = _judge_every_fleet(_fleet_instance(changes))  # (fleets, 2): seconds and US dollars
        for objective, asked in enumerate(("time", "cost")):
            limit = 1 - objective
            plain = _fleet_instance(changes | {"objective": asked})
            yield Case(f"{name}-{asked}", plain, float(figures[:, objective].min()))
            best = figures[figures[:, objective].argmin(), limit]
            less = figures[figures[:, limit] < best * (1 - 1e-6)]
            amount = float(less[:, limit].max())  # the nearest that excludes the best one; met exactly
            instance = plain.replace(**({"budget": f"{amount!r}usd"} if limit else {"deadline_s": amount}))
            yield Case(f"{name}-{asked}-limited", instance, float(less[:, objective].min()))
    for name, changes in FLEETS_INFEASIBLE.items():
        instance = _fleet_instance(changes)
        assert not _judge_every_fleet(instance).size
        yield Case(f"{name}-infeasible", instance, None)


#: The paper's choices in cases 2 and 3 (5.2).
PUBLISHED_FLEETS = {
    name: SriftSolution(groups=tuple(VmGroup(type=vm, count=n, batch=batch) for vm, n, batch in groups))
    for name, groups in {
        "srift-case2": [("g4dn.8xlarge", 8, 128)],
        "srift-case3": [("p3.8xlarge", 4, 1024), ("g3.8xlarge", 8, 128), ("g4dn.8xlarge", 8, 128)],
    }.items()
}
_SPOT_VM: dict[str, Any] = {"spot": True, "interruptions_per_hour": 4.0}
_LOST: dict[str, Any] = {"interruptions": {"checkpoint_every_s": 5.0, "checkpoint_s": 0.5, "restart_s": 20.0}}
#: What every solver of Srift is tried on: changes of the offer in :func:`_fleet_instance`.
FLEETS: dict[str, dict[str, Any]] = {
    "offer": {},
    "any-batches": {"one_batch_per_type": False},
    "one-type": {"mixed": False, "types": {"big": {}, "small": {"available": 8}}},
    "running": {"types": {"big": {"running": 1}, "small": {}}, "launch_s": 3.0, "launch_billed": True},
    "interruptions": {"types": {"big": {}, "small": _SPOT_VM}} | _LOST,
    "any-batches-all": {
        "types": {"big": _SPOT_VM, "small": {"running": 1}},
        "launch_s": 3.0,
        "one_batch_per_type": False,
    }
    | _LOST,
}
FLEETS_INFEASIBLE: dict[str, dict[str, Any]] = {
    "deadline": {"deadline_s": 1.0},
    "budget": {"budget": "0.001usd"},
    "both-limits": {"deadline_s": 17.0, "budget": "0.021usd"},
    "availability": {"global_batch": 48},
    "batch": {"global_batch": 25},
    "any-batches-deadline": {"deadline_s": 1.0, "one_batch_per_type": False},
    "running": {"deadline_s": 1.0, "types": {"big": {"running": 1}, "small": {}}},
    "interruptions": {"deadline_s": 1.0, "types": {"big": {}, "small": _SPOT_VM}} | _LOST,
}


def _fleet_instance(changes: dict[str, Any]) -> SriftInstance:
    """Return an offer of a big VM (two GPUs) and four small ones for a batch of 16, with some changes."""
    big = {"gpu": "fast", "gpus": 2, "price_usd_per_hour": 3.0, "network_gbit_per_s": 10, "available": 1}
    small = {"gpu": "slow", "price_usd_per_hour": 0.7, "network_gbit_per_s": 5, "available": 4}
    offered = {"big": big | {"batches": [4, 8, 12]}, "small": small | {"batches": [1, 2, 4]}}
    changed = changes.get("types", {})
    devices = {"fast": (0.01, 0.02), "slow": (0.02, 0.05)}
    fields: dict[str, Any] = {
        "job": {
            "layers": {"gradient_bytes": [4e6, 1e6, 2e7], "ready": [0.2, 0.6, 1.0]},
            "devices": {
                name: {"batches": [1, 8], "forward_s": [a, a + 7 * b / 3], "backward_s": [2 * a, 2 * a + 14 * b / 3]}
                for name, (a, b) in devices.items()
            },
        },
        "global_batch": 16,
        "iterations": 100,
    }
    types = {"types": {name: vm | changed.get(name, {}) for name, vm in offered.items()}}
    return SriftInstance.parse({"formulation": "srift", "name": "offer", **fields, **changes, **types})


def _judge_every_fleet(instance: SriftInstance) -> FloatArray:
    """Return (fleets, 2) time and cost of all fleets that the judge finds no fault with."""
    cells = [(name, batch) for name, choices in instance.batches_of.items() for batch in choices]
    most = [min(instance.global_batch // batch, instance.types[name].available or 0) for name, batch in cells]
    figures = []
    for counts in itertools.product(*(range(number + 1) for number in most)):
        chosen = [(cell, n) for cell, n in zip(cells, counts, strict=True) if n]
        if sum(batch * n for (_, batch), n in chosen) != instance.global_batch:
            continue
        groups = tuple(VmGroup(type=name, count=n, batch=batch) for (name, batch), n in chosen)
        judged = evaluate_fleet(instance, SriftSolution(groups=groups))
        if all(check.holds for check in judged.checks):
            figures.append([judged.consumption["deadline"], judged.consumption["budget"]])
    return np.array(figures)


def throughputs_cases() -> Iterator[Case]:
    """Yield jobs with measured speeds: 10, 18 and 30 samples a second on 1, 2 and 4 VMs at a dollar an hour."""
    for name, changes, optimum in (
        ("cheapest", {}, 10.0),  # 360,000 samples at 10 a second: ten hours
        ("cheapest-in-time", {"deadline_s": 20_000}, 20 * 2 / 3.6),  # two VMs for 20,000 s, exactly
        ("fastest", {"objective": "time"}, 12_000.0),
        ("fastest-within", {"objective": "time", "budget": "12usd"}, 20_000.0),
        ("between", {"deadline_s": 15_000, "interpolate": True}, 15 * 3 / 3.6),  # three VMs: 24 a second
        ("too-late", {"deadline_s": 11_999}, None),
        ("too-dear", {"budget": "9.99usd"}, None),
        ("both", {"deadline_s": 15_000, "budget": "11usd"}, None),
    ):
        speeds = {1: 10, 2: 18, 4: 30}
        fields: dict[str, Any] = {
            "name": name,
            "samples": 360_000,
            "types": {"vm": {"price_usd_per_hour": 1}},
            "measurements": [{"type": "vm", "vms": vms, "samples_per_s": speed} for vms, speed in speeds.items()],
        }
        yield Case(name, ThroughputsInstance(**fields | changes), optimum)
