"""Model cards with a critical batch: steps grow with the GPUs, and count by their progress."""

from __future__ import annotations

from itertools import pairwise

import pytest

from optplan import card
from optplan.speedup.cards.records import ModelCard, make_cluster
from optplan.speedup.cards.steps import StepEstimate, estimate_steps

WIDTHS = (8, 16, 32, 64, 128, 256)


def _make_card(critical_batch: float | None = None, global_batch: int = 32) -> ModelCard:
    return ModelCard(parameters=7e9, sequence_length=2048, global_batch=global_batch, critical_batch=critical_batch)


def _estimate(model: ModelCard, *widths: int) -> list[StepEstimate]:
    return [step for step in estimate_steps(model, make_cluster("h100"), widths or WIDTHS) if step is not None]


def test_a_step_counts_by_its_progress() -> None:
    """At a critical batch of 64 one of 256 has 2.4 times the progress of one of 32: (1/32 + 1/64) / (1/256 + 1/64)."""
    growing = _estimate(_make_card(64))
    for step in growing:
        (same,) = _estimate(_make_card(None, step.global_batch), step.gpus)
        assert same.layout == step.layout
        progress = (1 / 32 + 1 / 64) / (1 / step.global_batch + 1 / 64)
        assert step.seconds == pytest.approx(same.seconds / progress)
    batches = [step.global_batch for step in growing]
    assert batches == sorted(batches)
    assert batches[0] < batches[-1]


def test_larger_critical_batches_allow_more() -> None:
    """From none, where the batch stays, to one beyond all batches, where samples count alike: never slower."""
    by_critical = [[step.seconds for step in _estimate(_make_card(critical))] for critical in (None, 1, 32, 1024, 1e9)]
    for less, more in pairwise(by_critical):
        assert all(b <= a * (1 + 1e-12) for a, b in zip(less, more, strict=True))
    # 32 sequences do not fill 256 GPUs; without a limit to the batch they are used nearly as well as 8 are.
    assert by_critical[0][0] / by_critical[0][-1] < 8
    assert by_critical[-1][0] / by_critical[-1][-1] > 20


def test_gpus_beyond_buy_little() -> None:
    """Where larger steps make no progress the batch stays; at a critical batch of 64, doublings gain less and less."""
    assert [step.global_batch for step in _estimate(_make_card(1e-3))] == [32] * len(WIDTHS)
    seconds = [step.seconds for step in _estimate(_make_card(64))]
    gains = [narrow / wide for narrow, wide in pairwise(seconds)]
    assert gains[-1] < 1.4 < gains[0]


def test_the_batches_are_said() -> None:
    """Beside each layout, and the critical batch in the source; without one, that it is not said."""
    made = card(_make_card(1024), "h100", widths=[8, 64])
    batches = [step.global_batch for step in _estimate(_make_card(1024), 8, 64)]
    assert [step.layout.rpartition(", ")[2] for step in made.steps["h100"]] == [
        f"{b} sequences a step" for b in batches
    ]
    assert "or as many more as pay at a critical batch of 1,024" in made.describe()["model card"]
    plain = card(_make_card(), "h100", widths=[8, 64])
    assert all("a step" not in step.layout for step in plain.steps["h100"])
    assert "32 a step, as no critical batch is said, the same on all widths" in plain.describe()["model card"]
