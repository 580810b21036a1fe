"""What is measured for the claims of the paper on RubberBand."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from build_search_library import PROFILES, measured
from suites.rubberband import with_initialisation

import optplan
from claims.placement import measure_placement
from claims.record import Part, Scope
from claims.rubberband_fit import fit_seconds, measure_fit
from optplan.formulations.rubberband.data.distributions import NormalNoise
from optplan.formulations.rubberband.data.experiment import ShaExperiment, brackets
from optplan.formulations.rubberband.data.instance import RubberBandInstance, StageAllocation
from optplan.formulations.rubberband.judge.evaluation import expected_costs
from optplan.instances.files import read_instance
from optplan.units import SECONDS_PER_HOUR

_CATALOG = "catalog/aws-2021-11-gpu-with-network.csv"
#: The paper's planners, its greedy with whole instances as steps, and the optimum.
PLANNERS = ("static", "naive-elastic", "published-greedy", "published-greedy-instances", "auto")
_PAIR = ("static", "published-greedy-instances", "auto")
_DEVIATIONS_S = (0.0, 1.0, 2.0, 4.0, 7.0, 10.0)
_DATA_USD = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16)
_DEADLINES_MIN = (10, 12, 15, 20, 30, 45, 60)
_TRIALS = (16, 32, 64, 128, 256, 512)
_INITIALISE_S = (1.0, 10.0, 100.0)
_TIGHT_MIN = (90, 100, 110, 120, 130, 140, 150, 160)
#: Serial shares of Amdahl's law at which figure 12 is asked again.
_SERIAL = (0.0, 0.02, 0.05, 0.07, 0.08, 0.09)
_STATIC_SIZES = {20: 6, 30: 3, 40: 2}
#: A stage's GPUs when a cluster shares all it has, by its GPUs: table 2's static clusters.
_SHARED = {24: (24, 20, 24, 24), 12: (12, 10, 12, 12), 8: (8, 8, 6, 8)}


def _list_prices(scope: Scope) -> dict[str, float]:
    with (scope.data or _nowhere()).joinpath(_CATALOG).open(encoding="utf-8") as file:
        return {
            row["InstanceType"]: float(row["PricePerHour"])
            for row in csv.DictReader(file)
            if row["Region"] == "us-east-1" and row["InstanceType"] in {"p3.2xlarge", "p3.8xlarge", "p3.16xlarge"}
        }


def _list_scaling(scope: Scope) -> dict[str, dict[str, float]]:
    profiles = _read_profiles(scope)
    chosen = {f"{model} ({data})": profiles[data]["throughput"][model] for data, model in _MODELS}
    return {name: {gpus: round(value, 4) for gpus, value in curve.items()} for name, curve in chosen.items()}


_MODELS = (
    ("cifar10", "resnet18"),
    ("cifar10", "resnet50"),
    ("cifar10", "resnet101"),
    ("cifar10", "resnet152"),
    ("cifar10", "shufflenet"),
    ("imagenet", "resnet50"),
    ("babi", "babi_lstm"),
)


def _read_profiles(scope: Scope) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((scope.data or _nowhere()).joinpath(PROFILES).read_text(encoding="utf-8"))
    return found


def _nowhere() -> Any:  # noqa: ANN401 - never returns
    raise FileNotFoundError("this part needs the public data")


def _count_trials(_: Scope) -> dict[str, list[int]]:
    searches = {
        "SHA(32, 1, 50, 3)": ShaExperiment(trials=32, least_iterations=1, most_iterations=50, eta=3),
        "SHA(64, 4, 508, 2)": ShaExperiment(trials=64, least_iterations=4, most_iterations=508),
        "SHA(512, 4, 4096, 2)": ShaExperiment(trials=512, least_iterations=4, most_iterations=4096),
    }
    return {name: [stage.trials for stage in brackets(search)[0]] for name, search in searches.items()}


def _fitted(name: str, scale: float = 1.0) -> RubberBandInstance:
    """Return an instance of table 2 or 4 with the step times that table 2 implies, times a factor."""
    base = read_instance(name, RubberBandInstance)
    seconds = {gpus: scale * taken_s for gpus, taken_s in fit_seconds().items()}
    return base.replace(training=base.training.replace(seconds_per_iteration=_tabulate(seconds)))


def _tabulate(seconds: Mapping[int, float]) -> dict[str, Any]:
    return {"form": "measured", "gpus": list(seconds), "seconds": list(seconds.values())}


def ask(instance: RubberBandInstance, planners: Iterable[str]) -> dict[str, Any]:
    """Return each planner's cost in dollars, time in seconds, machines and GPUs by stage; None where it has no plan."""
    found: dict[str, Any] = {}
    for planner in planners:
        result = optplan.solve(instance, solver=planner)
        found[planner] = None
        if result.solution is not None:
            stages = result.solution.brackets[0]
            found[planner] = {
                "usd": round(result.measures["expected_usd"], 4),
                "seconds": round(result.measures["expected_s"], 2),
                "machines": [stage.instances for stage in stages],
                "gpus": [stage.gpus for stage in stages],
            }
    return found


def _measure_table2(_: Scope) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for minutes, machines in _STATIC_SIZES.items():
        instance = _fitted(f"rubberband-resnet101-{minutes}min")
        rows[str(minutes)] = ask(instance, PLANNERS)
        shared = [StageAllocation(instances=machines, gpus=gpus) for gpus in _SHARED[4 * machines]]
        rows[str(minutes)]["static, all GPUs shared"] = _judge(instance, shared)
    table3 = [StageAllocation(instances=m, gpus=g) for m, g in ((8, 32), (5, 20), (4, 12), (2, 8))]
    rows["table 3 as printed"] = _judge(_fitted("rubberband-resnet101-20min"), table3)
    return rows


def _judge(instance: RubberBandInstance, chain: Sequence[StageAllocation]) -> dict[str, Any]:
    seconds, usd = expected_costs(instance, 0, chain)
    machines, gpus = [each.instances for each in chain], [each.gpus for each in chain]
    return {"usd": round(usd, 4), "seconds": round(seconds, 2), "machines": machines, "gpus": gpus}


def _measure_table4(_: Scope) -> dict[str, Any]:
    """Scale the steps until the best static cluster costs what the paper's fixed cluster does; then plan."""
    rows: dict[str, Any] = {}
    for name, fixed_usd in (("rubberband-resnet152-60min", 35.53), ("rubberband-bert-20min", 36.43)):
        scales = [0.5 * 1.01**step for step in range(200)]
        tried = [(scale, ask(_fitted(name, scale), ["static"])["static"]) for scale in scales]
        kept = [(abs(found["usd"] / fixed_usd - 1.0), scale) for scale, found in tried if found is not None]
        off, scale = min(kept)
        rows[name] = {"scale": round(scale, 4), "off": round(off, 4), **ask(_fitted(name, scale), PLANNERS)}
    return rows


def _profiles_of_resnet50(scope: Scope) -> dict[str, dict[str, Any]]:
    """Return steps relative to one GPU: as HyperSched's source has them, and as tables 1 and 2 imply."""
    fitted = fit_seconds()
    curve = _read_profiles(scope)["cifar10"]["throughput"]["resnet50"]
    return {
        "measured": {
            "form": "measured",
            "gpus": [int(g) for g in curve],
            "seconds": list(measured(curve, 4.0).values()),
        },
        "fitted": _tabulate({gpus: 4.0 * taken_s / fitted[1] for gpus, taken_s in fitted.items()}),
    }


def _measure_figure9(scope: Scope) -> list[dict[str, Any]]:
    base, rows = read_instance("rubberband-resnet50-stragglers", RubberBandInstance).replace(deadline_s=7200.0), []
    deviations = _DEVIATIONS_S[::5] if scope.quick else _DEVIATIONS_S
    for profile, steps in _profiles_of_resnet50(scope).items():
        for deviation, kind, billing in itertools.product(
            deviations, ("iteration", "trial"), ("per-instance", "per-function")
        ):
            noise = {"iteration_noise": None, f"{kind}_noise": NormalNoise(sd_s=deviation) if deviation else None}
            training = base.training.replace(**{**noise, "seconds_per_iteration": steps})
            instance = base.replace(training=training, cloud=base.cloud.replace(billing=billing))
            setting = {"profile": profile, "deviation_s": deviation, "noise": kind, "billing": billing}
            rows.append({**setting, **_costs(instance)})
    return rows


def _costs(instance: RubberBandInstance) -> dict[str, float | None]:
    return {planner: found and found["usd"] for planner, found in ask(instance, _PAIR).items()}


def _measure_figure10(scope: Scope) -> list[dict[str, Any]]:
    base, rows = read_instance("rubberband-resnet50-data", RubberBandInstance), []
    for profile, steps in _profiles_of_resnet50(scope).items():
        training = base.training.replace(seconds_per_iteration=steps)
        for minutes, price, (data, gigabytes) in itertools.product(
            _DEADLINES_MIN[3:4] if scope.quick else _DEADLINES_MIN,
            _DATA_USD[::5] if scope.quick else _DATA_USD,
            (("ImageNet", 150.0), ("CIFAR-10", 0.15)),
        ):
            cloud = base.cloud.replace(data_gb=gigabytes, data_price_usd_per_gb=price)
            instance = base.replace(training=training, cloud=cloud, deadline_s=60.0 * minutes)
            setting = {"profile": profile, "deadline_min": minutes, "usd_per_gb": price, "data": data}
            rows.append({**setting, **_costs(instance)})
    return rows


def _measure_figure11(scope: Scope) -> list[dict[str, Any]]:
    base, rows = read_instance("rubberband-resnet50-stragglers", RubberBandInstance), []
    for profile, steps in _profiles_of_resnet50(scope).items():
        training = base.training.replace(seconds_per_iteration=steps, iteration_noise=None)
        for trials, billing in itertools.product(
            _TRIALS[:3] if scope.quick else _TRIALS, ("per-instance", "per-function")
        ):
            experiment = ShaExperiment(trials=trials, least_iterations=4, most_iterations=508)
            cloud = base.cloud.replace(billing=billing)
            instance = base.replace(experiment=experiment, training=training, cloud=cloud)
            rows.append({"profile": profile, "trials": trials, "billing": billing, **_costs(instance)})
    return rows


def _measure_figure12(scope: Scope) -> list[dict[str, Any]]:
    base, rows = read_instance("rubberband-resnet50-512", RubberBandInstance), []
    law = base.training.to_json_data()["seconds_per_iteration"]["speedup"]
    curves = {"measured": law} | {
        f"serial {share:g}": {"form": "amdahl", "serial_fraction": share} for share in _SERIAL
    }
    for profile, curve in curves.items():
        steps = {"form": "scaled", "base_s": 12.0, "speedup": curve}
        training = base.training.replace(seconds_per_iteration=steps)
        deadlines = _TIGHT_MIN[:1] if scope.quick or profile != "measured" else _TIGHT_MIN
        for seconds, minutes in itertools.product(_INITIALISE_S, deadlines):
            cloud = with_initialisation(base.cloud, seconds)
            instance = base.replace(cloud=cloud, training=training, deadline_s=60.0 * minutes)
            rows.append({"profile": profile, "initialise_s": seconds, "deadline_min": minutes, **_costs(instance)})
    return rows


def _measure_warm_start(scope: Scope) -> dict[str, Any]:
    """Count searches in which Algorithm 2 costs more than the static cluster that it starts from, and the factor."""
    base, ratios = _fitted("rubberband-resnet101-20min"), []
    for trials, most, eta, minutes in itertools.product(
        (8, 32, 96), (20, 50), (2, 3), (20,) if scope.quick else (15, 20, 30, 45)
    ):
        experiment = ShaExperiment(trials=trials, least_iterations=1, most_iterations=most, eta=eta)
        found = ask(
            base.replace(experiment=experiment, deadline_s=60.0 * minutes), ("static", "published-greedy-exact")
        )
        if all(found.values()):
            ratios.append(found["static"]["usd"] / found["published-greedy-exact"]["usd"])
    return {"searches": len(ratios), "least": round(min(ratios), 4), "most": round(max(ratios), 4)}


def _measure_arithmetic(scope: Scope) -> dict[str, Any]:
    """Return what table 2 costs in machines at the list price, and what a copy of ImageNet costs."""
    price = _list_prices(scope)["p3.8xlarge"]
    held = {"20": (34.00, 1164.0), "30": (17.73, 1749.0), "40": (14.99, 2213.0)}
    machines = {key: usd / price / (taken_s / SECONDS_PER_HOUR) for key, (usd, taken_s) in held.items()}
    return {"machines": {key: round(one, 3) for key, one in machines.items()}, "imagenet_usd": 150 * 0.01}


PARTS: Mapping[str, Part] = {
    "prices": Part(_list_prices, data=(_CATALOG,)),
    "scaling": Part(_list_scaling, data=(PROFILES,)),
    "stages": Part(_count_trials),
    "arithmetic": Part(_measure_arithmetic, data=(_CATALOG,)),
    "fit": Part(lambda _: measure_fit()),
    "table 2": Part(_measure_table2),
    "table 4": Part(_measure_table4),
    "figure 9": Part(_measure_figure9, data=(PROFILES,)),
    "figure 10": Part(_measure_figure10, data=(PROFILES,)),
    "figure 11": Part(_measure_figure11, data=(PROFILES,)),
    "figure 12": Part(_measure_figure12, data=(PROFILES,)),
    "warm start": Part(_measure_warm_start),
    "table 1": Part(measure_placement, seed=1, needs="PyTorch, and the right to make network namespaces"),
}
