"""What nodes cost beyond the GPUs in use: an estimate for jobs that share nodes, and the sum for jobs that do not.

A job on k GPUs of nodes of g fills floor(k / g) nodes; what is over shares nodes with what is over of other jobs. Seen
at any time, the jobs of each width are Poisson, so nodes are sum of floor(k / g) m_k and the expected bins of Poisson
numbers of remainders (with g = 4 n3 + ceil(n2 / 2) + ceil((n1 - n3 - 2 (n2 mod 2))+ / 4)).

Which widths are allowed, and what others would be worth: all of them, or wider ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.data.job_classes import Steps, Widths
from optplan.formulations.boa.exact.peak.demand import list_stays
from optplan.schema import IntArray

#: Draws of the remainders; the error of the mean is far below what clumps and fragments cost besides.
_DRAWS = 4000


@dataclass(frozen=True)
class NodeRounding:
    """GPUs of one type, on average: those in use, and those of the nodes rented, shared by jobs or each job's own."""

    gpus_per_node: int
    in_use: float
    shared: float
    apart: float


def estimate_rounding(instance: BoaInstance, solution: BoaSolution) -> dict[str, NodeRounding]:
    """Estimate what whole nodes cost, by GPU type of which the nodes are known, from drawn remainders."""
    found = {}
    for gpu_type, kind in instance.gpu_types.items():
        node = kind.gpus_per_node
        if node is None:
            continue
        stays = list_stays(instance.replace(whole_nodes=None), solution, gpu_type)
        jobs = np.concatenate([np.zeros(0), *(s.rate_per_hour * s.lasts_h * s.held for s in stays)])
        gpus = np.concatenate([np.zeros(0), *(stay.gpus for stay in stays)])
        means = np.bincount(np.ceil(gpus).astype(int) % node, weights=jobs, minlength=node)
        drawn = np.random.default_rng(0).poisson(means[1:], (_DRAWS, node - 1))
        bins = pack(drawn, node)
        found[gpu_type] = NodeRounding(
            gpus_per_node=node,
            in_use=float(jobs @ gpus),
            shared=float((jobs @ np.floor(gpus / node) + bins.mean()) * node),
            apart=float(jobs @ np.ceil(gpus / node) * node),
        )
    return found


def pack(counts: IntArray, node: int) -> IntArray:
    """Return the nodes (S,) that remainders need, largest first, each where it leaves least; counts (S, node - 1)."""
    left = np.zeros((len(counts), node), dtype=np.int64)  # nodes by GPUs that are free on them
    bins = np.zeros(len(counts), dtype=np.int64)
    for size in range(node - 1, 0, -1):
        todo = counts[:, size - 1].astype(np.int64)
        for free in range(size, node):
            todo = _fill(left, free, size, todo)
        fits = node // size
        new = -(-todo // fits)
        bins += new
        over = new * fits - todo
        left[:, node - fits * size] += new - (over > 0)
        left[np.arange(len(counts)), np.where(over > 0, node - (fits - over) * size, 0)] += over > 0
    return bins


def _fill(left: IntArray, free: int, size: int, todo: IntArray) -> IntArray:
    """Put remainders of a size on nodes with so many free GPUs; return how many are left over."""
    fits = free // size
    put = np.minimum(todo, left[:, free] * fits)
    full, part = np.divmod(put, fits)
    left[:, free] -= full + (part > 0)
    left[:, free - fits * size] += full
    left[np.arange(len(left)), free - part * size] += part > 0
    return np.asarray(todo - put)


def allow_all(instance: BoaInstance) -> BoaInstance | None:
    """Return the problem with every width between those that are allowed; None where that is no other problem."""
    rules = [instance.widths, *(job_class.widths for job_class in instance.classes.values())]
    if all(rule is None or rule.steps is Steps.ALL for rule in rules):
        return None
    classes = {name: each.replace(widths=_free(each.widths)) for name, each in instance.classes.items()}
    return instance.replace(widths=_free(instance.widths), classes=classes)


def list_wider(instance: BoaInstance) -> Iterator[tuple[str, int, BoaInstance]]:
    """Yield by class the next known width, or by formula twice the widest, and the problem that allows it."""
    for name, job_class in instance.classes.items():
        wider: set[int] = set()
        allowed: IntArray = np.zeros(0, dtype=np.int64)
        for gpu_type, speedup in job_class.speedup.items():
            own, known = instance.allowed_widths(name, gpu_type), speedup.known_widths()
            if not own.size:
                continue  # interruptions come faster than restarts at all of them
            allowed = np.union1d(allowed, own)
            beyond = np.array([2 * own[-1]]) if known is None else known[known > own[-1]]
            wider |= {int(beyond[0])} if beyond.size else set()
        if wider and len(job_class.speedup) == 1:
            width = min(wider)
            rule = Widths(only=[*allowed.tolist(), width])
            yield name, width, instance.replace(classes=dict(instance.classes) | {name: job_class.replace(widths=rule)})


def _free(rule: Widths | None) -> Widths | None:
    return None if rule is None else rule.replace(steps=Steps.ALL)
