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
#: Most choices that are listed at once, most rows of a bracket, and most searches whose nodes are counted.
_MOST_CHOICES, _MOST_ROWS, _MOST_COUNTED = 2_000_000, 500_000, 200_000
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
    narrowest, *wider = published.brackets
    held = check.published_gpus()[None, :]
    choices = np.zeros((1, 0), dtype=np.int64)
    listed = []
    for bracket in reversed(wider):
        rows = check.list_rows(bracket, stopwatch, needed=check.count_needed(bracket))
        listed.append(rows)
        held, choices = check.join(held, choices, round(bracket.gpus) * (rows - rows[0]), stopwatch)
    rows = check.list_rows(narrowest, stopwatch, needed=math.inf)
    check.refute_longer(held, choices, [*listed, rows], bound * (1.0 + TOLERANCE), stopwatch)


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

    def count_needed(self, bracket: SizedBracket) -> float:
        """Return from how many trials above the published ones on rows of a wider bracket are not needed."""
        evenly = divide_evenly(self.per_node, [each.gpus for each in self.published.brackets])
        if not evenly or not float(self.instance.eta).is_integer():
            return math.inf
        least, gpus = round(self.instance.least_gpus), round(bracket.gpus)
        return least // math.gcd(least, gpus) * self.instance.eta ** (self.published.rounds - 1)

    def list_rows(self, bracket: SizedBracket, stopwatch: Stopwatch, *, needed: float) -> IntArray:
        """List (M, K) trials of each round, from the published ones on, as long as no more than the limits pay."""
        eta, gpus = self.instance.eta, round(bracket.gpus)
        powers = eta ** np.arange(self.published.rounds)
        others = self.published_gpus() - gpus * np.array(bracket.trials, dtype=np.int64)
        trials = np.array(bracket.trials, dtype=np.int64)
        rows: list[IntArray] = []
        while trials[0] < bracket.trials[0] + needed and self.may_fit((others + gpus * trials)[None, :])[0]:
            stopwatch.require()
            rows.append(trials)
            if len(rows) > min(_MOST_ROWS, _MOST_NUMBERS // trials.size):
                raise RefutedError(f"there are more than {_MOST_ROWS:,} rows of {gpus} GPUs within the budget")
            # The least size at which a round gets one more trial.
            size = float(((trials + 1) * powers).min())
            trials = np.floor(size * (1.0 + SAME) / powers).astype(np.int64)
        if not rows:
            raise RefutedError("the published trials exceed the budget")
        return np.array(rows)

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
