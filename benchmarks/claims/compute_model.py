"""Srift's compute model against measured passes (table 6): four batches are profiled, powers of two are predicted.

On a CPU a pass is timed in processor time of one thread, of which other work on the machine takes less than of time on
the clock; on a GPU by events of the device.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

#: Pixels of an image's side, and the largest batch, on a CPU and on a GPU.
CPU, GPU = (64, 16), (224, 512)
_SEED = 1


def check_network(name: str, device: str, largest: int, pixels: int, repeats: int) -> dict[str, Any]:
    """Return the errors of predicted passes, in shares: by pass with four points, with six, with a straight line.

    The fifth and sixth points are the cube roots of the largest batch and of its square: a GPU takes as long for a few
    samples as for one, which the paper's thirds do not show.

    Passes that are predicted are timed apart from those of the profile, in turns, so that both meet the same machine;
    times are medians.
    """
    import torch

    from claims.networks import NETWORKS

    torch.manual_seed(_SEED)
    network = NETWORKS[name]().to(device)
    profiled = sorted({1, round(largest / 3), round(2 * largest / 3), largest})
    small = {round(largest ** (third / 3)) for third in (1, 2)}
    predicted = list(takewhile(lambda batch: batch <= largest, (2**power for power in range(12))))
    first, second = _time(network, sorted({*profiled, *small}), predicted, device, pixels, repeats)
    found: dict[str, Any] = {"deviation": _deviation(second, predicted)}
    for at, word in enumerate(("forward", "backward")):
        known = np.maximum.accumulate([statistics.median(one[at] for one in first[batch]) for batch in profiled])
        true = np.array([statistics.median(one[at] for one in second[batch]) for batch in predicted])
        found[word] = _error(np.interp(predicted, profiled, known), true)
    known = np.array([statistics.median(sum(one) for one in first[batch]) for batch in profiled])
    true = np.array([statistics.median(sum(one) for one in second[batch]) for batch in predicted])
    found["both"] = _error(np.interp(predicted, profiled, known), true)
    more = {batch: statistics.median(sum(one) for one in passes) for batch, passes in first.items()}
    found["six"] = _error(np.interp(predicted, list(more), list(more.values())), true)
    slope, constant = np.polyfit(profiled, known, 1)
    found["straight"] = _error(slope * np.array(predicted) + constant, true)
    return {key: round(value, 4) for key, value in found.items()}


def _error(predicted: Any, true: Any) -> float:  # noqa: ANN401 - arrays
    return float(np.abs(predicted / true - 1.0).mean())


def _deviation(taken: dict[int, list[tuple[float, float]]], batches: Sequence[int]) -> float:
    """Return the deviation over the mean of a whole iteration, in the median over the batches."""
    totals = [[sum(one) for one in taken[batch]] for batch in batches]
    return statistics.median(statistics.stdev(each) / statistics.fmean(each) for each in totals)


def _time(
    network: Any,  # noqa: ANN401 - a module
    profiled: Sequence[int],
    predicted: Sequence[int],
    device: str,
    pixels: int,
    repeats: int,
) -> tuple[dict[int, list[tuple[float, float]]], dict[int, list[tuple[float, float]]]]:
    import torch

    clock = _device_clock if device == "cuda" else time.process_time
    taken: tuple[dict[int, list[tuple[float, float]]], ...] = ({b: [] for b in profiled}, {b: [] for b in predicted})
    for turn in range(repeats + 1):  # the first warms up
        for found in taken:
            for batch, passes in found.items():
                times = _one_pass(network, torch.randn(batch, 3, pixels, pixels, device=device), clock)
                if turn:
                    passes.append(times)
    return taken[0], taken[1]


def _one_pass(network: Any, inputs: Any, clock: Callable[[], float]) -> tuple[float, float]:  # noqa: ANN401
    network.zero_grad(set_to_none=True)
    start = clock()
    loss = network(inputs).sum()
    middle = clock()
    loss.backward()
    return middle - start, clock() - middle


def _device_clock() -> float:
    import torch

    torch.cuda.synchronize()
    return time.perf_counter()
