"""The rule ``seer-nodes``: true claims pass, false ones do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optplan.contracts.judgement import RefutedError
from optplan.contracts.result import TreeCertificate
from optplan.formulations.seer.data.instance import SeerInstance
from optplan.formulations.seer.judge import node_spending
from optplan.formulations.seer.judge.spending import check_tree
from optplan.progress import Stopwatch

MakeInstance = Callable[..., SeerInstance]

#: Two rounds of 1.5 and 3 minutes on nodes of 4 GPUs: 9 trials, then 4, train for 25.5 GPU-minutes, none for longer.
BY_HAND = {"deadline_min": 4.5, "budget": "36gpu-min", "nu": 1, "gpus_per_node": 4, "budget_counts": "nodes"}


def claim(bound: float | None, **content: int) -> TreeCertificate:
    """Return a claim."""
    return TreeCertificate(rule="seer-nodes", bound=bound, content=dict(content))


@pytest.mark.parametrize("bound", [25.5, 25.6, 36.0])
def test_true_claims_pass(make_instance: MakeInstance, bound: float) -> None:
    """Nothing trains for longer than 25.5 GPU-minutes, and so than anything above."""
    check_tree(make_instance(**BY_HAND), claim(bound), Stopwatch())


def test_a_false_claim_is_refuted_by_a_search(make_instance: MakeInstance) -> None:
    """The published plan itself trains for 25.5, a little longer than claimed."""
    with pytest.raises(RefutedError, match="9 x1: keeps the budget, and trains for longer"):
        check_tree(make_instance(**BY_HAND), claim(25.49), Stopwatch())


@pytest.mark.parametrize(
    ("certificate", "message"),
    [
        (claim(17.0, pairs=1), "no content is needed"),
        (claim(None), "a bound in GPU-minutes above zero"),
        (TreeCertificate(rule="seer-rows", bound=17.0, content={}), "'seer-rows' is about GPUs held"),
    ],
)
def test_other_claims_are_refused(make_instance: MakeInstance, certificate: TreeCertificate, message: str) -> None:
    """A claim has a bound and nothing else, and lists of pairs say nothing of nodes."""
    with pytest.raises(RefutedError, match=message):
        check_tree(make_instance(**BY_HAND), certificate, Stopwatch())


def test_it_says_nothing_of_gpus_held(make_instance: MakeInstance) -> None:
    """There 36 GPU-minutes train for 36."""
    with pytest.raises(RefutedError, match="whose budget counts nodes"):
        check_tree(make_instance(**BY_HAND | {"budget_counts": "held"}), claim(17.0), Stopwatch())


@pytest.mark.parametrize("limit", ["_MOST_CHOICES", "_MOST_CHANGES", "_MOST_COUNTED"])
def test_what_takes_too_long_is_not_taken(
    make_instance: MakeInstance, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """Nodes of 3 with trials of 1 and 2 GPUs have to be counted one by one."""
    instance = make_instance(gpus_per_node=3, budget_counts="nodes", budget="75gpu-min")
    bound = 0.7 * 75 if limit == "_MOST_COUNTED" else 75.0
    monkeypatch.setattr(node_spending, limit, 0)
    with pytest.raises(RefutedError, match="more than 0"):
        check_tree(instance, claim(bound), Stopwatch())
