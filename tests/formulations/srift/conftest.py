"""What the tests of Srift share: a maker of small instances."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.judge.evaluation import evaluate
from optplan.schema import FloatArray

MakeInstance = Callable[..., SriftInstance]


@pytest.fixture(scope="session")
def make_instance(make_srift: MakeInstance) -> MakeInstance:
    """Return the maker of Srift's instances."""
    return make_srift


@pytest.fixture(scope="session")
def golden() -> Callable[[str], SriftInstance]:
    """Return a reader of the library's instances of the paper's cases, by what follows ``srift-`` in their names."""

    def read(name: str) -> SriftInstance:
        text = files("optplan.instances.library").joinpath(f"srift-{name}.json").read_text(encoding="utf-8")
        return SriftInstance.parse(json.loads(text))

    return read


@pytest.fixture(scope="session")
def tiny_instances() -> st.SearchStrategy[SriftInstance]:
    """Return a strategy of instances with at most a few hundred fleets and all that an instance can have."""
    return _tiny_instances()


@st.composite
def _tiny_instances(draw: st.DrawFn) -> SriftInstance:
    some = draw(st.randoms(use_true_random=False))
    gpus = ["x", "y"]
    layers = draw(st.integers(1, 4))
    devices = {}
    for gpu in gpus:
        forward, backward = (
            sorted(some.uniform(0.001, 0.1) for _ in "ab"),
            sorted(some.uniform(0.001, 0.2) for _ in "ab"),
        )
        deviation = draw(st.sampled_from([0.0, 0.036, 0.1]))
        devices[gpu] = {"batches": [1, 8], "forward_s": forward, "backward_s": backward, "deviation": deviation}
    interrupted = draw(st.booleans())
    types: dict[str, dict[str, Any]] = {}
    for name in "abc"[: draw(st.integers(1, 3))]:
        per_vm, most = draw(st.integers(1, 2)), draw(st.integers(1, 4))
        sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 8]), min_size=1, max_size=2, unique=True))
        types[name] = {
            "gpu": draw(st.sampled_from(gpus)),
            "gpus": per_vm,
            "price_usd_per_hour": some.uniform(0.5, 5.0),
            "network_gbit_per_s": draw(st.sampled_from([1.0, 10.0])),
            "available": most,
            "batches": sorted(per_vm * size for size in sizes),
            "running": draw(st.sampled_from([0, 0, 0, 1])),
            "spot": draw(st.booleans()),
        }
        if types[name]["spot"] and interrupted:
            types[name]["interruptions_per_hour"] = some.uniform(0.0, 5.0)
    loaded = sum(max(vm["running"], draw(st.integers(0, vm["available"]))) * vm["batches"][0] for vm in types.values())
    fields: dict[str, Any] = {
        "formulation": "srift",
        "job": {
            "layers": {
                "gradient_bytes": [some.uniform(1e4, 1e7) for _ in range(layers)],
                "ready": sorted(some.uniform(0.0, 1.0) for _ in range(layers)),
                "probability": draw(st.sampled_from([None, [0.5] * layers])),
            },
            "devices": devices,
        },
        "global_batch": max(1, loaded + draw(st.sampled_from([0, 0, 0, 1]))),
        "iterations": draw(st.sampled_from([1, 1000])),
        "types": types,
        "bandwidth": {"form": "latency-bandwidth", "step_latency_s": draw(st.sampled_from([0.0, 1e-3]))},
        "objective": draw(st.sampled_from(["time", "cost"])),
        "mixed": sum(vm["running"] for vm in types.values()) > 1 or draw(st.booleans()),
        "one_batch_per_type": draw(st.booleans()),
        "bucket_bytes": draw(st.sampled_from([None, 2e6])),
        "launch_s": draw(st.sampled_from([0.0, 30.0])),
        "launch_billed": draw(st.booleans()),
    }
    if interrupted:
        fields["interruptions"] = {"checkpoint_every_s": 60, "restart_s": 20, "restart_billed": draw(st.booleans())}
    for limit, unit in draw(st.sampled_from([(), (("deadline_s", 0.1),), (("budget", 1e-4),)])):
        amount = unit * fields["iterations"] * some.uniform(0.2, 3.0)
        fields[limit] = f"{amount:.6f}usd" if limit == "budget" else amount
    return SriftInstance.parse(fields)


@pytest.fixture(scope="session")
def draw_instance() -> Callable[[int], SriftInstance]:
    """Return a maker of random instances with at most a few hundred fleets, by seed, with no limits.

    Networks and batches, with ties, one or several batches per type, mixed or not, measured or plain bandwidth, VMs
    that run already, launches and interruptions: whatever an instance can have.
    """

    def draw(seed: int) -> SriftInstance:
        stream = np.random.default_rng(seed)
        layers = int(stream.integers(1, 6))
        spot, names = bool(stream.random() < 0.4), [f"t{number}" for number in range(stream.integers(1, 4))]
        fields: dict[str, Any] = {
            "formulation": "srift",
            "job": {
                "layers": {
                    "gradient_bytes": (10 ** stream.uniform(4, 7, layers)).tolist(),
                    "ready": np.sort(stream.random(layers)).tolist(),
                    "probability": stream.uniform(0.05, 1.0, layers).tolist() if stream.random() < 0.3 else None,
                },
                "devices": {gpu: _draw_device(stream, layers) for gpu in ("x", "y")},
            },
            "global_batch": int(stream.integers(1, 25)),
            "iterations": int(stream.choice([10, 1000])),
            "types": {name: _draw_type(stream, spot=spot) for name in names},
            "bandwidth": _draw_bandwidth(stream, names),
            "objective": str(stream.choice(["cost", "time"])),
            "one_batch_per_type": bool(stream.random() < 0.6),
            "bucket_bytes": 1e6 if stream.random() < 0.3 else None,
            "launch_s": float(stream.choice([0.0, 1.0, 100.0])),
            "launch_billed": bool(stream.random() < 0.5),
        }
        fields["mixed"] = sum(vm["running"] > 0 for vm in fields["types"].values()) > 1 or bool(stream.random() < 0.8)
        if spot:
            billed = bool(stream.random() < 0.5)
            fields["interruptions"] = {
                "checkpoint_every_s": 5.0,
                "checkpoint_s": 0.5,
                "restart_s": 3.0,
                "restart_billed": billed,
            }
        return SriftInstance.parse(fields)

    return draw


def _draw_device(stream: np.random.Generator, layers: int) -> dict[str, Any]:
    flat = stream.random() < 0.3  # the same time for several batches: ties
    return {
        "batches": [1, 4, 16],
        "forward_s": [0.002] * 3 if flat else np.sort(stream.random(3) * 0.01).tolist(),
        "backward_s": [0.004] * 3 if flat else np.sort(stream.random(3) * 0.02).tolist(),
        "deviation": float(stream.choice([0.0, 0.036, 0.01, 0.2])),
        "ready": np.sort(stream.random(layers)).tolist() if stream.random() < 0.5 else None,
    }


def _draw_type(stream: np.random.Generator, *, spot: bool) -> dict[str, Any]:
    gpus, most = int(stream.choice([1, 1, 2])), int(stream.integers(1, 5))
    sizes = stream.choice([1, 2, 3, 4, 5, 8], int(stream.integers(1, 4)))
    interrupted = spot and stream.random() < 0.6
    return {
        "gpu": str(stream.choice(["x", "y"])),
        "gpus": gpus,
        "price_usd_per_hour": float(stream.choice([0.7, 1.0, 1.5, 2.0])),
        "network_gbit_per_s": float(stream.choice([1.0, 5.0, 8.0])),
        "available": most if stream.random() < 0.9 else None,
        "batches": sorted({int(size) * gpus for size in sizes}),
        "running": int(stream.integers(0, most + 1)) if stream.random() < 0.2 else 0,
        "spot": interrupted,
        "interruptions_per_hour": float(stream.choice([0.1, 2.0, 30.0])) if interrupted else 0.0,
    }


def _draw_bandwidth(stream: np.random.Generator, names: list[str]) -> dict[str, Any]:
    if stream.random() < 0.6:
        return {"form": "latency-bandwidth", "step_latency_s": float(stream.choice([0.0, 3e-5, 1e-3]))}
    tables = {
        name: {
            "ranks": [2, 4, 8],
            "sizes_bytes": [1e4, 1e6, 1e7],
            "bus_gbit_per_s": stream.uniform(0.1, 10.0, (3, 3)).tolist(),
        }
        for name in names
    }
    return {"form": "table", "tables": tables}


@pytest.fixture(scope="session")
def judge_all() -> Callable[[SriftInstance], list[tuple[float, float, tuple[VmGroup, ...]]]]:
    """Return a function that lists time, cost and groups of every fleet that the evaluator finds nothing wrong with."""

    def judge(instance: SriftInstance) -> list[tuple[float, float, tuple[VmGroup, ...]]]:
        found = []
        for groups in itertools.product(*(_list_groups(instance, name) for name in instance.types)):
            fleet = tuple(itertools.chain.from_iterable(groups))
            if sum(group.count * group.batch for group in fleet) != instance.global_batch:
                continue
            judged = evaluate(instance, SriftSolution(groups=fleet))
            if all(check.holds for check in judged.checks) and math.isfinite(judged.objective):
                found.append((judged.measures["time_s"], judged.measures["cost_usd"], fleet))
        return found

    return judge


def _list_groups(instance: SriftInstance, name: str) -> list[tuple[VmGroup, ...]]:
    """List all that a fleet can have of a type, whatever the number of VMs."""
    batches = instance.batches_of[name][::-1]
    ranges = [range(instance.global_batch // batch + 1) for batch in batches]
    return [
        tuple(
            VmGroup(type=name, count=count, batch=batch) for count, batch in zip(counts, batches, strict=True) if count
        )
        for counts in itertools.product(*ranges)
        if sum(counts) <= instance.most_of(name) and (not instance.one_batch_per_type or sum(map(bool, counts)) <= 1)
    ]


@pytest.fixture(scope="session")
def sample_maximum() -> Callable[..., FloatArray]:
    """Return what draws the largest of independent normal variables, as the paper's simulator does."""

    def draw(
        means: Sequence[float], deviations: Sequence[float], counts: Sequence[int], *, samples: int, seed: int
    ) -> FloatArray:
        stream = np.random.default_rng(seed)
        mean, deviation = np.repeat(means, counts), np.repeat(deviations, counts)
        largest = np.full(samples, -np.inf)
        for each, spread in zip(mean.tolist(), deviation.tolist(), strict=True):
            np.maximum(largest, each + spread * stream.standard_normal(samples), out=largest)
        return largest

    return draw
