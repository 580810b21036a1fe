"""``optplan.speedup.cards.steps``: the fastest layout of a card by width, and how wrong it may be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.speedup.cards.records import Accelerator, Cluster, ModelCard, load_constants, make_cluster
from optplan.speedup.cards.steps import (
    FULLY_SHARDED,
    OPTIMIZER_SHARDED,
    REPLICATED,
    Layout,
    StepEstimate,
    estimate_steps,
    find_error,
    list_doubts,
    list_layouts,
)

WIDTHS = [8, 16, 32, 64, 128, 256]
H100 = make_cluster("h100")


def make_card(**changes: object) -> ModelCard:
    """Return a card of a model of 3.6 billion parameters."""
    said = {
        "parameters": 3.573e9,
        "layers": 28,
        "hidden_size": 3072,
        "vocabulary": 131_072,
        "sequence_length": 4096,
        "global_batch": 256,
        "checkpointing": False,
    }
    return ModelCard.model_validate(said | changes)


def estimate(card: ModelCard, widths: list[int], cluster: Cluster = H100) -> list[StepEstimate]:
    """Return steps that all fit."""
    steps = estimate_steps(card, cluster, widths)
    found = [step for step in steps if step is not None]
    assert len(found) == len(widths)
    return found


@pytest.mark.golden
@pytest.mark.parametrize(
    ("changes", "gpus", "tokens_per_s_per_gpu"),
    [
        # Best layouts of the Ultra-Scale Playbook's interactive benchmark, 256 sequences of 4,096 tokens on H100.
        ({}, 8, 16_426),
        ({}, 64, 13_312),
        ({}, 256, 10_323),
        ({"parameters": 80e9, "layers": 80, "hidden_size": 8192, "tied_embeddings": False}, 32, 285),
        ({"parameters": 80e9, "layers": 80, "hidden_size": 8192, "tied_embeddings": False}, 128, 662),
    ],
)
def test_steps_take_what_was_measured(changes: dict[str, object], gpus: int, tokens_per_s_per_gpu: float) -> None:
    """Steps of the playbook's models take within 15 % of what its best layouts took."""
    (step,) = estimate(make_card(**changes), [gpus])
    assert 256 * 4096 / step.seconds / gpus == pytest.approx(tokens_per_s_per_gpu, rel=0.15)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("gpu", "batch", "gpus", "tokens_per_s_per_gpu"),
    [
        # LLM Foundry, scripts/train/benchmarking/README.md: MPT of 1 billion parameters, sequences of 2,048 tokens.
        ("a100-40gb", 1280, 128, 18_647),
        ("h100", 112, 8, 45_455),
        ("h100", 3072, 256, 42_555),
    ],
)
def test_steps_of_mpt_take_what_was_measured(gpu: str, batch: int, gpus: int, tokens_per_s_per_gpu: float) -> None:
    """Steps of MPT take within 15 % of what they took."""
    card = ModelCard(
        parameters=1_315_950_592,
        layers=24,
        hidden_size=2048,
        vocabulary=50_368,
        sequence_length=2048,
        global_batch=batch,
    )
    (step,) = estimate(card, [gpus], make_cluster(gpu))
    assert card.tokens / step.seconds / gpus == pytest.approx(tokens_per_s_per_gpu, rel=0.15)


def test_a_model_that_does_not_fit_has_no_step() -> None:
    """80 billion parameters need 20 bytes each: too much for 8 or 16 H100, and for 32 in few layouts."""
    card = make_card(parameters=80e9, layers=80, hidden_size=8192, tied_embeddings=False)
    steps = estimate_steps(card, H100, [8, 16, 32, 64])
    assert [step and step.gpus for step in steps] == [None, None, 32, 64]
    assert steps[2] is not None
    assert steps[2].layout.describe() == "data 1 x tensor 8 x pipeline 4, micro batch 1"


def test_steps_stay_within_the_memory() -> None:
    """No layout takes more than the share of the memory that can be used, nor more GPUs than there are."""
    for step in estimate(make_card(), WIDTHS):
        assert step.memory_bytes <= load_constants().usable_memory * 80e9
        assert step.layout.data * step.layout.tensor * step.layout.pipeline == step.gpus


def test_every_width_has_layouts() -> None:
    """Widths that do not divide the batch have steps, too, whose last micro batch is not full."""
    for step in estimate(make_card(), [9, 11, 24, 100, 255]):
        assert step.layout.data * step.layout.tensor * step.layout.pipeline == step.gpus


def test_more_gpus_than_a_layout_can_use_have_no_step() -> None:
    """Four sequences keep four groups busy: 8 GPUs to a node, a stage of each of 28 layers, and no more."""
    few = make_card(global_batch=4)
    steps = estimate_steps(few, H100, [4 * 8 * 28, 8 * 4 * 8 * 28])
    assert [step and step.gpus for step in steps] == [896, None]


def change_gpu(**factors: float) -> Cluster:
    """Return H100 whose data is so many times as large."""
    kind = H100.accelerator.model_dump()
    changed = Accelerator(**(kind | {name: kind[name] * factor for name, factor in factors.items() if name in kind}))
    network = H100.network_bytes_per_s_per_gpu * factors.get("network", 1.0)
    return Cluster(accelerator=changed, gpus_per_node=8, network_bytes_per_s_per_gpu=network)


@given(
    field=st.sampled_from(["peak_flops", "memory_bytes", "hbm_bytes_per_s", "nvlink_bytes_per_s", "network"]),
    factor=st.floats(1.0, 8.0),
    gpus=st.sampled_from(WIDTHS),
    batch=st.integers(1, 512),
)
def test_better_gpus_are_never_slower(field: str, factor: float, gpus: int, batch: int) -> None:
    """More operations, memory or bandwidth never makes a step longer."""
    card = make_card(global_batch=batch, checkpointing=None)
    (before,) = estimate_steps(card, H100, [gpus])
    (after,) = estimate_steps(card, change_gpu(**{field: factor}), [gpus])
    if before is not None:
        assert after is not None
        assert after.seconds <= before.seconds * (1 + 1e-12)


def test_a_free_choice_of_checkpointing_is_the_better_one() -> None:
    """Where a card does not say, the step is the faster of the two that fit."""
    seconds = {said: estimate(make_card(checkpointing=said), [64])[0].seconds for said in (None, False, True)}
    assert seconds[None] == min(seconds[False], seconds[True])


def test_layouts_are_listed_once() -> None:
    """Layouts of 16 GPUs: each uses all of them, tensor parallelism divides a node, and none is listed twice."""
    listed = list_layouts(make_card(), H100, 16)
    assert len(set(listed)) == len(listed)
    assert all(each.data * each.tensor * each.pipeline == 16 and each.tensor in (1, 2, 4, 8) for each in listed)
    assert {each.shard for each in listed if each.tensor == each.pipeline == 1} == {
        REPLICATED,
        OPTIMIZER_SHARDED,
        FULLY_SHARDED,
    }
    assert FULLY_SHARDED not in {each.shard for each in listed if each.tensor * each.pipeline > 1}


@pytest.mark.parametrize(
    ("layout", "line"),
    [
        (Layout(2, 4, 8, 1, REPLICATED, checkpointing=False), "data 2 x tensor 4 x pipeline 8, micro batch 1"),
        (
            Layout(8, 1, 1, 4, OPTIMIZER_SHARDED, checkpointing=True),
            "data 8 x tensor 1 x pipeline 1, micro batch 4, sharded optimizer (ZeRO 1), checkpointing",
        ),
        (
            Layout(8, 1, 1, 4, FULLY_SHARDED, checkpointing=False),
            "data 8 x tensor 1 x pipeline 1, micro batch 4, fully sharded (ZeRO 3)",
        ),
    ],
)
def test_a_layout_is_a_line(layout: Layout, line: str) -> None:
    """A layout says its degrees, its micro batch, and what is not as usual."""
    assert layout.describe() == line


def test_errors_are_of_the_speedup_over_the_narrowest_width() -> None:
    """The reference has none; others the calibrated one, whichever is the wider; between they grow with the root."""
    error = load_constants().pair_error
    errors = [find_error(make_card(), H100, gpus, WIDTHS[0]) for gpus in WIDTHS]
    assert errors == pytest.approx([0.0] + [error] * 5)
    assert find_error(make_card(), H100, 8, 64) == pytest.approx(error)
    assert find_error(make_card(), H100, 16, 11) == pytest.approx(
        error * 0.7352, rel=1e-3
    )  # sqrt(log2(16 / 11)) = 0.735


def test_errors_grow_outside_the_widths_that_were_compared() -> None:
    """Each doubling beyond 256 or below 8 GPUs multiplies the band's factor."""
    constants = load_constants()
    inside = 1.0 + constants.pair_error
    assert 1.0 + find_error(make_card(), H100, 1024, 256) == pytest.approx(inside * (1 + constants.error_beyond) ** 2)
    assert 1.0 + find_error(make_card(), H100, 8, 2) == pytest.approx(inside * (1 + constants.error_below) ** 2)
    both = (1 + constants.error_below) * (1 + constants.error_beyond)
    assert 1.0 + find_error(make_card(), H100, 512, 4) == pytest.approx(inside * both)


@pytest.mark.parametrize(
    ("card", "cluster", "doubts"),
    [
        (make_card(), H100, ()),
        (make_card(), make_cluster("b200"), ("b200 GPUs",)),
        (
            make_card(parameters=50e6, layers=12, hidden_size=512, vocabulary=8192),
            H100,
            ("models of 5e+07 parameters",),
        ),
        (make_card(), make_cluster("h100", gpus_per_node=4), ("nodes of 4 GPUs",)),
        (make_card(), make_cluster("h100", network_bytes_per_s=1.25e9), ("networks of 10 Gbit/s a GPU",)),
    ],
)
def test_what_was_never_compared_adds_to_the_error(card: ModelCard, cluster: Cluster, doubts: tuple[str, ...]) -> None:
    """GPUs, sizes, nodes and networks that no measured step stands for are named, and widen the band."""
    constants = load_constants()
    assert list_doubts(card, cluster) == doubts
    expected = constants.pair_error + constants.error_elsewhere * len(doubts)
    assert find_error(card, cluster, 16, 8) == pytest.approx(expected)
