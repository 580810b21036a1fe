"""What proves that no choice is better, or that none keeps the limits: the judge looks at every one itself.

The rule of certificates is ``throughputs-enumeration``; their content is empty, as nothing could spare the judge any of
the work. Where ``limit`` names a limit, that one is dropped, and the bound is about it instead of the objective.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from optplan.contracts.judgement import JUDGE_TOLERANCE, RefutedError
from optplan.contracts.proofs import BoundProof, TreeCertificate
from optplan.formulations.throughputs.data.instance import ThroughputsInstance, ThroughputsSolution
from optplan.formulations.throughputs.judge.evaluation import evaluate
from optplan.progress import Stopwatch

RULE = "throughputs-enumeration"


def list_proofs(_: ThroughputsInstance) -> frozenset[BoundProof]:
    """Return the kinds of certificate that prove anything here, whatever is asked."""
    return frozenset({BoundProof.TREE})


def list_choices(instance: ThroughputsInstance) -> Iterator[ThroughputsSolution]:
    """List every choice that was measured, or lies between two that were where that is allowed; without any limit."""
    for (name, configuration), table in instance.tables.items():
        counts = range(min(table), max(table) + 1) if instance.interpolate else table
        for vms in counts:
            yield ThroughputsSolution.model_construct(type=name, vms=vms, configuration=configuration)


def check_tree(instance: ThroughputsInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> None:
    """Check what a certificate claims against every choice there is."""
    if certificate.rule != RULE:
        raise RefutedError(f"trees of this problem are read by the rule {RULE}, not {certificate.rule!r}")
    if certificate.content:
        raise RefutedError("the content must be empty: every choice is looked at anyway")
    dropped, bound = certificate.limit, certificate.bound
    if dropped and dropped not in instance.limits:
        raise RefutedError(f"the instance has no limit {dropped!r} to drop")
    if bound is not None and not math.isfinite(bound):
        raise RefutedError("the bound is no finite number")
    for choice in list_choices(instance):
        stopwatch.require()
        judged = evaluate(instance, choice)
        if not all(check.holds for check in judged.checks if check.family != dropped):
            continue
        reached = judged.consumption[dropped] if dropped else judged.objective
        if bound is None or reached < bound * (1.0 - JUDGE_TOLERANCE):
            raise RefutedError(
                f"{choice.vms} {choice.type} {choice.configuration}".strip() + f" keeps the limits, with {reached:.9g}"
            )
