"""``optplan.speedup.cards.steps``: time and memory of a step, term by term."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optplan.speedup.cards.records import Constants, load_constants
from optplan.speedup.cards.steps import (
    FULLY_SHARDED,
    OPTIMIZER_SHARDED,
    Layout,
    Workload,
    find_exchange_seconds,
    find_memory,
    find_seconds,
    stack_layouts,
)

#: Nothing takes time but what a test is about.
FREE = 1e-20
PLAIN = load_constants().model_copy(
    update={
        "ampere_efficiency": 1.0,
        "hopper_efficiency": 1.0,
        "attention_efficiency": 0.5,
        "recomputation": 1 / 3,
        "activation_passes": FREE,
        "launch_s": FREE,
        "link_efficiency": 1.0,
        "latency_s": FREE,
        "optimizer_shard_traffic": 1.5,
        "step_s": FREE,
    }
)
#: Four layers of 100 weights and hidden size 10, sequences of 5 tokens, 3 to a batch, without a vocabulary. A layer
#: takes 6 * 100 operations a token and 6 * 5 * 10 at half the efficiency, as long as 1,200, and 6,000 a sequence: 6 s
#: at 1,000 a second, and the model 24 s.
WORK = Workload(
    layers=4,
    hidden_size=10,
    vocabulary=0,
    layer_parameters=100.0,
    embedding_parameters=0.0,
    sequence_length=5,
    global_batch=3,
    peak_flops=1e3,
    ampere=0.0,
    memory_bytes_per_s=1e20,
    link_bytes_per_s=1e20,
    network_bytes_per_s=1e20,
    gpus_per_node=8,
)


def seconds(layout: Layout, constants: Constants = PLAIN, **changes: float) -> float:
    """Return the seconds of a step."""
    return float(find_seconds(replace(WORK, **changes), stack_layouts([layout]), constants)[0])


def plain(data: int = 1, tensor: int = 1, pipeline: int = 1, micro_batch: int = 1, shard: int = 0) -> Layout:
    """Return a layout, of one GPU unless it is said."""
    return Layout(data, tensor, pipeline, micro_batch, shard, checkpointing=False)


def test_one_gpu_multiplies_matrices_one_sequence_after_the_other() -> None:
    """Three sequences take three times 24 s; a micro batch of three takes as long."""
    assert seconds(plain()) == pytest.approx(72.0)
    assert seconds(plain(micro_batch=3)) == pytest.approx(72.0)


def test_a_pipeline_waits_to_be_filled() -> None:
    """Two stages of 12 s take (3 + 2 - 1) * 12 s; four of 6 s take (3 + 4 - 1) * 6 s."""
    assert seconds(plain(pipeline=2)) == pytest.approx(48.0)
    assert seconds(plain(pipeline=4)) == pytest.approx(36.0)


def test_a_pipeline_is_as_slow_as_its_fullest_stage() -> None:
    """Three stages of four layers have two layers somewhere: (3 + 3 - 1) * 12 s."""
    assert seconds(plain(pipeline=3)) == pytest.approx(60.0)


def test_stages_send_activations_there_and_gradients_back() -> None:
    """Two times 2 bytes of 5 * 10 activations are 200 bytes: 2 s at 100 a second, over NVLink only within a node."""
    assert seconds(plain(pipeline=2), link_bytes_per_s=100.0) == pytest.approx(4 * (12.0 + 2.0))
    assert seconds(plain(pipeline=2), network_bytes_per_s=100.0) == pytest.approx(48.0)
    assert seconds(plain(pipeline=2), network_bytes_per_s=100.0, gpus_per_node=1) == pytest.approx(4 * (12.0 + 2.0))


def test_tensor_parallel_gpus_reduce_activations_four_times_a_layer() -> None:
    """A layer takes 3 s, and 4 reductions of 2 * 1/2 * 2 bytes * 50 = 100 bytes at 100 a second: 7 s."""
    assert seconds(plain(tensor=2), link_bytes_per_s=100.0) == pytest.approx(3 * 4 * 7.0)


def test_what_is_no_product_of_matrices_moves_activations() -> None:
    """34 bytes * 50 * 2 passes at 340 bytes a second are 10 s more a layer; two tensor-parallel GPUs share them."""
    moving = PLAIN.model_copy(update={"activation_passes": 2.0})
    assert seconds(plain(), moving, memory_bytes_per_s=340.0) == pytest.approx(
        3 * 4 * 16.0 + 400 * 32 / 340.0  # the optimizer's pass over 400 parameters
    )
    assert seconds(plain(tensor=2), moving, memory_bytes_per_s=340.0) == pytest.approx(3 * 4 * 8.0 + 200 * 32 / 340.0)


def test_logits_are_a_product_with_the_vocabulary() -> None:
    """6 operations * 5 tokens * 10 * 20 words at 1,000 a second are 6 s a sequence."""
    assert seconds(plain(), vocabulary=20) == pytest.approx(3 * (24.0 + 6.0))


def test_checkpointing_does_the_forward_pass_again() -> None:
    """A layer takes a third longer, where the forward pass is a third of it."""
    assert seconds(plain()._replace(checkpointing=True)) == pytest.approx(72.0 * 4 / 3)


def test_no_layer_is_faster_than_its_launch() -> None:
    """A launch of 10 s is longer than a layer's 6 s; in a pipeline tensor-parallel GPUs wait for one another."""
    launching = PLAIN.model_copy(update={"launch_s": 10.0})
    assert seconds(plain(), launching) == pytest.approx(3 * 4 * 10.0)
    assert seconds(plain(tensor=2), launching) == pytest.approx(3 * 4 * 10.0)
    assert seconds(plain(tensor=2, pipeline=2), launching) == pytest.approx(4 * 2 * 20.0)


def test_each_type_of_gpu_has_its_efficiency() -> None:
    """Half the peak takes twice as long, on the type that it is said of."""
    halved = PLAIN.model_copy(update={"ampere_efficiency": 0.5})
    assert seconds(plain(), halved, ampere=1.0) == pytest.approx(144.0)
    assert seconds(plain(), halved) == pytest.approx(72.0)


def exchange(layout: Layout, constants: Constants = PLAIN, **changes: float) -> float:
    """Return the seconds of one exchange."""
    return float(find_exchange_seconds(replace(WORK, **changes), stack_layouts([layout]), constants)[0])


def test_gradients_go_round_a_ring() -> None:
    """Of 400 fp32 gradients 2 * 3/4 go over a link of 100 bytes a second: 24 s; with sharded states 1.5 times that."""
    assert exchange(plain(data=4), link_bytes_per_s=100.0) == pytest.approx(24.0)
    assert exchange(plain(data=4, shard=OPTIMIZER_SHARDED), link_bytes_per_s=100.0) == pytest.approx(36.0)
    assert exchange(plain(), link_bytes_per_s=100.0) == 0.0


def test_full_sharding_exchanges_as_much_for_each_micro_batch() -> None:
    """3/4 of 400 * (2 + 2 + 4) bytes at 100 a second are 24 s, and two micro batches take that twice."""
    layout = plain(data=4, shard=FULLY_SHARDED)
    assert exchange(layout, link_bytes_per_s=100.0) == pytest.approx(24.0)
    assert seconds(layout, link_bytes_per_s=100.0, global_batch=8) == pytest.approx(2 * 24.0 + 2 * 24.0)


def test_groups_of_a_node_share_its_network() -> None:
    """Eight GPUs of a node have 8 * 10 bytes a second outwards: one group has all of it, each of two half of it.

    Of 400 gradients 2 * 15/16 * 4 bytes are 3,000: 37.5 s. Two tensor-parallel GPUs have 200 each: as long.
    """
    assert exchange(plain(data=16), network_bytes_per_s=10.0) == pytest.approx(37.5)
    assert exchange(plain(data=16, tensor=2), network_bytes_per_s=10.0) == pytest.approx(37.5)


def test_no_network_is_faster_than_the_links_of_a_node() -> None:
    """Where a node's network has 8 * 1,000 bytes a second, a ring still goes through links of 100."""
    assert exchange(plain(data=16), network_bytes_per_s=1e3, link_bytes_per_s=100.0) == pytest.approx(30.0)


def test_each_further_gpu_adds_a_latency() -> None:
    """Fifteen steps of a ring of 16 take 15 times 2 s."""
    slow = PLAIN.model_copy(update={"latency_s": 2.0})
    assert exchange(plain(data=16), slow) == pytest.approx(30.0)


def test_the_optimizer_moves_what_a_gpu_holds() -> None:
    """32 bytes of 400 parameters at 100 a second are 128 s; a quarter of it where four GPUs shard the states."""
    assert seconds(plain(data=3), memory_bytes_per_s=100.0) == pytest.approx(24.0 + 128.0)
    sharded = plain(data=4, shard=OPTIMIZER_SHARDED)
    assert seconds(sharded, memory_bytes_per_s=100.0) == pytest.approx(24.0 + 32.0)


def memory(layout: Layout, **changes: float) -> float:
    """Return the bytes of the fullest GPU besides what is there in any case."""
    found = find_memory(replace(WORK, **changes), stack_layouts([layout]), load_constants())
    return float(found[0]) - load_constants().context_bytes


@pytest.mark.parametrize(
    ("layout", "bytes_held"),
    [
        (plain(), 400 * 20 + 4 * 1700),
        (plain(data=4), 400 * 20 + 4 * 1700),
        (plain(data=4, shard=OPTIMIZER_SHARDED), 400 * (8 + 3) + 4 * 1700),
        # Two layers' weights and gradients in 16 bits are whole.
        (plain(data=4, shard=FULLY_SHARDED), 400 * 4 + 2 * 4 * 100 + 4 * 1700),
        (plain(tensor=2), 200 * 20 + 2 * 1700),
        # Two layers a stage, and two micro batches in flight.
        (plain(pipeline=2), 200 * 20 + 2 * 2 * 1700),
        # One stage is empty before four are in flight: there are three.
        (plain(pipeline=4), 100 * 20 + 3 * 1700),
        (plain()._replace(checkpointing=True), 400 * 20 + 4 * 100),
    ],
)
def test_memory_is_states_and_activations(layout: Layout, bytes_held: float) -> None:
    """20 bytes of each of 400 weights, and 34 bytes of 5 * 10 activations of 4 layers: less where they are shared."""
    assert memory(layout) == pytest.approx(bytes_held, rel=1e-6)


def test_logits_are_held_for_each_word() -> None:
    """10 bytes * 5 tokens * 20 words more, and the 200 weights of the embedding."""
    assert memory(plain(), vocabulary=20) == pytest.approx(600 * 20 + 4 * 1700 + 1000, rel=1e-6)


def test_many_layouts_are_computed_as_one_is() -> None:
    """Columns of layouts give what each gives alone."""
    layouts = [plain(), plain(pipeline=2), plain(data=4, shard=FULLY_SHARDED), plain(data=2, tensor=2)]
    together = find_seconds(WORK, stack_layouts(layouts), load_constants())
    alone = [seconds(layout, load_constants()) for layout in layouts]
    np.testing.assert_allclose(together, alone)
