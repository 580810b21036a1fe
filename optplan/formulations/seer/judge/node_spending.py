"""The rule ``seer-nodes``: no search trains for longer on paid nodes, shown by looking at all choices of trials.

The certificate has nothing but the claim. Rows of a bracket are the numbers of trials that the family ``halving``
allows, no fewer than published. Every choice of rows for all brackets but the narrowest is listed here, less those of
which all GPUs of a round, divided by those of a node and rounded up, already take more than the budget: no packing has
fewer nodes. With each, of the narrowest bracket only rows count that train for longer than claimed, from the shortest
of them on until even that number of nodes is over the budget. Each of these must break the budget, or the cluster, with
the nodes that the evaluator counts.

Where sizes and node divide one another in a row, the GPUs decide alone: for whole eta rows of P GPUs of eta^(K-1) p_min
/ gcd(P, p_min) trials or more above the published ones are left out, because as much is held in all rounds by P /
gcd(P, p_min) eta^(K-1) trials on p_min GPUs.

As in :mod:`~optplan.formulations.seer.judge.spending` the deadline and the last round are not looked at, a search keeps
the budget when it exceeds it by no more than a relative 1e-9, and what is proven is the claim times 1 + 1e-9.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import RefutedError
from optplan.contracts.result import TreeCertificate
from optplan.formulations.seer.data.brackets import SearchBrackets, SizedBracket
from optplan.formulations.seer.data.instance import Objective, SeerInstance
from optplan.formulations.seer.judge.evaluation import SAME, TOLERANCE
from optplan.formulations.seer.laws.rounds import count_nodes, divide_evenly
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray

RULE = "seer-nodes"
#: Most choices that are listed at once, most changes of a bracket's rows, and most searches whose nodes are counted.
_MOST_CHOICES, _MOST_CHANGES, _MOST_COUNTED = 2_000_000, 2_000_000, 200_000
#: Most numbers of choices, or of rows, and choices that are joined at once.
_MOST_NUMBERS, _AT_ONCE = 1 << 24, 1 << 17


def check_nodes(instance: SeerInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> None:
    """Raise unless no search on whole nodes trains for longer than a certificate claims, or there are too many."""
    published, bound, per_node = instance.brackets, certificate.bound, instance.nodes_paid
    if instance.objective is not Objective.SPEND or published is None or certificate.limit or per_node is None:
        raise RefutedError(f"the rule {RULE!r} is about the training of feasible instances whose budget counts nodes")
    if bound is None or not bound > 0.0 or certificate.content:
        raise RefutedError("a bound in GPU-minutes above zero and no content is needed")
    check = _Check(instance, published, per_node)
    evenly = divide_evenly(per_node, [each.gpus for each in published.brackets])
    narrowest, *wider = published.brackets
    held = check.published_gpus()[None, :]
    choices = np.zeros((1, 0), dtype=np.int64)
    listed = []
    for bracket in reversed(wider):
        stopwatch.require()
        rows = check.list_rows(bracket, count_needed(instance, bracket, published.rounds) if evenly else math.inf)
        listed.append(rows)
        held, choices = check.join(held, choices, round(bracket.gpus) * (rows - rows[0]), stopwatch)
    rows = check.list_rows(narrowest, math.inf)
    check.refute_longer(held, choices, [*listed, rows], bound * (1.0 + TOLERANCE), stopwatch)


def count_needed(instance: SeerInstance, bracket: SizedBracket, rounds: int) -> float:
    """Return how many trials above the published ones a wider bracket needs at most, where GPUs alone decide."""
    least, gpus = instance.least_gpus, bracket.gpus
    if not all(float(number).is_integer() for number in (instance.eta, least, gpus)):
        return math.inf
    return int(least) // math.gcd(int(least), int(gpus)) * instance.eta ** (rounds - 1) - 1


def list_trials(eta: float, bracket: SizedBracket, minutes: FloatArray, spare: float, most: float) -> IntArray:
    """List (M, K) trials that a bracket may have in each round, from the published ones on.

    These are all that spend up to ``spare`` GPU-minutes more, in rounds of (K,) minutes, and some that spend more; with
    up to ``most`` more trials at first.
    """
    powers = eta ** np.arange(len(bracket.trials))
    # Row by row the size grows past multiples of powers of eta; at a size x, floor(x / eta^k) trials are in round k.
    most_size = (spare / bracket.gpus + minutes @ (np.array(bracket.trials) + 1.0)) / (minutes @ (1.0 / powers))
    most_size = np.minimum(most_size, bracket.trials[0] + most)
    counts = np.maximum(0.0, np.floor(most_size * (1.0 + SAME) / powers) - bracket.trials)
    if not counts.sum() <= _MOST_CHANGES:
        raise RefutedError(f"rows of {bracket.gpus:g} GPUs change more than {_MOST_CHANGES:,} times within the budget")
    changes = [
        (first + 1.0 + np.arange(int(count))) * power
        for first, count, power in zip(bracket.trials, counts, powers, strict=True)
    ]
    sizes = np.sort(np.concatenate(changes))
    sizes = sizes[np.append(sizes[1:] > sizes[:-1] * (1.0 + SAME), True)[: sizes.size]]
    if (sizes.size + 1) * len(changes) > _MOST_NUMBERS:
        raise RefutedError(f"there are more than {_MOST_NUMBERS:,} numbers of trials on {bracket.gpus:g} GPUs each")
    grown = np.column_stack([np.searchsorted(change, np.append(0.0, sizes), side="right") for change in changes])
    return grown + np.array(bracket.trials, dtype=np.int64)


class _Check:
    """What is looked at again and again."""

    def __init__(self, instance: SeerInstance, published: SearchBrackets, per_node: int) -> None:
        self.instance, self.published, self.per_node = instance, published, per_node
        self.training: FloatArray = np.array([published.round_min * instance.eta**k for k in range(published.rounds)])
        self.minutes = self.training + np.array([instance.resize_min if k else 0.0 for k in range(published.rounds)])
        self.most_gpu_min = instance.budget_gpu_min * (1.0 + TOLERANCE)
        cluster = math.inf if instance.most_gpus_held is None else instance.most_gpus_held
        self.most_gpus = cluster * (1.0 + TOLERANCE)

    def published_gpus(self) -> IntArray:
        """Return (K,) GPUs that the published trials hold in each round."""
        trials = np.array([each.trials for each in self.published.brackets], dtype=np.int64)
        return np.array([round(each.gpus) for each in self.published.brackets]) @ trials

    def may_fit(self, held: IntArray) -> NDArray[np.bool_]:
        """Return (L,) whether the fewest nodes that as many GPUs could be on keep the limits."""
        paid = np.ceil(held / self.per_node) * self.per_node @ self.minutes
        fits: NDArray[np.bool_] = (paid <= self.most_gpu_min) & (held[:, 0] <= self.most_gpus)
        return fits

    def list_rows(self, bracket: SizedBracket, most: float) -> IntArray:
        """List (M, K) trials of each round, from the published ones on, as long as no more than the limits pay."""
        gpus, trials = round(bracket.gpus), np.array(bracket.trials, dtype=np.int64)
        others = self.published_gpus() - gpus * trials
        spare = self.most_gpu_min - float((others + gpus * trials) @ self.minutes)
        rows = list_trials(self.instance.eta, bracket, self.minutes, spare, most)
        fits = self.may_fit(others + gpus * rows)
        if not fits[0]:
            raise RefutedError("the published trials exceed the budget")
        return rows[fits]

    def join(
        self, held: IntArray, choices: IntArray, added: IntArray, stopwatch: Stopwatch
    ) -> tuple[IntArray, IntArray]:
        """Join choices with what each row of one more bracket adds; those that cannot fit are left out."""
        most = min(_MOST_CHOICES, _MOST_NUMBERS // (held.shape[1] + choices.shape[1] + 1))
        if len(held) * len(added) > most:
            raise RefutedError(f"there are more than {most:,} choices to look at")
        parts = [(held[:0], np.zeros((0, choices.shape[1] + 1), dtype=np.int64))]
        step = max(1, _AT_ONCE // len(added))
        for first in range(0, len(held), step):
            stopwatch.require()
            some, own = held[first : first + step], choices[first : first + step]
            joined = np.repeat(some, len(added), axis=0) + np.tile(added, (len(some), 1))
            rows = np.tile(np.arange(len(added)), len(some))
            own = np.concatenate([np.repeat(own, len(added), axis=0), rows[:, None]], axis=1)
            fits = self.may_fit(joined)
            parts.append((joined[fits], own[fits]))
        joined, own = (np.concatenate(column) for column in zip(*parts, strict=True))
        return joined, own

    def refute_longer(
        self, held: IntArray, choices: IntArray, listed: list[IntArray], claim: float, stopwatch: Stopwatch
    ) -> None:
        """Raise when a search trains for longer than the claim and keeps the limits."""
        narrowest = listed[-1]
        added = round(self.published.brackets[0].gpus) * (narrowest - narrowest[0])
        row = np.searchsorted(added @ self.training, claim - held @ self.training, side="right")
        open_choices = np.flatnonzero(row < len(narrowest))
        counted = 0
        while open_choices.size:
            stopwatch.require()
            now = open_choices[self.may_fit(held[open_choices] + added[row[open_choices]])]
            counted += now.size
            if counted > _MOST_COUNTED:
                raise RefutedError(f"more than {_MOST_COUNTED:,} searches would have to be looked at one by one")
            for choice in now.tolist():
                stopwatch.require()
                self._refute(choices[choice], int(row[choice]), listed, claim)
            row[now] += 1
            open_choices = now[row[now] < len(narrowest)]

    def _refute(self, choice: IntArray, row: int, listed: list[IntArray], claim: float) -> None:
        """Raise when a search keeps the budget with the nodes that the evaluator counts."""
        own = [rows[number] for rows, number in zip(listed, [*choice.tolist(), row], strict=True)]
        gpus = [each.gpus for each in (*reversed(self.published.brackets[1:]), self.published.brackets[0])]
        nodes = [
            count_nodes(self.per_node, tuple((p, int(n[k])) for p, n in zip(gpus, own, strict=True) if n[k]))
            for k in range(self.published.rounds)
        ]
        if self.per_node * float(np.dot(nodes, self.minutes)) <= self.most_gpu_min:
            search = ", ".join(f"{n[0]} x{p:g}" for p, n in zip(gpus, own, strict=True))
            raise RefutedError(f"{search}: keeps the budget, and trains for longer than {claim!r} GPU-minutes")
