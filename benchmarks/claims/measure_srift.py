"""What is measured for the claims of the paper on Srift."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from suites.srift import check_conclusions

import optplan
from claims.compute_model import CPU, check_network
from claims.gpu_rows import measure_gpu
from claims.record import Part, Scope
from claims.shaped_ranks import measure_shaped
from claims.srift_accuracy_claims import NETWORKS6, SHAPED, TABLE6
from optplan.contracts.time_and_money import Objective
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.laws.iteration import IterationModel
from optplan.instances.files import read_instance
from optplan.instances.generators import random_srift
from optplan.lab.scaling import ScalingMode, study_scaling

_REPEATS = 4
_SOLVES = 3
_DRAWN = 40
#: Fleets of the paper's cases as (type, VMs, samples of each VM); case 1's labels halve the batches.
CASES: dict[str, dict[str, Sequence[tuple[str, int, int]]]] = {
    "srift-case1": {"Srift": [("g4dn.8xlarge", 16, 64)], "CAP and TAP": [("g4dn.8xlarge", 8, 128)]},
    "srift-case2": {"Srift and TAP": [("g4dn.8xlarge", 8, 128)], "CAP": [("g3.8xlarge", 16, 64)]},
    "srift-case3": {
        "Srift": [("p3.8xlarge", 4, 1024), ("g3.8xlarge", 8, 128), ("g4dn.8xlarge", 8, 128)],
        "CAP": [("p3.8xlarge", 2, 1024), ("g3.8xlarge", 8, 256), ("g4dn.8xlarge", 8, 256)],
        "TAP": [("p3.8xlarge", 4, 1024), ("g4dn.8xlarge", 8, 256)],
    },
    "srift-interruption": {"Srift": [("p3.8xlarge", 2, 512)]},
    "srift-interruption-replan": {"Srift": [("p3.8xlarge", 1, 512), ("g3.8xlarge", 8, 64)]},
}
_RIVALS = (
    "published-exhaustive",
    "published-eager",
    "published-cost-aware",
    "published-throughput-aware",
)
#: What two ranks on two idle cores took, measured on 21 November 2026 by ``benchmarks/srift_accuracy.py``.
_ACCURACY = Path(__file__).resolve().parents[1] / "srift-accuracy-2026-11-21.json"


def _measure_cases(_: Scope) -> dict[str, Any]:
    """Solve each case, and judge the paper's fleets by the same model."""
    rows: dict[str, Any] = {}
    for name, fleets in CASES.items():
        instance = read_instance(name, SriftInstance)
        taken = []
        for _solve in range(_SOLVES):
            start = time.process_time()
            result = optplan.solve(instance, solver="best-first")
            taken.append(time.process_time() - start)
        rows[name] = {
            "seconds": round(min(taken), 4),
            "proof": str(result.bound_proof),
            "optimum": _list_groups(result.solution),
            "objective": result.objective,
            "rivals": {rival: optplan.solve(instance, solver=rival).objective for rival in _RIVALS},
            "fleets": {word: _judge(instance, fleet) for word, fleet in fleets.items()},
        }
    return rows


def _list_groups(solution: Any) -> list[list[Any]]:  # noqa: ANN401 - of any formulation
    groups = solution.groups if isinstance(solution, SriftSolution) else ()
    return [[group.type, group.count, group.batch] for group in groups]


def _judge(instance: SriftInstance, fleet: Sequence[tuple[str, int, int]]) -> dict[str, float]:
    groups = [VmGroup(type=name, count=count, batch=batch) for name, count, batch in fleet]
    seconds = IterationModel(instance).predict(groups).total_s
    usd = sum(count * instance.types[name].price_usd_per_hour for name, count, _ in fleet) * seconds / 3600.0
    return {"iteration_s": round(seconds, 5), "usd_per_iteration": round(usd, 8)}


def _study_sizes(_: Scope) -> dict[str, Any]:
    """Study weak and strong scaling: what the suite says of section 3, and the spreads of strong scaling."""
    rows: dict[str, Any] = {}
    for name in ("srift-case1", "srift-case2", "srift-case3", "srift-interruption"):
        instance = read_instance(name, SriftInstance)
        weak, strong = (study_scaling(instance, mode) for mode in (ScalingMode.WEAK, ScalingMode.STRONG))
        spreads, decays = {}, {}
        for vm in strong.types:
            points = strong.points_of(vm)
            if len(points) > 1:
                speeds = [point.samples_per_s for point in points]
                costs = [point.usd_per_iteration for point in points]
                spreads[vm] = [round(max(each) / min(each), 3) for each in (speeds, costs)]
        for vm in weak.types:
            points = weak.points_of(vm)
            decays[vm] = {str(point.vms): round(point.samples_per_usd) for point in points}
        found = {one.claim: one.holds for one in check_conclusions(weak)}
        rows[instance.job.network] = {"spreads": spreads, "samples_per_usd": decays, "conclusions": found}
    return rows


def _draw_problems(scope: Scope) -> dict[str, Any]:
    """Compare CAP and TAP with the optimum on drawn offers: by how much they are slower, or dearer."""
    rows: dict[str, Any] = {}
    for objective in Objective:
        found: dict[str, list[float | None]] = {rival: [] for rival in _RIVALS[2:]}
        for seed in range(3 if scope.quick else _DRAWN):
            instance = random_srift(types=3, most=16, global_batch=1024, seed=seed, objective=objective)
            best = optplan.solve(instance).objective
            for rival, factors in found.items():
                reached = optplan.solve(instance, solver=rival).objective
                factors.append(round(reached / best, 4) if best and reached else None)
        rows[objective.value] = found
    return rows


def _try_rules(_: Scope) -> dict[str, list[float]]:
    """Return the least seconds of an iteration with a pruning rule of 4.4 and without."""
    first, second = (read_instance(name, SriftInstance) for name in ("srift-case1", "srift-case2"))
    first = first.replace(global_batch=1152)
    g4dn = first.types["g4dn.8xlarge"].replace(available=12)
    powers = first.replace(types={"g4dn.8xlarge": g4dn})
    every = first.replace(types={"g4dn.8xlarge": g4dn.replace(batches=[16, 32, 48, 64, 80, 96, 112, 128])})
    only = second.types["g4dn.8xlarge"].replace(available=12, batches=[85, 86, 128])
    alike = second.replace(types={"g4dn.8xlarge": only}, objective="time")
    eight = {name: vm.replace(available=8) for name, vm in second.types.items()}
    mixed = second.replace(types=eight, objective="time")
    pairs = {
        "batches are powers of two": (powers, every),
        "all VMs of a type get one batch": (alike, alike.replace(one_batch_per_type=False)),
        "one type before several": (mixed.replace(mixed=False), mixed),
    }
    found: dict[str, list[float]] = {}
    for rule, instances in pairs.items():
        found[rule] = [round((optplan.solve(each).objective or 0.0) / each.iterations, 4) for each in instances]
    return found


def _read_accuracy(_: Scope) -> dict[str, Any]:
    """Return what two ranks took and what was predicted, as it was measured on an idle machine."""
    kept = json.loads(_ACCURACY.read_text(encoding="utf-8"))
    fields = ("batch", "measured_s", "predicted_s", "predicted_layerwise_s", "compute_s", "exchange_s")
    rows = {
        name: [{field: round(row[field], 6) for field in fields} for row in one["rows"]]
        for name, one in kept["networks"].items()
    }
    megabytes = {
        name: round(sum(one["profile"]["layers"]["gradient_bytes"]) / 1e6, 2) for name, one in kept["networks"].items()
    }
    return {"measured on": kept["date"], "where": kept["where"], "gradients_mb": megabytes, "networks": rows}


def _measure_network(name: str, scope: Scope) -> dict[str, float] | None:
    """Return errors of the compute model on one thread of a CPU, for one network."""
    if find_spec("torch") is None:
        return None
    import torch

    torch.set_num_threads(1)
    pixels, largest = CPU
    return check_network(name, "cpu", largest, pixels, 2 if scope.quick else _REPEATS)


PARTS: Mapping[str, Part] = {
    "cases": Part(_measure_cases),
    "drawn offers": Part(_draw_problems, seed=0),
    "section 3": Part(_study_sizes),
    "rules of 4.4": Part(_try_rules),
    "table 5 on CPUs": Part(_read_accuracy, seed=0),
    **{f"{TABLE6}{name}": Part(partial(_measure_network, name), seed=1, needs="PyTorch") for name in NETWORKS6},
    SHAPED: Part(measure_shaped, seed=0, needs="PyTorch, and the right to make network namespaces"),
    "GPU": Part(measure_gpu, seed=1, needs="a CUDA device; make bench-gpu measures it in under 10 minutes"),
}
