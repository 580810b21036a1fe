"""Filling the slack of a budget by replacing the paths of one or two graphs at a time: local search by exchanges."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.paths.families import FloatArray, IntArray, PathSets


def fill_slack(paths: PathSets, choice: IntArray, limit: float, least_gain: float, max_rounds: int = 100) -> IntArray:
    """Improve a choice by the best single or pair replacement within the limit, again and again.

    Parameters
    ----------
    paths
        What there is to choose from.
    choice
        (G,) Position of each graph's path; its consumption keeps the limit.
    limit
        Largest total consumption.
    least_gain
        Stop when a replacement gains less value than this.
    max_rounds
        Stop after so many replacements.

    Returns
    -------
    IntArray
        (G,) A choice within the limit whose value is no greater.
    """
    owner = np.repeat(np.arange(choice.size), np.diff(paths.starts))
    current = choice.copy()
    for _ in range(max_rounds):
        slack = limit - math.fsum(paths.used[current].tolist())
        step = paths.used - paths.used[current][owner]
        change = paths.value - paths.value[current][owner]
        # A replacement with more of both, or none of either, is never part of a best pair.
        useful = np.flatnonzero((step < 0) | (change < 0))
        gain, moves = _find_best_pair(owner[useful], step[useful], change[useful], slack)
        if gain < least_gain or gain <= 0:
            break
        moved = useful[moves]
        current[owner[moved]] = moved
    return current


def _find_best_pair(owner: IntArray, step: FloatArray, change: FloatArray, slack: float) -> tuple[float, IntArray]:
    """Return the greatest gain by one replacement or two of different graphs, and their positions."""
    if not owner.size:
        return 0.0, owner
    by_step = np.argsort(step, kind="stable")
    owner, step, change = owner[by_step], step[by_step], change[by_step]
    best, runner_up = _rank_prefixes(owner, change)
    # Replacement i goes with the best of those that still fit beside it, or with none (position -1).
    last = np.searchsorted(step, slack - step, side="right") - 1
    partner = np.where(last >= 0, best[last], -1)
    partner = np.where((partner >= 0) & (owner[partner] == owner), np.where(last >= 0, runner_up[last], -1), partner)
    partner_change = np.where(partner >= 0, change[partner], np.inf)
    alone = np.where(step <= slack, 0.0, np.inf)
    partner = np.where(partner_change < alone, partner, -1)
    total = change + np.minimum(partner_change, alone)
    position = int(np.argmin(total))
    moves = [position] if partner[position] < 0 else [position, int(partner[position])]
    return -float(total[position]), by_step[moves]


def _rank_prefixes(owner: IntArray, change: FloatArray) -> tuple[IntArray, IntArray]:
    """Return, for each prefix, the position of the least change and of the least one of any other graph (-1: none)."""
    size = owner.size
    best = np.maximum.accumulate(np.where(_is_record(change), np.arange(size), 0))
    new_leader = np.concatenate([[True], owner[best][1:] != owner[best][:-1]])
    # Within a stretch led by one graph, the runner-up is the leader before the stretch or a later entry of another
    # graph. Ranks as integers let one running minimum serve all stretches, each below the one before.
    order = np.argsort(change, kind="stable")
    rank = np.empty(size, dtype=np.intp)
    rank[order] = np.arange(size)
    candidate = np.where(owner != owner[best], rank, size)
    previous = np.concatenate([[size], rank[best][:-1]])
    candidate = np.where(new_leader, previous, candidate)
    stretch = np.cumsum(new_leader)
    running = np.minimum.accumulate(candidate - stretch * (size + 1)) + stretch * (size + 1)
    return best, np.where(running < size, order[np.minimum(running, size - 1)], -1)


def _is_record(numbers: FloatArray) -> NDArray[np.bool_]:
    """Return where a number is less than all before it."""
    running = np.minimum.accumulate(numbers)
    return np.concatenate([[True], numbers[1:] < running[:-1]])
