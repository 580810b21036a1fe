"""Random instances of BOA with every feature, and limits at, below and above what some plan uses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from optplan.formulations.boa.data.instance import BUDGET, DUE, QUOTA, BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.judge.evaluation import evaluate

#: What limits are, relative to what a random plan uses: tight ones more often than not.
_FACTORS = (0.7, 0.9, 0.97, 1.0, 1.0, 1.0, 1.05, 1.2, 1.5)
_SPOT = {"interruptions_per_gpu_hour": 0.3, "restart_s": 600.0, "lost_work_s": 900.0}


def draw_instance(seed: int, **changes: object) -> BoaInstance:
    """Draw one to three classes on one or two types, with some of: quotas, due dates, floors, nodes, spot, prices.

    Parameters
    ----------
    seed
        The same gives the same.
    changes
        Fields of the instance to set, whatever is drawn.
    """
    rng = np.random.default_rng(seed)
    types = ["a", "b"][: int(rng.integers(1, 3))]
    classes = {f"c{number}": _draw_class(rng, types) for number in range(int(rng.integers(1, 4)))}
    gpu_types = {name: _draw_type(rng) for name in types}
    fields: dict[str, Any] = {
        "formulation": "boa",
        "name": f"any-{seed}",
        "classes": classes,
        "gpu_types": gpu_types,
        "problem": str(rng.choice(["whole", "rescaling"])),
        "policy": str(rng.choice(["pure", "mixed"])),
        "budget": "1gpu" if rng.random() < 0.5 else "1usd/hour",
        "whole_nodes": bool(rng.random() < 0.3),
    } | changes
    return _limit(rng, fields)


def _draw_class(rng: Generator, types: list[str]) -> dict[str, Any]:
    epochs = int(rng.integers(1, 4))
    drawn: dict[str, Any] = {
        "arrival_rate_per_hour": _any_of(rng, 0.5, 1.0, float(rng.uniform(0.2, 5.0))),
        "epoch_size_gpu_hours": [_any_of(rng, 0.5, 1.0, round(float(rng.uniform(0.2, 2.0)), 4)) for _ in range(epochs)],
        "speedup": {name: _draw_curve(rng, epochs, reference=name == "a") for name in types},
        "rescale_s": _any_of(rng, 0.0, 60.0, 600.0, 1800.0),
        "weight": _any_of(rng, 1.0, 1.0, 0.2, 2.0),
    }
    if len(types) > 1 and rng.random() < 0.5:
        drawn["type_change_s"] = _any_of(rng, 0.0, 100.0)
    return drawn


def _draw_curve(rng: Generator, epochs: int, *, reference: bool) -> dict[str, Any]:
    """Draw a table that is neither concave nor monotone; on the reference type one GPU has the speed 1."""
    widths = sorted({1} | set(rng.choice([2, 3, 4, 6, 8], size=int(rng.integers(1, 4))).tolist()))
    rows = epochs if rng.random() < 0.5 else 1
    table = np.round(rng.uniform(0.5, 1.5, (rows, len(widths))) * np.array(widths, dtype=float) ** 0.8, 4)
    if rng.random() < 0.3:
        table = np.maximum(1.0, np.round(table))
    if reference:
        table[:, 0] = 1.0
    return {"form": "table", "gpus": widths, "speedup": table.tolist() if rows == epochs else table[0].tolist()}


def _draw_type(rng: Generator) -> dict[str, Any]:
    drawn: dict[str, Any] = {
        "price_usd_per_hour": _any_of(rng, 1.0, 2.0, round(float(rng.uniform(0.3, 4.0)), 3)),
        "gpus_per_node": int(rng.integers(1, 5)),
    }
    if rng.random() < 0.3:
        drawn["spot"] = _SPOT | {"restart_billed": bool(rng.random() < 0.5)}
    return drawn


def _any_of(rng: Generator, *values: float) -> float:
    return float(values[int(rng.integers(len(values)))])


def _limit(rng: Generator, fields: dict[str, Any]) -> BoaInstance:
    """Set the budget, and some of the other limits, near what a random plan uses."""
    # Limits of everything are stated once to have their use evaluated, and kept where the coin says so.
    for each in fields["classes"].values():
        each.update(most_mean_jct_s=1e12, least_mean_gpus=1e-9)
    for each in fields["gpu_types"].values():
        each["quota_gpus"] = 1e12
    loose = BoaInstance.parse(fields)
    judged = evaluate(loose, _draw_plan(rng, loose))
    used = judged.consumption
    amount, unit = _near(rng, used[BUDGET]), "gpu" if loose.budget_unit == "gpu" else "usd/hour"
    if unit == "gpu" and fields["budget"].endswith("usd/hour"):
        amount, unit = amount * (loose.gpu_types[loose.only_gpu_type].price_usd_per_hour or 1.0), "usd/hour"
    fields["budget"] = f"{amount!r}{unit}"
    for name, each in fields["classes"].items():
        due = _near(rng, used[f"{DUE}{name}"])
        floor = _near(rng, judged.measures[f"classes.{name}.gpus_running"])
        del each["most_mean_jct_s"], each["least_mean_gpus"]
        if rng.random() < 0.4:
            each["most_mean_jct_s"] = due
        if floor > 0.0 and rng.random() < 0.3:
            each["least_mean_gpus"] = floor
    for name, each in fields["gpu_types"].items():
        quota = _near(rng, used[f"{QUOTA}{name}"])
        del each["quota_gpus"]
        if rng.random() < 0.5:
            each["quota_gpus"] = quota
    return BoaInstance.parse(fields)


def _near(rng: Generator, used: float) -> float:
    return _any_of(rng, *_FACTORS) * used


def _draw_plan(rng: Generator, instance: BoaInstance) -> BoaSolution:
    branches: dict[str, tuple[Branch, ...]] = {}
    for name, job_class in instance.classes.items():
        options = instance.options(name)
        held = rng.integers(0, options.widths.size, job_class.num_epochs)
        if rng.random() < 0.5:
            held[:] = held[0]
        types = tuple(options.gpu_types[group] for group in options.group[held].tolist())
        widths = options.widths[held].astype(float)
        branches[name] = (
            Branch(fraction=1.0, widths=widths, gpu_types=types if len(instance.gpu_types) > 1 else None),
        )
    return BoaSolution(branches=branches)
