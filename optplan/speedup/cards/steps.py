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

References
----------
Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021.
Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", MLSys 2023.
Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020.
Patarasuk and Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations", JPDC 2009.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optplan.schema import FloatArray, IntArray
from optplan.speedup.cards.layouts import FULLY_SHARDED, OPTIMIZER_SHARDED, REPLICATED, Layouts
from optplan.speedup.cards.records import Cluster, Constants, ModelCard

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
