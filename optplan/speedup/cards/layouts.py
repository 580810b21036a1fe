"""Layouts: how the GPUs of a step share the model and the batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from optplan.schema import IntArray
from optplan.speedup.cards.records import Cluster, ModelCard

#: What data-parallel GPUs shard: nothing, the optimizer's states, or all that they hold (Rajbhandari et al. 2020).
REPLICATED, OPTIMIZER_SHARDED, FULLY_SHARDED = 0, 1, 3
_SHARD_WORDS = {
    REPLICATED: "",
    OPTIMIZER_SHARDED: ", sharded optimizer (ZeRO 1)",
    FULLY_SHARDED: ", fully sharded (ZeRO 3)",
}
#: The deepest pipeline considered.
_DEEPEST = 64


class Layout(NamedTuple):
    """One layout: degrees of data, tensor and pipeline parallelism, and what each GPU does at once."""

    data: int
    tensor: int
    pipeline: int
    micro_batch: int  #: Sequences of one pass, on ``tensor * pipeline`` GPUs.
    shard: int  #: Stage of ZeRO: 0 (nothing), 1 (the optimizer's states) or 3 (all).
    checkpointing: bool  #: Whether activations are computed again in the backward pass.

    def describe(self) -> str:
        """Return the layout in a line."""
        degrees = f"data {self.data} x tensor {self.tensor} x pipeline {self.pipeline}"
        again = ", checkpointing" if self.checkpointing else ""
        return f"{degrees}, micro batch {self.micro_batch}{_SHARD_WORDS[self.shard]}{again}"


@dataclass(frozen=True)
class Layouts:
    """Layouts as columns, each of shape (layouts,)."""

    data: IntArray
    tensor: IntArray
    pipeline: IntArray
    micro_batch: IntArray
    shard: IntArray
    checkpointing: IntArray


def stack_layouts(layouts: list[Layout]) -> Layouts:
    """Return layouts as columns."""
    return Layouts(*np.array(layouts, dtype=np.int64).reshape(-1, len(Layout._fields)).T)


def list_layouts(card: ModelCard, cluster: Cluster, gpus: int) -> list[Layout]:
    """Return the layouts of a step on that many GPUs, whether or not they fit the memory."""
    # Tensor groups divide a node and the hidden size; stages have a layer, data groups a sequence; micro batches are
    # powers of two and the whole share; full sharding goes with data parallelism alone.
    choices = (False, True) if card.checkpointing is None else (card.checkpointing,)
    return [
        Layout(data, tensor, pipeline, micro_batch, shard, again)
        for tensor in _divisors(math.gcd(gpus, cluster.gpus_per_node, card.hidden_size))
        for pipeline in _divisors(gpus // tensor)
        if pipeline <= min(card.layers, _DEEPEST)
        if (data := gpus // (tensor * pipeline)) <= card.global_batch
        for micro_batch in _micro_batches(math.ceil(card.global_batch / data))
        for shard in _shards(data, tensor * pipeline)
        for again in choices
    ]


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


def _micro_batches(share: int) -> list[int]:
    powers = [2**exponent for exponent in range(share.bit_length())]
    return powers if powers[-1] == share else [*powers, share]


def _shards(data: int, parts: int) -> tuple[int, ...]:
    if data == 1:
        return (REPLICATED,)
    return (REPLICATED, OPTIMIZER_SHARDED, FULLY_SHARDED) if parts == 1 else (REPLICATED, OPTIMIZER_SHARDED)
