"""Plans whose proof would leave the judge more to list than it lists."""

from __future__ import annotations

import pytest

from optplan import solve, verify
from optplan.contracts.result import BoundProof, Status
from optplan.formulations.rubberband.judge import bracket_paths
from optplan.instances.library import build_named


@pytest.mark.parametrize("certify", [True, False])
def test_what_the_judge_cannot_list_rests_on_the_search(monkeypatch: pytest.MonkeyPatch, *, certify: bool) -> None:
    """The optimum is the same, and is said to rest on trust; it is no bug of optplan, and no answer less."""
    instance = build_named("rubberband-resnet50-data")
    listed = solve(instance)
    assert listed.bound_proof is BoundProof.ENUMERATED
    monkeypatch.setattr(bracket_paths, "_MOST_NUMBERS", 1)
    result = solve(instance, certify=certify)
    assert (result.status, result.objective, result.bound) == (Status.OPTIMAL, listed.objective, listed.bound)
    assert result.bound_proof is BoundProof.SEARCHED
    assert result.on_trust
    assert verify(instance, result).nothing_wrong
