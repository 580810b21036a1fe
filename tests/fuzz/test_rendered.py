"""What people see of answers: random valid instances with every feature, solved and shown in every way there is.

Nothing here is spoilt, so no command may fail a verification or break; and whatever is written reads as text, or is
JSON. Every case has a number and is made from it alone, as in `test_inputs.py`: `make fuzz CASES=1 SEED=<number>`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.fuzz.conftest import FindFault, Run, Told

#: Instances of `make test`, and of `make fuzz` for each of its cases; an instance is shown some ten times.
CASES, SHARE = 24, 0.02

Data = dict[str, Any]
#: Where an answer is not proven by then, the one that is shown says so.
FAST = ("--time-limit", "0.3s")
#: Targets of exports, and what some need in a template.
TEMPLATES: dict[str, Data] = {
    "kubernetes": {"image": "train:1", "claim": "runs"},
    "trainjob": {"image": "train:1", "claim": "runs", "runtime": "torch"},
    "skypilot": {"bucket": "s3://runs"},
}
TARGETS = ("slurm", "script", "kubernetes", "trainjob", "skypilot", "ray")


def some(dice: random.Random, chance: float, **fields: object) -> Data:
    """Return fields with that chance, else none."""
    return fields if dice.random() < chance else {}


def draw(dice: random.Random, low: float, high: float) -> float:
    """Draw a number, the logarithm of which is uniform; a few digits of it, or many."""
    number = low * (high / low) ** dice.random()
    return float(f"{number:.3g}") if dice.random() < 0.5 else number


# ----------------------------------------------------------------------------------------------------------- instances


def make_boa(dice: random.Random) -> Data:
    """Make streams of jobs: quotas, due dates, floors, weights, spot, whole nodes, caps on GPUs at once, mixtures."""
    names = ["a", "b", "c"][: dice.choice((1, 1, 2, 3))]
    types = {name: make_gpu_type(dice) for name in names}
    classes = {f"class-{number}": make_class(dice, names) for number in range(dice.choice((1, 1, 2, 3)))}
    load = sum(each["arrival_rate_per_hour"] * sum(each["epoch_size_gpu_hours"]) for each in classes.values())
    amount = load * draw(dice, 0.4, 8.0)
    money = len(names) > 1 or dice.random() < 0.4
    period, hours = dice.choice((("hour", 1), ("day", 24), ("month", 730)))
    price = sum(each["price_usd_per_hour"] for each in types.values()) / len(types)
    problem = dice.choice(("rescaling", "rescaling", "rescaling", "whole", "continuous"))
    nodes = {} if problem == "continuous" else some(dice, 0.2, whole_nodes=True)
    return {
        "formulation": "boa",
        "version": 1,
        "name": "drawn",
        "classes": classes,
        "gpu_types": types,
        "budget": f"{amount * price * hours!r}usd/{period}" if money else f"{amount!r}gpu",
        "problem": problem,
        "policy": dice.choice(("pure", "pure", "mixed")),
        **nodes,
        **some(dice, 0.2, most_gpus={"gpus": load * draw(dice, 1.0, 20.0), "probability": dice.choice((0.5, 0.95))}),
    }


def make_gpu_type(dice: random.Random) -> Data:
    """Make a GPU type, maybe with nodes, a quota, interruptions."""
    spot = {
        "interruptions_per_gpu_hour": draw(dice, 1e-3, 2.0),
        "restart_s": dice.choice((0, 60, 600)),
        "lost_work_s": dice.choice((0, 120.0, 1800)),
        "restart_billed": dice.random() < 0.5,
    }
    return {
        "price_usd_per_hour": draw(dice, 0.1, 30.0),
        "gpus_per_node": dice.choice((1, 2, 4, 8)),
        **some(dice, 0.3, quota_gpus=dice.choice((0, draw(dice, 0.1, 50.0)))),
        **some(dice, 0.25, spot=spot),
    }


def make_speedup(dice: random.Random, epochs: int, *, is_law: bool) -> Data:
    """Make a speedup: a law, a table, or a table with a row for each epoch."""
    if is_law:
        amdahl = {"form": "amdahl", "serial_fraction": dice.choice((0, 0.05, 0.5, 1))}
        return dice.choice((amdahl, {"form": "power", "exponent": dice.choice((0, 0.6, 0.9, 1))}))
    gpus = sorted(dice.sample((1, 2, 3, 4, 6, 8, 16), dice.randint(1, 4)))

    def row() -> list[float]:
        return [width ** dice.uniform(0.5, 1.0) * draw(dice, 0.9, 1.1) for width in gpus]

    return {"form": "table", "gpus": gpus, "speedup": row() if dice.random() < 0.5 else [row() for _ in range(epochs)]}


def make_class(dice: random.Random, types: list[str]) -> Data:
    """Make a class of jobs, maybe with a due date, a floor, widths of its own, pauses by type."""
    epochs, is_law = dice.choice((1, 1, 2, 3)), dice.random() < 0.5
    sizes = [draw(dice, 0.05, 20.0) for _ in range(epochs)]
    runs_on = [each for each in types if dice.random() < 0.8] or types[:1]
    widths = dice.choice(({"max": 8}, {"max": 16, "steps": "powers-of-two"}, {"only": [1, 2, 4, 8]}))
    hourly = [draw(dice, 0.2, 5.0) for _ in range(24)]
    return {
        "arrival_rate_per_hour": draw(dice, 0.01, 5.0),
        "epoch_size_gpu_hours": sizes,
        "speedup": {each: make_speedup(dice, epochs, is_law=is_law) for each in runs_on},
        "rescale_s": dice.choice((0, 30, 600.0)),
        **({"widths": widths} if is_law else {}),
        **some(dice, 0.2, rescale_s_on={runs_on[0]: 10.0}),
        **some(dice, 0.3, type_change_s=50.0),
        **some(dice, 0.3, weight=draw(dice, 0.1, 10.0)),
        **some(dice, 0.25, most_mean_jct_s=sum(sizes) * 3600 * draw(dice, 0.1, 3.0)),
        **some(dice, 0.25, least_mean_gpus=draw(dice, 0.05, 10.0)),
        **some(dice, 0.3, arrivals={"hourly": hourly, "dispersion": dice.choice((1, 2.5))}),
    }


def make_rubberband(dice: random.Random) -> Data:
    """Make a search in stages: cheapest or fastest, within one limit or both, with or without confidence."""
    stages = [
        {"trials": n, "iterations": dice.choice((1, 5, 20))} for n in ((8, 4, 1), (4, 1), (6,))[dice.randrange(3)]
    ]
    experiment: Data = dice.choice(
        (
            {"form": "stages", "stages": stages},
            {"form": "sha", "trials": 8, "least_iterations": 2, "most_iterations": 16, "eta": dice.choice((2, 4))},
            {"form": "hyperband", "most_iterations": 9, "order": dice.choice(("in-sequence", "side-by-side"))},
        )
    )
    second = draw(dice, 0.1, 300.0)
    measured = {
        "form": "measured",
        "gpus": [1, 2, 4],
        "seconds": [second, second * 0.6, second * dice.uniform(0.3, 0.7)],
    }
    scaled = {"form": "scaled", "base_s": second, "speedup": {"form": "amdahl", "serial_fraction": 0.1}}
    noise = {"form": dice.choice(("normal", "log-normal")), "sd_fraction": dice.choice((0.05, 0.3))}
    start = dice.choice((5.0, {"form": "log-normal", "mean_s": 8.0, "sd_s": 2.0}))
    asks_time = dice.random() < 0.5
    time_s, usd = second * draw(dice, 5, 300), second * draw(dice, 5, 300) / 1000.0
    both = dice.random() < 0.4
    return {
        "formulation": "rubberband",
        "version": 1,
        "name": "drawn",
        "experiment": experiment,
        "training": {
            "seconds_per_iteration": dice.choice((measured, scaled)),
            "most_gpus": dice.choice((2, 4)),
            **some(dice, 0.3, iteration_noise=noise),
            **some(dice, 0.2, trial_noise=noise),
            **some(dice, 0.3, start_s=start),
        },
        "cloud": {
            "gpus_per_instance": dice.choice((1, 2, 4)),
            "price_usd_per_hour": draw(dice, 0.5, 30.0),
            "billing": dice.choice(("per-instance", "per-instance", "per-function")),
            "minimum_charge_s": dice.choice((0, 60.0, 3600.0)),
            "most_instances": dice.choice((4, 16)),
            **some(dice, 0.3, provision_s=dice.choice((30.0, {"form": "normal", "mean_s": 30.0, "sd_s": 5.0}))),
            **some(dice, 0.3, data_gb=50.0, data_price_usd_per_gb=0.05),
        },
        "objective": "time" if asks_time else "cost",
        **({"budget": f"{usd!r}usd"} if asks_time or both else {}),
        **({"deadline_s": time_s} if not asks_time or both else {}),
        **some(dice, 0.3, confidence=dice.choice((0.5, 0.9, 0.99))),
        "mode": dice.choice(("any", "any", "fair")),
    }


def make_seer(dice: random.Random) -> Data:
    """Make a search without a table of stages: published brackets or the least expected loss, caps, whole nodes."""
    prior = {
        "form": "parametric",
        "start_loss": 1.0,
        "scaling": {"gpus": [1, 2, 4], "speedup": [1.0, 1.8, 3.1]},
        "terminal_low_loss": 0.05,
        "terminal_high_loss": 0.9,
        "rate_low_per_min": 0.1,
        "rate_high_per_min": 2.0,
        "samples": 200,
        "choice_samples": 50,
    }
    informed = dice.random() < 0.3
    deadline = draw(dice, 3.0, 100.0)
    space = {
        "lr": {"form": "interval", "low": 1e-4, "high": 0.1, "scale": "log"},
        "opt": {"form": "choices", "values": ["sgd", 2]},
    }
    money = dice.random() < 0.3
    return {
        "formulation": "seer",
        "version": 1,
        "name": "drawn",
        "deadline_min": deadline,
        "budget": f"{draw(dice, 0.5, 50.0)!r}usd" if money else f"{deadline * draw(dice, 0.5, 40.0)!r}gpu-min",
        "eta": dice.choice((2.0, 3.0, 4.0)),
        "resize_s": dice.choice((0, 5.0)),
        **some(dice, 0.5, most_gpus=dice.choice((4, 8))),
        **some(dice, 0.7, price_usd_per_gpu_hour=2.5) | ({"price_usd_per_gpu_hour": 2.5} if money else {}),
        **some(dice, 0.3, gpus_per_node=dice.choice((1, 4))),
        **some(dice, 0.3, most_gpus_held=dice.randint(2, 64)),
        **some(dice, 0.5, search_space=space),
        **({"objective": "quality", "prior": prior} if informed else {}),
    }


def make_srift(dice: random.Random) -> Data:
    """Make a job on fleets of VMs: cheapest or fastest, spot VMs that are lost, one limit or both."""
    devices = {
        gpu: {"batches": [1, 64], "forward_s": [0.3 * s, 19.2 * s], "backward_s": [0.7 * s, 44.8 * s]}
        for gpu, s in (("x", draw(dice, 1e-3, 1e-2)), ("y", draw(dice, 1e-3, 1e-2)))
    }
    types = {}
    for name in ("small", "large", "spot")[: dice.randint(1, 3)]:
        spot = name == "spot"
        types[name] = {
            "gpu": dice.choice(("x", "y")),
            "gpus": dice.choice((1, 2)),
            "price_usd_per_hour": draw(dice, 0.2, 10.0),
            "network_gbit_per_s": dice.choice((1, 10, 25)),
            "available": dice.choice((0, 1, 4, 8)) if dice.random() < 0.9 else 100,
            **({"spot": True, "interruptions_per_hour": draw(dice, 0.01, 3.0)} if spot else {}),
        }
    losses = {"checkpoint_every_s": 600, "checkpoint_s": 5, "restart_s": 60}
    asks_time = dice.random() < 0.5
    seconds, usd = draw(dice, 10, 20_000), draw(dice, 0.01, 50.0)
    return {
        "formulation": "srift",
        "version": 1,
        "name": "drawn",
        "job": {"layers": {"gradient_bytes": [1e6, 4e6], "ready": [0.3, 0.9]}, "devices": devices},
        "global_batch": dice.choice((32, 64, 100)),
        "iterations": dice.choice((1, 100, 5000)),
        "types": types,
        "objective": "time" if asks_time else "cost",
        "mixed": dice.random() < 0.7,
        **some(dice, 0.8 if not asks_time else 0.3, deadline_s=seconds),
        **some(dice, 0.8 if asks_time else 0.3, budget=f"{usd!r}usd"),
        **({"interruptions": losses} if "spot" in types else {}),
        **some(dice, 0.3, launch_s=120.0, launch_billed=True),
    }


def make_throughputs(dice: random.Random) -> Data:
    """Make a job of which only throughputs are known."""
    types = {
        name: {
            "price_usd_per_hour": draw(dice, 0.2, 10.0),
            "gpus": dice.choice((1, 4)),
            **some(dice, 0.3, available=dice.choice((0, 2, 8))),
            **some(dice, 0.3, spot=True),
        }
        for name in ("m1", "m2")[: dice.randint(1, 2)]
    }
    measurements = [
        {"type": name, "vms": vms, "samples_per_s": draw(dice, 10.0, 5000.0), **some(dice, 0.0)}
        for name in types
        for vms in sorted(dice.sample((1, 2, 4, 8), dice.randint(1, 3)))
    ]
    asks_time = dice.random() < 0.5
    return {
        "formulation": "throughputs",
        "version": 1,
        "name": "drawn",
        "samples": draw(dice, 1e3, 1e8),
        "types": types,
        "measurements": measurements,
        "interpolate": dice.random() < 0.3,
        "objective": "time" if asks_time else "cost",
        **some(dice, 0.8 if not asks_time else 0.3, deadline_s=draw(dice, 60, 1e6)),
        **some(dice, 0.8 if asks_time else 0.3, budget=f"{draw(dice, 0.1, 1000.0)!r}usd"),
        **some(dice, 0.3, launch_s=90.0),
    }


MAKERS: tuple[Callable[[random.Random], Data], ...] = (
    *(make_boa, make_boa, make_boa, make_rubberband, make_rubberband, make_seer, make_srift, make_throughputs),
)


# ---------------------------------------------------------------------------------------------------------------- views


def list_views(data: Data, dice: random.Random, folder: Path) -> Iterator[list[str]]:
    """Yield commands that show an instance, its result and its plan, which the first of them writes."""
    i, result, plan = (str(folder / name) for name in ("i.json", "r.json", "p.json"))
    kind = data["formulation"]
    out, explained = str(folder / "run"), kind == "boa" and data["problem"] != "continuous"
    yield ["solve", i, *FAST, "-o", result, "--plan", plan, *(["--explain"] if explained else [])]
    has_plan = (folder / "p.json").exists()
    has_result = (folder / "r.json").exists()
    views = [
        ["show", i, *dice.choice(([], ["--json"]))],
        ["solve", i, *FAST, "--json"],
        ["solve", i, *FAST, "--compare", dice.choice(RIVALS[kind])],
        ["frontier", i, "--points", "4", *FAST, *dice.choice(([], ["--json"]))],
        ["compare", i, DRAWN[kind], "--solve", *FAST, *dice.choice(([], ["--json"]))],
    ]
    if has_result:
        views += [
            ["verify", i, result, *dice.choice(([], ["--json"]))],
            ["compare", result, result, "--all", *dice.choice(([], ["--json"]))],
            ["report", i, result, "-o", str(folder / "report.html"), *dice.choice(([], ["--json"]))],
        ]
    if kind == "boa":
        why = ["explain", result, "--instance", i]
        asked = [["--wrong", "speedup=10%", "--samples", "3"], *([["--time-limit", "0.3s"]] if explained else [])]
        views += [[*why, *options, *dice.choice(([], ["--json"]))] for options in asked if has_result]
    if kind == "rubberband":
        views += [["solve", i, "--problem", "largest", "--time-limit", "0.3s", *dice.choice(([], ["--json"]))]]
    if kind == "srift":
        views += [["frontier", i, "--limit", "vms", "--sizes", "1,2,4", *dice.choice(([], ["--json"]))]]
    dice.shuffle(views)
    yield from views
    if has_plan:
        yield [*list_export(plan, kind, dice, folder), *dice.choice(([], ["--json"]))]
    if has_plan and kind != "boa":
        yield [
            "run",
            plan,
            "--out",
            out,
            *([] if kind == "srift" else ["--seed", "1", *dice.choice(([], ["--sample"]))]),
            *dice.choice(([], ["--json"])),
        ]
        yield ["status", out, *dice.choice(([], ["--json"]))]
        yield ["report", out, "-o", str(folder / "run.html")]


def list_export(plan: str, kind: str, dice: random.Random, folder: Path) -> list[str]:
    """Return the command that exports a plan to some scheduler, with what that needs."""
    target = dice.choice(TARGETS)
    command = ["export", plan, "--to", target, "--command", "train --width {gpus}", "--out", str(folder / "exported")]
    if target in TEMPLATES:
        (folder / "template.json").write_text(json.dumps(TEMPLATES[target]), encoding="utf-8")
        command += ["--template", str(folder / "template.json")]
    if kind in ("rubberband", "seer"):
        space = {"lr": {"loguniform": [1e-4, 0.1]}, "layers": {"integer": [1, 9]}, "opt": {"choice": ["sgd", None]}}
        (folder / "space.json").write_text(json.dumps(space), encoding="utf-8")
        command += ["--space", str(folder / "space.json")]
    return command


#: Exit codes of what nobody changed: wrong data and usage are answers, a failed verification is none.
ANSWERS = frozenset({0, 1, 2, 3, 4, 6})

#: A solver to compare with, by formulation, and an instance of the library.
RIVALS = {
    "boa": ("published-algorithm1", "fixed-width", "highs"),
    "rubberband": ("published-greedy", "static", "highs"),
    "seer": ("published-seer", "enumeration"),
    "srift": ("published-cost-aware", "published-throughput-aware", "enumeration"),
    "throughputs": ("choices",),
}
DRAWN = {
    "boa": "boa-one-table",
    "rubberband": "rubberband-two-stages",
    "seer": "seer-paper-example",
    "srift": "srift-case1",
    "throughputs": "throughputs-resnet50-gavel",
}


def test_every_answer_can_be_read(
    cases: range, run_bounded: Run, find_fault: FindFault, find_page_fault: Callable[[Path], str], tmp_path: Path
) -> None:
    """No broken command, no failed verification, nothing unreadable in text, JSON or pages."""
    broken: list[str] = []
    for number in cases:
        folder = tmp_path / str(number)
        folder.mkdir()
        dice = random.Random(f"rendered {number}")
        data = dice.choice(MAKERS)(dice)
        (folder / "i.json").write_text(json.dumps(data), encoding="utf-8")
        for command in list_views(data, dice, folder):
            told: Told = run_bounded(command)
            fault = find_fault(told, ANSWERS)
            broken += [f"case {number}: {fault}"] if fault else []
        broken += [f"case {number}: {fault}" for page in folder.glob("*.html") if (fault := find_page_fault(page))]
    assert not broken, "\n".join(broken)
