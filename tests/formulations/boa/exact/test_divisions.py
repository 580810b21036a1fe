"""Fractions of each epoch's jobs as branches of a class."""

from __future__ import annotations

import pytest

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.models.flows import Share, write_divisions

ONE = {"form": "table", "gpus": [1, 2], "speedup": [1.0, 1.5]}


def instance_of(*gpu_types: str) -> BoaInstance:
    """Make an instance whose only point is its types."""
    job_class = {
        "arrival_rate_per_hour": 1.0,
        "epoch_size_gpu_hours": [1.0],
        "speedup": dict.fromkeys(gpu_types, ONE),
    }
    fields = {"classes": {"x": job_class}, "gpu_types": {name: {} for name in gpu_types}, "problem": "continuous"}
    return BoaInstance.parse(fields)


def test_epochs_that_are_not_divided_are_one_branch() -> None:
    """Types are named where there are several only."""
    epochs = [[Share(1.0, "a", 2.0)], [Share(1.0, "b", 1.0)]]
    (branch,) = write_divisions(instance_of("a", "b"), epochs)
    assert (branch.fraction, branch.widths.tolist(), branch.gpu_types) == (1.0, [2.0, 1.0], ("a", "b"))
    (branch,) = write_divisions(instance_of("a"), [[Share(1.0, "a", 2.0)]])
    assert branch.gpu_types is None


def test_every_cut_makes_one_branch_more() -> None:
    """Cuts at 0.3 in the first epoch and 0.6 in the second: 0.3, 0.3 and 0.4 of the jobs; what each holds is kept."""
    epochs = [
        [Share(0.3, "a", 1.0), Share(0.7, "a", 2.0)],
        [Share(0.6, "b", 1.0), Share(0.4, "a", 4.0)],
        [Share(1.0, "b", 2.0)],
    ]
    branches = write_divisions(instance_of("a", "b"), epochs)
    assert [branch.fraction for branch in branches] == pytest.approx([0.3, 0.3, 0.4])
    assert [branch.widths.tolist() for branch in branches] == [[1.0, 1.0, 2.0], [2.0, 1.0, 2.0], [2.0, 4.0, 2.0]]
    assert [branch.gpu_types for branch in branches] == [("a", "b", "b"), ("a", "b", "b"), ("a", "a", "b")]
    assert sum(branch.fraction for branch in branches) == pytest.approx(1.0, rel=1e-15)


def test_cuts_that_are_the_same_but_for_rounding_are_one() -> None:
    """Three thirds and one third cut at the same place."""
    third = 1.0 / 3.0
    epochs = [
        [Share(third, "a", 1.0), Share(1.0 - third, "a", 2.0)],
        [Share(third + 1e-15, "b", 1.0), Share(third, "b", 2.0), Share(1.0 - 2.0 * third, "b", 4.0)],
    ]
    branches = write_divisions(instance_of("a", "b"), epochs)
    assert [branch.widths.tolist() for branch in branches] == [[1.0, 1.0], [2.0, 2.0], [2.0, 4.0]]
