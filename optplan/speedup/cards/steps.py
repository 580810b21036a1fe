"""The time and the memory of a training step in closed form, for many layouts at once.

A step on the global batch is a pipeline of micro batches, an exchange of gradients and a pass of the optimizer:

- *A layer* forwards and backwards: products of matrices, ``6 P`` operations a token with P weights a layer, at a share
  of the peak; attention, ``6 s h`` with sequence s and hidden size h, at a share of that; all else moves activations
  through the memory. Tensor parallelism adds four all-reduces of them over NVLink. No layer is faster than the host
  launches its kernels.
- *The pipeline* of p stages and m micro batches takes ``m + p - 1`` times a stage's time (Narayanan et al. 2021).
- *The exchange* among d data-parallel GPUs is a ring: ``2 (d - 1) / d`` of the bytes of fp32 gradients over the slowest
  link (Patarasuk and Yuan 2009), and a latency for each step of the ring. Between nodes, the groups that share a node
  share its network. Full sharding gathers 16-bit weights twice and scatters gradients once: as many bytes, for each
  micro batch.

Times are seconds, sizes bytes; fields of a :class:`Workload` are numbers, or arrays that go with the layouts.

Layouts: how the GPUs of a step share the model and the batch.

Step times from a model card: the fastest layout that fits the memory, by width, and how wrong the speedup may be.

References
----------
Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021.
Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", MLSys 2023.
Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020.
Patarasuk and Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations", JPDC 2009.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from optplan.schema import FloatArray, IntArray
from optplan.speedup.cards.records import Cluster, Constants, ModelCard, load_constants

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


#: Bytes of a 16-bit and of an fp32 number.
_HALF, _FULL = 2.0, 4.0
#: Operations for a weight and a token: multiply and add, forwards once and backwards twice.
_WEIGHT_FLOPS = 6.0
#: Operations for a token, a token of its sequence and a unit of the hidden size, in the same way: a token looks at half
#: of the sequence.
_ATTENTION_FLOPS = 6.0
#: All-reduces of a layer's activations in tensor parallelism: two forwards, two backwards (Narayanan et al. 2021, 2.3).
_TENSOR_REDUCTIONS = 4.0
#: Bytes that an optimizer's pass moves for a parameter: it reads gradient, weight and two moments, and writes the last
#: three and the 16-bit weight.
_OPTIMIZER_BYTES = 32.0

#: Layers that full sharding has whole at once: one that computes, and the next one.
_LAYERS_GATHERED = 2

_Amount = float | FloatArray


@dataclass(frozen=True)
class Workload:
    """What the law takes from a card and a cluster."""

    layers: _Amount
    hidden_size: _Amount
    vocabulary: _Amount
    layer_parameters: _Amount
    embedding_parameters: _Amount
    sequence_length: _Amount
    global_batch: _Amount
    peak_flops: _Amount
    ampere: _Amount  #: 1 on an A100, 0 elsewhere.
    memory_bytes_per_s: _Amount
    link_bytes_per_s: _Amount
    network_bytes_per_s: _Amount  #: A GPU's share of its node's.
    gpus_per_node: _Amount

    @classmethod
    def of(cls, card: ModelCard, cluster: Cluster) -> Workload:
        """Return the workload of a card on a cluster."""
        gpu = cluster.accelerator
        return cls(
            layers=card.layers,
            hidden_size=card.hidden_size,
            vocabulary=card.vocabulary,
            layer_parameters=card.layer_parameters,
            embedding_parameters=card.embedding_parameters,
            sequence_length=card.sequence_length,
            global_batch=card.global_batch,
            peak_flops=gpu.peak_flops,
            ampere=float(gpu.name.startswith("a100")),
            memory_bytes_per_s=gpu.hbm_bytes_per_s,
            link_bytes_per_s=gpu.nvlink_bytes_per_s,
            network_bytes_per_s=cluster.network_bytes_per_s_per_gpu,
            gpus_per_node=cluster.gpus_per_node,
        )


def find_seconds(work: Workload, layouts: Layouts, constants: Constants) -> FloatArray:
    """Return the seconds of a step by layout, shape (layouts,)."""
    passes = _count_micro_batches(work, layouts)
    pipelined = (passes + layouts.pipeline - 1) * (
        _find_stage_seconds(work, layouts, constants) + _find_sending_seconds(work, layouts, constants)
    )
    exchanges = np.where(layouts.shard == FULLY_SHARDED, passes, 1) * find_exchange_seconds(work, layouts, constants)
    held = _count_parameters(work, layouts) / np.where(layouts.shard == REPLICATED, 1, layouts.data)
    return pipelined + exchanges + held * _OPTIMIZER_BYTES / work.memory_bytes_per_s + constants.step_s


def find_memory(work: Workload, layouts: Layouts, constants: Constants) -> FloatArray:
    """Return the bytes that the fullest GPU holds by layout, shape (layouts,)."""
    stage = np.ceil(work.layers / layouts.pipeline)
    parameters = (work.layer_parameters * stage + work.vocabulary * work.hidden_size) / layouts.tensor
    replicas = np.where(layouts.shard == REPLICATED, 1, layouts.data)
    held = parameters * (constants.weight_bytes + constants.state_bytes / replicas)
    gathered = _LAYERS_GATHERED * 2 * _HALF * work.layer_parameters  # weights and gradients
    sharded = parameters * constants.full_shard_bytes / layouts.data + gathered
    states = np.where(layouts.shard == FULLY_SHARDED, sharded, held)
    kept = np.where(layouts.checkpointing, constants.checkpoint_bytes, constants.activation_bytes / layouts.tensor)
    tokens = work.sequence_length * layouts.micro_batch
    in_flight = np.minimum(_count_micro_batches(work, layouts), layouts.pipeline)
    activations = kept * tokens * work.hidden_size * stage * in_flight
    logits = constants.logit_bytes * tokens * work.vocabulary / layouts.tensor
    return states + activations + logits + constants.context_bytes


def find_exchange_seconds(work: Workload, layouts: Layouts, constants: Constants) -> FloatArray:
    """Return the seconds of one exchange among data-parallel GPUs by layout, shape (layouts,)."""
    parameters = _count_parameters(work, layouts)
    link = work.link_bytes_per_s * constants.link_efficiency
    groups = work.gpus_per_node / np.minimum(layouts.tensor, work.gpus_per_node)
    network = groups * work.network_bytes_per_s * constants.link_efficiency
    slowest = np.where(layouts.data * layouts.tensor <= work.gpus_per_node, link, np.minimum(link, network))
    traffic = 2 * _FULL * np.where(layouts.shard == OPTIMIZER_SHARDED, constants.optimizer_shard_traffic, 1.0)
    ring = (layouts.data - 1) / layouts.data
    return np.asarray(ring * traffic * parameters / slowest + constants.latency_s * (layouts.data - 1))


def _find_stage_seconds(work: Workload, layouts: Layouts, constants: Constants) -> FloatArray:
    """Return the seconds of a stage with one micro batch, forwards and backwards; the last has the logits."""
    tokens = work.sequence_length * layouts.micro_batch
    efficiency = np.where(work.ampere, constants.ampere_efficiency, constants.hopper_efficiency)
    flops = layouts.tensor * work.peak_flops * efficiency
    bandwidth = layouts.tensor * work.memory_bytes_per_s / constants.activation_passes
    attention = _ATTENTION_FLOPS * work.sequence_length * work.hidden_size / constants.attention_efficiency
    layer = tokens * (
        (_WEIGHT_FLOPS * work.layer_parameters + attention) / flops
        + constants.activation_bytes * work.hidden_size / bandwidth
    )
    reduced = 2 * (layouts.tensor - 1) / layouts.tensor * _HALF * tokens * work.hidden_size
    layer += _TENSOR_REDUCTIONS * reduced / (work.link_bytes_per_s * constants.link_efficiency)
    layer *= 1 + constants.recomputation * layouts.checkpointing
    layer = np.maximum(layer, constants.launch_s * np.where(layouts.pipeline > 1, layouts.tensor, 1))
    words = tokens * work.vocabulary
    logits = words * (_WEIGHT_FLOPS * work.hidden_size / flops + _FULL / bandwidth)
    return np.asarray(np.ceil(work.layers / layouts.pipeline) * layer + logits)


def _find_sending_seconds(work: Workload, layouts: Layouts, constants: Constants) -> FloatArray:
    """Return the seconds in which a stage hands activations on, and gradients back."""
    gpus = layouts.data * layouts.tensor * layouts.pipeline
    link = np.where(gpus <= work.gpus_per_node, work.link_bytes_per_s, work.network_bytes_per_s)
    sent = 2 * _HALF * work.sequence_length * layouts.micro_batch * work.hidden_size
    return np.where(layouts.pipeline > 1, sent / (link * constants.link_efficiency), 0.0)


def _count_micro_batches(work: Workload, layouts: Layouts) -> IntArray | FloatArray:
    return np.ceil(work.global_batch / (layouts.data * layouts.micro_batch))


def _count_parameters(work: Workload, layouts: Layouts) -> FloatArray:
    """Return the parameters of a GPU, if nothing is sharded."""
    whole = work.layer_parameters * work.layers + work.embedding_parameters
    return np.asarray(whole / (layouts.tensor * layouts.pipeline))


#: Between which widths, parameters, GPUs a node and bytes a second of a GPU's network step times were compared with
#: measured ones.
VALID_GPUS = (8, 256)
VALID_PARAMETERS = (100e6, 100e9)
VALID_NODES = (8, 8)
VALID_NETWORK = (12.5e9, 100e9)
#: How often a batch that may grow is doubled.
_DOUBLINGS = 10


class StepEstimate(NamedTuple):
    """A step on one width."""

    gpus: int
    seconds: float  #: Of a step; of a larger one than the card's, for as much progress as the card's makes.
    layout: Layout
    memory_bytes: float  #: Of the fullest GPU.
    global_batch: int  #: Sequences.


def estimate_steps(card: ModelCard, cluster: Cluster, widths: Sequence[int]) -> list[StepEstimate | None]:
    """Return for each width its fastest layout, at the best batch; None where none fits the memory."""
    return [_find_best_batch(card, cluster, gpus) for gpus in widths]


def find_fastest(card: ModelCard, cluster: Cluster, gpus: int, constants: Constants) -> StepEstimate | None:
    """Return the fastest step on that many GPUs; None where no layout fits the memory."""
    work = Workload.of(card, cluster)
    layouts = list_layouts(card, cluster, gpus)
    columns = stack_layouts(layouts)
    memory = find_memory(work, columns, constants)
    fits = memory <= constants.usable_memory * cluster.accelerator.memory_bytes
    if not fits.any():
        return None
    seconds = np.where(fits, find_seconds(work, columns, constants), np.inf)
    best = int(np.argmin(seconds))
    return StepEstimate(gpus, float(seconds[best]), layouts[best], float(memory[best]), card.global_batch)


def _find_best_batch(card: ModelCard, cluster: Cluster, gpus: int) -> StepEstimate | None:
    """Return the step of the most progress a second: at the card's batch, or where it may grow at doublings of it."""
    critical, doublings = card.critical_batch or math.inf, 0 if card.critical_batch is None else _DOUBLINGS
    found = []
    for batch in (card.global_batch << power for power in range(doublings + 1)):
        step = find_fastest(card.model_copy(update={"global_batch": batch}), cluster, gpus, load_constants())
        # At batch B it makes the progress of B / (1 + B / B_crit) samples of a small batch (McCandlish et al. 2018).
        progress = (1.0 / card.global_batch + 1.0 / critical) / (1.0 / batch + 1.0 / critical)
        found += [] if step is None else [step._replace(seconds=step.seconds / progress)]
    return min(found, key=lambda step: step.seconds, default=None)


def find_error(card: ModelCard, cluster: Cluster, gpus: int, reference: int) -> float:
    """Return how wrong the speedup between two widths may be, in 9 of 10 cases, as curves state it."""
    # Up to a doubling it grows with the root of the doublings; beyond the widths that were compared, and by each doubt.
    if gpus == reference:
        return 0.0
    constants = load_constants()
    least, most = (math.log2(width) for width in VALID_GPUS)
    ends = sorted(math.log2(width) for width in (gpus, reference))
    below = max(0.0, min(ends[1], least) - ends[0])
    beyond = max(0.0, ends[1] - max(ends[0], most))
    among = constants.pair_error + constants.error_elsewhere * len(list_doubts(card, cluster))
    log_factor = math.log1p(among * math.sqrt(min(ends[1] - ends[0], 1.0)))
    log_factor += below * math.log1p(constants.error_below) + beyond * math.log1p(constants.error_beyond)
    return math.expm1(log_factor)


def list_doubts(card: ModelCard, cluster: Cluster) -> tuple[str, ...]:
    """Return in words what about a card and its cluster was never compared with measured step times."""
    kind = cluster.accelerator
    network = cluster.network_bytes_per_s_per_gpu
    doubts = {
        f"{kind.name} GPUs": not kind.validated,
        f"models of {card.parameters:,.3g} parameters": not _within(card.parameters, VALID_PARAMETERS),
        f"nodes of {cluster.gpus_per_node} GPUs": not _within(cluster.gpus_per_node, VALID_NODES),
        f"networks of {network * 8e-9:,.3g} Gbit/s a GPU": not _within(network, VALID_NETWORK),
    }
    return tuple(words for words, doubtful in doubts.items() if doubtful)


def _within(value: float, ends: tuple[float, float]) -> bool:
    return ends[0] <= value <= ends[1]
