"""Certificates made to keep the judge busy, of every kind: each ends at the limit, within a stated memory."""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optplan.contracts import (
    Certificate,
    EnumeratedCertificate,
    Instance,
    LagrangianCertificate,
    Result,
    Solution,
    TreeCertificate,
)
from optplan.contracts.proofs import Infeasibility, Relaxation, pack_integers
from optplan.contracts.result import Status
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.judge import peak
from optplan.formulations.rubberband.judge import bracket_paths
from optplan.formulations.seer.judge import node_spending
from optplan.formulations.srift.judge import parts
from optplan.formulations.srift.judge.bounds import Offers
from optplan.instances.library import build_named
from optplan.judging import enumeration
from optplan.solving import solve
from optplan.verification import verify

if TYPE_CHECKING:
    from tests.verification.conftest import Measure

#: Seconds of processor time that the judge is given, and may take beyond; and megabytes.
LIMIT_S, MORE_S, MOST_MB = 0.05, 2.5, 1024.0

#: An instance with what is said of it.
Case = tuple[Instance, list[Certificate]]


def tree(rule: str, bound: float | None = 1e-3, **content: Any) -> list[Certificate]:  # noqa: ANN401 - JSON
    """Return a certificate of a rule."""
    return [TreeCertificate(rule=rule, bound=bound, content=content)]


@cache
def boa() -> Any:  # noqa: ANN401 - a BoaInstance
    """Return newTrace on three GPU types with two quotas, plans pure."""
    return build_named("boa-newtrace-quotas").replace(policy="pure")


@cache
def best() -> tuple[float, dict[str, float]]:
    """Return the optimum of that, and the multipliers of its bound."""
    result = solve(boa())
    assert result.objective is not None
    return result.objective, dict(result.certificates[0].multipliers)


_ANSWERS: dict[str, Result[Solution]] = {}


def answer(instance: Instance) -> Result[Solution]:
    """Return a quick answer to an instance, one for all certificates that are put beside it."""
    key = instance.content_hash()
    if key not in _ANSWERS:
        for limit_s in (1.0, 10.0, 100.0):  # a busy machine finds no plan at all in a second
            _ANSWERS[key] = solve(instance, check=False, certify=False, time_limit_s=limit_s)
            if _ANSWERS[key].solution is not None:
                break
    return _ANSWERS[key]


@cache
def wide() -> BoaInstance:
    """Return two classes with 5,000 widths on each of three GPU types."""
    gpus = list(range(1, 5_001))
    types = {f"t{number}": {"price_usd_per_hour": 1.0 + number, "quota_gpus": 5.0} for number in range(3)}
    table = {"form": "table", "gpus": gpus, "speedup": [float(width) ** 0.9 for width in gpus]}
    job = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0] * 4, "speedup": dict.fromkeys(types, table)}
    data = {"formulation": "boa", "classes": {"a": job, "b": job}, "gpu_types": types, "problem": "rescaling"}
    return BoaInstance.parse(data | {"budget": "100usd/hour", "policy": "pure"})


def divided(instance: Any, number: int, many: int, times: int = 1) -> Case:  # noqa: ANN401 - a BoaInstance
    """Return a chain of one division, by all options of a class's first epoch, in the first part of each, so often."""
    options = len(instance.options(list(instance.classes)[number]).labels)
    chain = [2, number, 0, 0, options] * many + [0, 0] * (many + 1)
    return instance, tree("boa-runs", weights=[[1.0] * (1 + len(instance.limits))], tree=chain) * times


def listed(instance: Any, weights: list[float], bound: float) -> Case:  # noqa: ANN401 - a BoaInstance
    """Return one part of which all plans are listed that weights leave open."""
    return instance, tree("boa-branches", bound, tree=[{"weights": weights, "listed": True}])


def within(instance: Instance, multipliers: dict[str, float], allowance: float) -> Case:
    """Return an enumeration of whatever lies within an allowance."""
    return instance, [EnumeratedCertificate(multipliers=multipliers, allowance=allowance, bound=1.0)]


def crowded(gpus: float, **condition: float) -> Case:
    """Return twenty conditions on the GPUs in use at once."""
    limit = {"gpus": gpus, "probability": 0.95}
    instance = build_named("boa-newtrace").replace(budget="120gpu", policy="pure", most_gpus=limit)
    conditions = [condition | {"most": condition["most"] + number} for number in range(20)]
    return instance, tree("boa-peak", conditions=conditions, tree=[{"weights": [1.0] * 22}])


def search(name: str, **changes: Any) -> Any:  # noqa: ANN401 - a RubberBandInstance, and its fields
    """Return a search of the library; with noise where a confidence is asked for."""
    instance: Any = build_named(name)
    if "confidence" in changes:
        noise = {"form": "log-normal", "sd_fraction": 0.5}
        changes["training"] = instance.training.replace(iteration_noise=noise)
    return instance.replace(**changes)


def searched(name: str) -> tuple[Instance, dict[str, float], float]:
    """Return a search of the library, with no weight of its deadline, and all that may be looked at of its plans."""
    instance = build_named(name)
    objective = solve(instance, check=False, certify=False).objective
    assert objective is not None
    return instance, {"deadline": 0.0}, 900.0 * objective


def spend(packed: str, name: str = "seer-resnet18-60min") -> Case:
    """Return lists of pairs for all brackets but the narrowest."""
    instance: Any = build_named(name)
    return instance, tree("seer-rows", 1e3, pairs=[[packed, packed]] * (len(instance.brackets.brackets) - 1))


def fleets(name: str, numbers: int) -> Case:
    """Return a tree that divides whatever there is of the largest kind of fleets."""
    instance: Any = build_named(name)
    kind = max(Offers(instance).kinds(), key=lambda kind: (kind.place, -kind.network))
    levels = [[1] * many for many in (1, 60, 600, 6_000, numbers)]
    return instance, tree("srift-fleets", 1e9, order=list(instance.types), trees=[[*kind.key, levels]])


CASES: dict[str, Callable[[], Case]] = {
    "many divisions": lambda: divided(boa(), 0, 9_000, times=50),
    "many widths": lambda: divided(wide(), 0, 5_000),
    "all plans listed": lambda: listed(boa(), [1.0, 0.0, 0.0, 0.0], 1e9),
    "near plans listed": lambda: listed(boa(), [1.0, *best()[1].values()], best()[0] * 1.05),
    "all of many widths listed": lambda: listed(wide(), [1.0, 0.0, 0.0, 0.0, 0.0], 1e9),
    "a deep division by runs": lambda: (
        wide(),
        tree("boa-runs", 1e5, weights=[[1.0] * 5], tree=[2, 0, 0, 0, 1] * 9_000 + [0, 0] * 9_001),
    ),
    "options of many widths closed again and again": lambda: (
        wide(),
        tree("boa-runs", 1e5, weights=[[1.0] * 5], tree=[1, 0] * 50_000),
    ),
    "all plans enumerated": lambda: within(boa(), dict.fromkeys(best()[1], 0.0), best()[0] * 900),
    "near plans enumerated": lambda: within(boa(), best()[1], best()[0]),
    "many widths enumerated": lambda: within(wide(), dict.fromkeys(wide().limits, 1.0), 1e4),
    "many multipliers": lambda: (
        boa(),
        [LagrangianCertificate(multipliers=dict.fromkeys(best()[1], 1e-6 * n), bound=1.0) for n in range(100)],
    ),
    "as many jobs as are looked at": lambda: crowded(4096.0, width=1.0, most=3_900.0),
    "a million jobs": lambda: crowded(1e6, width=1.0, most=9e5),
    "tiny slopes": lambda: crowded(100.0, slope=1e-300, most=9e5),
    "a search with a confidence": lambda: within(
        search("rubberband-resnet50-512", confidence=0.9), {"deadline": 0.0}, 1e5
    ),
    "both limits with a confidence": lambda: (
        search("rubberband-resnet50-512", confidence=0.9, budget="5000usd"),
        tree("rubberband-both", 1e6, limit="deadline", multiplier=0.0, allowance=1e6),
    ),
    "all searches enumerated": lambda: within(*searched("rubberband-resnet50-stragglers")),
    "all large searches enumerated": lambda: within(*searched("rubberband-resnet50-512")),
    "many pairs": lambda: spend(pack_integers(np.arange(200_000, dtype=np.int64))),
    "pairs that overflow": lambda: spend(pack_integers(np.array([0, 2**62, -(2**62), 2**62]))),
    "a gigabyte of zeros": lambda: spend(b64encode(zlib.compress(bytes(700_000_000), 9)).decode()),
    "all nodes": lambda: (
        build_named("seer-resnet18-60min").replace(gpus_per_node=3, budget_counts="nodes"),
        tree("seer-nodes", 1.0),
    ),
    "all fleets": lambda: fleets("srift-resnet50-aws", 300_000),
    "fleets of a true tree": lambda: (
        build_named("srift-spot-or-on-demand"),
        [*solve(build_named("srift-spot-or-on-demand")).certificates] * 100,
    ),
    "all interrupted fleets": lambda: fleets("srift-interruption", 300_000),
}


@pytest.mark.parametrize("name", list(CASES))
def test_it_ends_at_the_limit(measure: Measure, name: str) -> None:
    """Refuted, or named as not checked, without an error: no time and no memory beyond what is stated."""
    instance, certificates = CASES[name]()
    result = answer(instance).replace(certificates=certificates)
    with measure() as taken:
        verification = verify(instance, result, time_limit_s=LIMIT_S)
    assert not verification.ok
    about = [check.message for check in verification.failures if check.family == "certificate"]
    about += [claim for claim in verification.on_trust if claim.startswith("certificate")]
    assert about
    assert taken.seconds < LIMIT_S + MORE_S
    assert taken.megabytes < MOST_MB


def test_many_remedies_and_a_long_reason(measure: Measure) -> None:
    """Each figure is looked up among 200,000, 20,000 times over."""
    instance = build_named("boa-two-classes").replace(budget="1gpu")
    result = solve(instance)
    assert result.status is Status.INFEASIBLE
    remedy = Relaxation(limit="budget", given=1.0, least_feasible=2.0, unit="GPU")
    claim = Infeasibility(reason="1 " * 200_000, relaxations=(remedy,) * 20_000)
    with measure() as taken:
        verification = verify(instance, result.replace(infeasibility=claim), time_limit_s=LIMIT_S)
    assert not verification.ok
    assert taken.seconds < LIMIT_S + MORE_S
    assert taken.megabytes < MOST_MB


@pytest.mark.parametrize(
    ("module", "cap", "name", "said"),
    [
        (enumeration, "_MOST_NUMBERS", "near plans listed", "the allowance leaves more plans than are listed"),
        (enumeration, "_MOST_NUMBERS", "near plans enumerated", "the allowance leaves more plans than are listed"),
        (peak, "_MOST_JOBS", "as many jobs as are looked at", "4096 GPUs are those of more than 16 jobs"),
        (bracket_paths, "_MOST_CELLS", "all searches enumerated", "stages are more than are looked at"),
        (bracket_paths, "_MOST_NUMBERS", "all searches enumerated", "beginnings of plans are left, more than are"),
        (node_spending, "_MOST_NUMBERS", "all nodes", "there are more than"),
        (parts, "_MOST_NUMBERS", "fleets of a true tree", "are more than are looked at"),
    ],
)
def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch, module: Any, cap: str, name: str, said: str) -> None:  # noqa: ANN401
    """A certificate that leaves more is refused for that, and not for want of time."""
    instance, certificates = CASES[name]()
    result = answer(instance).replace(certificates=certificates)
    monkeypatch.setattr(module, cap, 16)
    verification = verify(instance, result, time_limit_s=60.0)
    assert any(said in check.message for check in verification.failures)
