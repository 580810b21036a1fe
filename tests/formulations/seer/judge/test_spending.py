"""The rule ``seer-rows``: true claims pass, forged ones do not, against every choice of tiny instances."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from optplan.contracts import BoundProof, SolveRequest, TreeCertificate
from optplan.contracts.judgement import RefutedError
from optplan.contracts.proofs import pack_integers, unpack_integers
from optplan.formulations.seer.data.instance import Bracket, SeerInstance, SeerSolution
from optplan.formulations.seer.exact import rows as exact_rows
from optplan.formulations.seer.exact.spending import solve_spend_exact
from optplan.formulations.seer.judge import spending
from optplan.formulations.seer.judge.evaluation import evaluate
from optplan.formulations.seer.judge.spending import check_tree, list_rows
from optplan.progress import OutOfTime, Stopwatch

MakeInstance = Callable[..., SeerInstance]

#: Three brackets, and pauses with which no choice meets the budget.
PAUSED: dict[str, Any] = {"deadline_min": 40, "budget": "700gpu-min", "resize_s": 20}


def certified(instance: SeerInstance) -> TreeCertificate:
    """Return the certificate of the exact solver."""
    (certificate,) = solve_spend_exact(instance, SolveRequest()).certificates
    assert isinstance(certificate, TreeCertificate)
    return certificate


def accepts(instance: SeerInstance, certificate: TreeCertificate) -> bool:
    """Whether the judge takes a certificate."""
    try:
        check_tree(instance, certificate, Stopwatch())
    except RefutedError:
        return False
    return True


def list_choices(instance: SeerInstance) -> Iterator[SeerSolution]:
    """Yield every search of a tiny instance that the evaluator allows, by trying all trials of all rounds."""
    published = instance.brackets
    assert published is not None
    options = []
    for bracket in published.brackets:
        most = int(instance.budget_gpu_min / (bracket.gpus * published.round_min)) + 1
        own = []
        for size in np.arange(0, (most + 1) * 240) / 240:  # passes every multiple of the powers of 2, 2.5, 3 and 4
            trials = tuple(math.floor(size / instance.eta**k + 1e-9) for k in range(published.rounds))
            if trials not in own and all(n >= least for n, least in zip(trials, bracket.trials, strict=True)):
                own.append(trials)
        options.append([(bracket.gpus, trials) for trials in own])
    assume(math.prod(len(each) for each in options) < 2_000)
    for choice in itertools.product(*options):
        brackets = tuple(Bracket(gpus=gpus, trials=trials) for gpus, trials in choice if trials[0])
        yield SeerSolution(round_min=published.round_min, rounds=published.rounds, brackets=brackets)


@st.composite
def tiny_instances(draw: st.DrawFn) -> SeerInstance:
    """Draw instances whose choices can all be looked at."""
    whole = draw(st.booleans())
    least = draw(st.sampled_from([1, 2, 3] if whole else [1, 0.5, 1.7]))
    fields = {
        "formulation": "seer",
        "deadline_min": draw(st.floats(1, 20)),
        "budget": f"{least * draw(st.floats(1, 40))!r}gpu-min",
        "eta": draw(st.sampled_from([2, 3, 4, 2.5])),
        "nu": draw(st.sampled_from([1.5, 2, 3])),
        "least_gpus": least,
        "resize_s": draw(st.sampled_from([0, 20, 47.3])),
        "whole_gpus": whole,
    }
    cluster = draw(st.none() | st.integers(1, 12))
    return SeerInstance.parse(fields if cluster is None else fields | {"most_gpus_held": cluster * least})


@given(instance=tiny_instances())
def test_it_agrees_with_looking_at_every_choice(instance: SeerInstance) -> None:
    """The solver's certificate passes; a bound below the best of all choices never does, by however little."""
    assume(instance.brackets is not None)
    judged = [evaluate(instance, solution) for solution in list_choices(instance)]
    best = max(each.objective for each in judged if all(check.holds for check in each.checks))
    answer = solve_spend_exact(instance, SolveRequest())
    assert answer.objective == pytest.approx(best, rel=1e-9)
    assume(answer.bound_proof is BoundProof.TREE)
    certificate = certified(instance)
    assert accepts(instance, certificate)
    assert certificate.bound == pytest.approx(best, rel=1e-9)
    for share in (1e-6, 1e-3, 0.1):
        assert not accepts(instance, certificate.replace(bound=best * (1 - share)))
        assert not accepts(instance, certificate.replace(bound=best * (1 + share)))


@pytest.mark.parametrize("fields", [PAUSED, PAUSED | {"eta": 2.5}, PAUSED | {"resize_s": 47.3}])
def test_no_pair_can_be_left_out(make_instance: MakeInstance, fields: dict[str, Any]) -> None:
    """Each pair of each list covers something that no other covers."""
    instance = make_instance(**fields)
    certificate = certified(instance)
    lists: Any = certificate.content["pairs"]
    for number, parts in enumerate(lists):
        pairs = [unpack_integers(part, 10_000) for part in parts]
        for position in range(len(pairs[0])):
            shorter = [pack_integers(np.delete(each, position)) for each in pairs]
            content = {"pairs": [*lists[:number], shorter, *lists[number + 1 :]]}
            assert not accepts(instance, certificate.replace(content=content))


def test_a_pair_that_nothing_stands_behind_gains_nothing(make_instance: MakeInstance) -> None:
    """A single pair that covers everything makes the longest training longer, and the bound too low for it."""
    instance = make_instance(**PAUSED)
    certificate = certified(instance)
    lists: Any = certificate.content["pairs"]
    covers_all = [pack_integers(np.array([0])), pack_integers(np.array([2**40]))]
    assert not accepts(instance, certificate.replace(content={"pairs": [covers_all] * len(lists)}))


@given(instance=tiny_instances(), seed=st.integers(0, 2**32 - 1))
def test_altered_lists_prove_nothing_that_is_false(instance: SeerInstance, seed: int) -> None:
    """Whatever is done to the lists: a claim a millionth below the optimum is not taken."""
    assume(instance.brackets is not None)
    answer = solve_spend_exact(instance, SolveRequest())
    assume(answer.bound_proof is BoundProof.TREE)
    certificate, random = certified(instance), np.random.default_rng(seed)
    assert certificate.bound is not None
    lists: Any = certificate.content["pairs"]
    changed = []
    for parts in lists:
        pairs = np.array([unpack_integers(part, 10_000) for part in parts])
        pairs = pairs[:, random.random(pairs.shape[1]) < 0.8]
        moved = (pairs * random.choice([0.5, 0.999, 1.0, 1.001, 2.0], pairs.shape)).astype(np.int64)
        changed.append([pack_integers(part) for part in moved])
    forged = certificate.replace(bound=certificate.bound * (1 - 1e-6), content={"pairs": changed})
    assert not accepts(instance, forged)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rule": "seer"}, "there is no rule 'seer'"),
        ({"rule": "x" * 10_000}, "there is no rule 'xxx"),
        ({"limit": "budget"}, "about the training of feasible instances"),
        ({"bound": None}, "a bound in GPU-minutes above zero"),
        ({"bound": -1.0}, "a bound in GPU-minutes above zero"),
        ({"bound": 1e308}, "nothing in the lists trains for as long"),
        ({"bound": 5e-324}, "no listed pair covers|may train for"),
        ({"content": {}}, "its content must be 'pairs'"),
        ({"content": {"pairs": None}}, "its content must be 'pairs'"),
        ({"content": {"pairs": [], "more": 1}}, "its content must be 'pairs'"),
        ({"content": {"pairs": []}}, "a list for each of"),
        ({"content": {"pairs": [1, 2]}}, "each list must have two parts"),
        ({"content": {"pairs": [[], []]}}, "each list must have two parts"),
        ({"content": {"pairs": [["", ""], ["", ""]]}}, "a packed list"),
        ({"content": {"pairs": [[1e308, True], [None, {}]]}}, "text is needed"),
        ({"content": {"pairs": [[pack_integers(np.array([], dtype=np.int64))] * 2] * 2}}, "at least one"),
        ({"content": {"pairs": [[pack_integers(np.array([0])), pack_integers(np.array([0, 1]))]] * 2}}, "as many"),
        ({"content": {"pairs": [[pack_integers(np.array([2**62] * 3))] * 2] * 2}}, "no listed pair covers"),
        ({"content": {"pairs": [[pack_integers(np.zeros(200_001, dtype=np.int64))] * 2] * 2}}, "more than 200,000"),
    ],
)
def test_junk_is_refused(make_instance: MakeInstance, changes: dict[str, Any], message: str) -> None:
    """By what is wrong with it, and never by another exception."""
    instance = make_instance(**PAUSED)
    certificate = certified(instance)
    assert len(certificate.content["pairs"]) == 2  # type: ignore[arg-type]
    with pytest.raises(RefutedError, match=message):
        check_tree(instance, certificate.replace(**changes), Stopwatch())


def test_an_infeasible_instance_has_no_training_to_bound(make_instance: MakeInstance) -> None:
    """What is infeasible is proven by multipliers, and by no list."""
    certificate = certified(make_instance(**PAUSED))
    assert not accepts(make_instance(deadline_min=0.5), certificate)


def test_it_ends_with_the_judge_s_time(make_instance: MakeInstance) -> None:
    """Before the first joins are looked at."""
    instance = make_instance(**PAUSED)
    with pytest.raises(OutOfTime):
        check_tree(instance, certified(instance), Stopwatch(0.0))


def test_more_rows_than_can_be_listed_are_refused(make_instance: MakeInstance) -> None:
    """A hundred million rows of one trial more each."""
    instance = make_instance(deadline_min=1, budget="9e8gpu-min", most_gpus=1)
    assert instance.brackets is not None
    with pytest.raises(RefutedError, match="change more than"):
        list_rows(instance, instance.brackets.brackets[0], 1e8)


@given(instance=tiny_instances())
def test_both_sides_list_the_same_rows(instance: SeerInstance) -> None:
    """The judge by changes of size, the solver by sizes; within the budget they spend and train the same."""
    published = instance.brackets
    assume(published is not None)
    assert published is not None
    problem = exact_rows.list_rows(instance, published)
    for bracket, own in zip(published.brackets, problem.brackets, strict=True):
        rows = list_rows(instance, bracket, instance.budget_gpu_min)
        fits = min(rows.spent.size, own.size)
        assert np.allclose(rows.spent[:fits], (own.spent_gpu_min - own.spent_gpu_min[0])[:fits], rtol=1e-12)
        assert np.allclose(rows.trained[:fits], (own.training_gpu_min - own.training_gpu_min[0])[:fits], rtol=1e-12)


@pytest.mark.parametrize("side", ["solver", "judge"])
@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_an_error_in_either_table_is_noticed_by_the_other(
    make_instance: MakeInstance, monkeypatch: pytest.MonkeyPatch, side: str, row: int, factor: float
) -> None:
    """Minutes with pauses (0) and of training (1) of the second round, off by a hundredth."""
    instance = make_instance(**PAUSED | {"budget": "2500gpu-min"})
    module, name = {"solver": (exact_rows, "_minutes"), "judge": (spending, "_list_minutes")}[side]
    honest = getattr(module, name)

    def broken(*arguments: Any) -> Any:  # noqa: ANN401 - stands in for either side's table
        minutes = honest(*arguments)
        minutes[row, 1] *= factor
        return minutes

    monkeypatch.setattr(module, name, broken)
    answer = solve_spend_exact(instance, SolveRequest())
    assert answer.solution is not None
    judged = evaluate(instance, answer.solution)
    assert answer.certificates
    certificate = answer.certificates[0]
    assert isinstance(certificate, TreeCertificate)
    assert not all(check.holds for check in judged.checks) or not accepts(instance, certificate)
