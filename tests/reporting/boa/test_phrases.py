"""Numbers and findings in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from optplan.contracts import BoundProof, Frontier, Result, ShadowPrice, Solution, Status, Termination
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.reporting import phrases
from optplan.reporting.boa import phrases as boa_phrases
from optplan.reporting.phrases import format_gap
from optplan.reporting.sections import add_trust, name_status
from optplan.units import parse_budget

if TYPE_CHECKING:
    from tests.reporting.boa.conftest import ResultMaker


@pytest.mark.parametrize(
    ("gpus", "text"),
    [
        (8.0, "8"),
        (119.94, "119.9"),
        (3.4159, "3.42"),
        (0.0421, "0.042"),
        (1234.0, "1,234"),
        (119.9999999999, "120"),
        (1e300, "1e+300"),
    ],
)
def test_gpus(gpus: float, text: str) -> None:
    """Whole numbers have no decimals, others as many as are worth reading."""
    assert phrases.format_gpus(gpus) == text


def test_one_gpu_is_singular() -> None:
    """One GPU, two GPUs, and 0.5 GPUs."""
    assert [phrases.count_gpus(n) for n in (1.0, 2.0, 0.5)] == ["1 GPU", "2 GPUs", "0.50 GPUs"]


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (1e-12, "0 %"), (1e-6, "less than 0.001 %"), (6.2e-4, "0.062 %"), (0.034, "3.4 %"), (0.256, "26 %")],
)
def test_shares(share: float, text: str) -> None:
    """Small gaps keep two digits; rounding is nothing; what is tiny is called so."""
    assert phrases.format_share(share) == text


@pytest.mark.parametrize(("above", "text"), [(0.12, "12 % longer"), (-0.034, "3.4 % shorter"), (1e-7, "the same")])
def test_comparisons(above: float, text: str) -> None:
    """A duration is longer, shorter or the same."""
    assert phrases.compare_durations(above) == text


@pytest.mark.parametrize(
    ("usd", "text"), [(0.526, "$0.526"), (0.5, "$0.50"), (12.345, "$12.35"), (99.5, "$99.50"), (11388.0, "$11,388")]
)
def test_money(usd: float, text: str) -> None:
    """Fractions of a cent matter for prices and cents not for bills."""
    assert phrases.format_usd(usd) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0042, "4.2 ms"), (0.123, "123 ms"), (3.4, "3.4 s"), (125.0, "2 min 05 s")]
)
def test_computing_times(seconds: float, text: str) -> None:
    """Milliseconds below a second."""
    assert phrases.format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "nothing"), (0.0004, "less than 1 ms"), (0.42, "0.42 s"), (19.2, "19 s")]
)
def test_small_durations(seconds: float, text: str) -> None:
    """What a GPU is worth may be little, and nothing is said to be nothing."""
    assert phrases.format_small_duration(seconds) == text


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        ("8gpu", "8 GPUs on average"),
        ("14600usd/month", "$14,600 a month (10 GPUs on average)"),  # 14,600 / 730 h / $2
        ("480usd/day", "$480 a day (10 GPUs on average)"),  # 480 / 24 h / $2
        ("20usd/hour", "$20.00 an hour (10 GPUs on average)"),
    ],
)
def test_budgets_in_words(instance: BoaInstance, budget: str, text: str) -> None:
    """A budget in money also says how many GPUs it pays."""
    assert boa_phrases.describe_budget(instance.replace(budget=parse_budget(budget))) == text


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        ("7.2usd/hour", "$7.20 an hour ($5,256 a month) and at most 1.30 a100 on average"),
        ("5256usd/month", "$5,256 a month ($7.20 an hour) and at most 1.30 a100 on average"),
        ("4gpu", "4 GPUs on average, at most 1.30 a100 among them"),
    ],
)
def test_limits_in_words(typed_instance: BoaInstance, budget: str, text: str) -> None:
    """With several types money pays no stated number of GPUs, so it is told for another period; quotas follow."""
    assert boa_phrases.describe_limits(typed_instance.replace(budget=budget)) == text


@pytest.mark.parametrize(
    ("words", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_lists_in_words(words: list[str], text: str) -> None:
    """As a sentence lists things."""
    assert phrases.join_words(words) == text


def test_starts_of_nodes_are_told_beside_the_answer(
    instance: BoaInstance, solution: BoaSolution, make_result: ResultMaker
) -> None:
    """Nodes of 36 s: vision pays 0.01 h * (2 new; 2 new and 2 held) twice an hour, speech 0.01 h * 2: 0.14 GPUs.

    That is 1.8 % of 7.8, $204 a month at $2; vision waits twice, speech once, (2 * 72 + 36) / 3 = 60 s on average.
    """
    types = {name: kind.replace(start_s=36.0) for name, kind in instance.gpu_types.items()}
    slow = instance.replace(gpu_types=types)
    said = boa_phrases.say_answer(slow, make_result(slow, solution))
    assert said.startswith(boa_phrases.say_answer(instance, make_result(instance, solution)))
    assert said.endswith(
        " Not counted is that nodes take time to start: at most 0.14 GPUs more (1.8 %, $204 a month) and 1 min 00 s a "
        "job, which is so if all GPUs that jobs come to hold are those of new nodes."
    )
    real = boa_phrases.say_answer(slow.replace(problem="continuous"), make_result(instance, solution))
    assert real.endswith("it is said how much that is at most.")


def test_a_month_of_the_plan(instance: BoaInstance) -> None:
    """7.8 GPUs at $2 for 730 hours are $11,388; without a price there is no bill."""
    assert boa_phrases.cost_of_month(instance, 7.8) == pytest.approx(11388.0)
    assert boa_phrases.cost_of_month(instance.replace(gpu_types={"v100": {}}), 7.8) is None


def test_the_answer_by_status(
    instance: BoaInstance,
    result: Result[Solution],
    infeasible_result: Result[Solution],
    unknown_result: Result[Solution],
) -> None:
    """One sentence answers: a time, or that there is no plan, or that none was found."""
    assert boa_phrases.say_answer(instance, result) == "With 8 GPUs on average, jobs finish in 1 h 06 min on average."
    small = instance.replace(budget="5gpu")
    assert boa_phrases.say_answer(small, infeasible_result) == "No plan keeps to 5 GPUs on average."
    assert (
        boa_phrases.say_answer(instance, unknown_result)
        == "No plan for 8 GPUs on average was found within the time limit."
    )
    for termination in Termination:  # no end of a solve is without words
        ended = unknown_result.replace(termination=termination)
        assert boa_phrases.say_answer(instance, ended).startswith("No plan for 8 GPUs on average was found ")


def test_weights_are_named(instance: BoaInstance, solution: BoaSolution, make_result: ResultMaker) -> None:
    """With different weights the objective is no plain mean, and nothing calls it one."""
    classes = {n: c.replace(weight=2.0 if n == "vision" else 1.0) for n, c in instance.classes.items()}
    weighted = instance.replace(classes=classes)
    # (2 x 2 x 3,510 + 1 x 4,860) / 5 = 3,780 s.
    assert (
        boa_phrases.say_answer(weighted, make_result(weighted, solution))
        == "With 8 GPUs on average, the weighted mean completion time is 1 h 03 min."
    )


def test_how_good_by_proof(
    instance: BoaInstance,
    result: Result[Solution],
    optimal_result: Result[Solution],
    rival: Result[Solution],
    unknown_result: Result[Solution],
) -> None:
    """Optimal is said only where it is proven; otherwise the distance to the bound, or that there is none."""
    assert boa_phrases.say_how_good(instance, optimal_result) == (
        "No plan that treats all jobs of a class alike can be better: proven. The proof can be checked without the "
        "solver, by a small enumeration."
    )
    # (3,960 - 3,895.4) / 3,960 = 1.63 %, and "at most" is rounded up
    assert boa_phrases.say_how_good(instance, result) == (
        "No plan that treats all jobs of a class alike can be better than 1 h 05 min, so the best possible is at "
        "most 1.7 % lower. The bound can be checked without the solver, in one pass."
    )
    assert boa_phrases.say_how_good(instance, rival) == (
        "This solver proves nothing: how far its plan is from the best possible is not known."
    )
    assert boa_phrases.say_how_good(instance, unknown_result) == (
        "No plan that treats all jobs of a class alike can be better than 1 h 00 min; this bound is the word of a "
        "general engine and cannot be checked cheaply."
    )


def test_what_nobody_checked_is_not_called_proven(optimal_result: Result[Solution]) -> None:
    """A certificate for which the judge had no time makes a plan optimal as an engine's word does."""
    late = optimal_result.replace(on_trust=("bound: its certificate was not checked within 60 s",))
    assert name_status(late) == ("optimal, says a certificate that was not checked in time", "fair")
    said = "That nothing is better rests on trust: a certificate that was not checked in time says so."
    assert add_trust("So many GPUs.", late) == f"So many GPUs. {said}"
    priced = optimal_result.replace(on_trust=("shadow price of budget: that nothing less is feasible",))
    assert name_status(priced) == ("proven optimal", "good")


@pytest.mark.parametrize(
    ("gap", "text"),
    [
        (0.0, "0 %"),
        (5e-6, "less than 0.001 %"),
        (0.000621, "0.063 %"),
        (0.0345, "3.5 %"),
        (0.101, "11 %"),
        (1.5, "150 %"),
    ],
)
def test_gaps_are_rounded_up(gap: float, text: str) -> None:
    """Within 3.45 % is within 3.5 %, and not within 3.4 %."""
    assert format_gap(gap) == text


def test_infeasible_gives_the_reason(instance: BoaInstance, infeasible_result: Result[Solution]) -> None:
    """The result's own reason becomes a sentence."""
    assert boa_phrases.say_how_good(instance, infeasible_result) == (
        "The least budget for which the rescaling problem has a plan is 6.2 GPUs; the budget is 5."
    )


def test_statuses(
    instance: BoaInstance,
    solution: BoaSolution,
    make_result: ResultMaker,
    result: Result[Solution],
    rival: Result[Solution],
    infeasible_result: Result[Solution],
    unknown_result: Result[Solution],
) -> None:
    """An engine's word is not called a proof."""
    by_engine = make_result(instance, solution, status=Status.OPTIMAL, bound=3960.0, bound_proof=BoundProof.ENGINE)
    named = [name_status(r)[0] for r in (by_engine, result, rival, infeasible_result, unknown_result)]
    assert named == [
        "optimal, says optplan 1.2.3",
        "within 1.7 % of the bound",
        "no bound",
        "infeasible: proven",
        "no plan found",
    ]


@pytest.mark.parametrize(
    ("less", "more", "text"),
    [
        (19.0, 19.0, "one more GPU on average saves 19 s"),
        (21.0, 19.0, "one more GPU on average saves 19 s, one fewer costs 21 s"),
        (None, 19.0, "one more GPU on average saves 19 s; with less budget there is no plan"),
        (21.0, 0.0, "one more GPU on average saves nothing, one fewer costs 21 s"),
    ],
)
def test_marginal_values(instance: BoaInstance, less: float | None, more: float, text: str) -> None:
    """Both sides of the shadow price are said where they differ."""
    assert boa_phrases.say_worth(instance, ShadowPrice(less=less, more=more, unit="s")) == text


def test_shadow_price_comes_from_the_frontier_where_the_result_has_none(
    instance: BoaInstance, result: Result[Solution], rival: Result[Solution], frontier: Frontier
) -> None:
    """The result's own shadow price wins; a heuristic's place is taken by the frontier's at the same budget."""
    own = boa_phrases.shadow_price(instance, result, frontier)
    assert own is not None
    assert own.less == pytest.approx(1200.0)
    looked_up = boa_phrases.shadow_price(instance, rival, frontier)
    assert looked_up is not None
    # At 8 GPUs both sides lie on the segment from 7.8 to 9.1.
    assert looked_up.less == looked_up.more == pytest.approx(420.0 / 1.3)
    assert boa_phrases.shadow_price(instance, rival, None) is None
