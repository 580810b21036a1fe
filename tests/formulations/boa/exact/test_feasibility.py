"""The least budget, and what is said when a budget is below it."""

from __future__ import annotations

import pytest

from optplan.contracts import Status
from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.exact.feasibility import answer_if_infeasible, infeasible_answer, least_budget


def two_classes(problem: str, **changes: object) -> BoaInstance:
    """Make a class whose table is superlinear at 2 GPUs (k/s = 2/2.5) and one that scales nowhere (s = 1)."""
    fields: dict[str, object] = {
        "classes": {
            "bert": {
                "arrival_rate_per_hour": 2.0,
                "epoch_size_gpu_hours": [5.0, 2.5],
                "speedup": {"t4": {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 2.5, 3.0]}},
                "rescale_s": 360.0,
            },
            "yolo": {
                "arrival_rate_per_hour": 1.0,
                "epoch_size_gpu_hours": [3.0],
                "speedup": {"t4": {"form": "amdahl", "serial_fraction": 1.0}},
                "widths": {"max": 8},
            },
        },
        "gpu_types": {"t4": {"price_usd_per_hour": 0.5}},
        "budget": "14gpu",
        "problem": problem,
    }
    return BoaInstance.parse(fields | changes)


@pytest.mark.parametrize("problem", ["continuous", "whole"])
def test_a_superlinear_table_needs_less_than_its_load(problem: str) -> None:
    """Bert's load is 2 * 7.5 = 15 GPUs, but at 2 GPUs it takes 7.5 / 2.5 h * 2 GPUs: 2 * 6 = 12; yolo needs 3."""
    total, parts = least_budget(two_classes(problem))
    assert total == pytest.approx(15.0)
    assert parts == pytest.approx({"bert": 12.0, "yolo": 3.0})


def test_rescaling_adds_the_first_start() -> None:
    """Bert starts at 2 GPUs for 0.1 h, twice an hour: 0.4 GPUs more; a start at 1 GPU and a change cost more."""
    total, parts = least_budget(two_classes("rescaling"))
    assert total == pytest.approx(15.4)
    assert parts == pytest.approx({"bert": 12.4, "yolo": 3.0})


def test_the_reason_names_problem_budget_and_classes() -> None:
    """The answer says what is needed, by class, and what is given; the relaxation has the same figures."""
    answer = answer_if_infeasible(two_classes("rescaling"))
    assert answer is not None
    assert answer.status is Status.INFEASIBLE
    assert answer.infeasibility is not None
    assert answer.infeasibility.reason == (
        "the least budget for which the rescaling problem has a plan is 15.4 GPUs (bert 12.4, yolo 3); the budget is 14"
    )
    (relaxation,) = answer.infeasibility.relaxations
    assert (relaxation.limit, relaxation.given, relaxation.unit) == ("budget", 14.0, "gpu")
    assert relaxation.least_feasible == pytest.approx(15.4)
    assert relaxation.parts == pytest.approx({"bert": 12.4, "yolo": 3.0})


def test_rounding_errors_are_not_rounded_up() -> None:
    """A tenth and a fifth of a GPU are 0.30000000000000004 of them in binary, and 0.3 is enough, not 0.3001."""
    job = {"epoch_size_gpu_hours": [1.0], "speedup": {"v100": {"form": "amdahl", "serial_fraction": 1.0}}}
    instance = BoaInstance.parse(
        {
            "name": "tenths",
            "formulation": "boa",
            "problem": "whole",
            "budget": "0.25gpu",
            "gpu_types": {"v100": {}},
            "classes": {name: {"arrival_rate_per_hour": rate, **job} for name, rate in (("slow", 0.1), ("quick", 0.2))},
            "widths": {"max": 4},
        }
    )
    answer = answer_if_infeasible(instance)
    assert answer is not None
    assert answer.infeasibility is not None
    assert "has a plan is 0.3 GPUs (slow 0.1, quick 0.2); the budget is 0.25" in answer.infeasibility.reason
    assert answer_if_infeasible(instance.replace(budget="0.3gpu")) is None


def test_money_is_answered_in_money() -> None:
    """At 0.5 USD per GPU-hour 15 GPUs cost 7.5 USD per hour, and a month of 730 hours 5475 USD."""
    hourly = answer_if_infeasible(two_classes("whole", budget="7usd/hour"))
    assert hourly is not None
    assert hourly.infeasibility is not None
    assert hourly.infeasibility.reason == (
        "the least budget for which the problem with whole widths has a plan is 7.5 usd/hour (bert 6, yolo 1.5); "
        "the budget is 7"
    )
    monthly = answer_if_infeasible(two_classes("continuous", budget="5000usd/month"))
    assert monthly is not None
    assert monthly.infeasibility is not None
    assert monthly.infeasibility.relaxations[0].unit == "usd/month"
    assert monthly.infeasibility.relaxations[0].least_feasible == pytest.approx(5475.0)
    assert "the problem with real widths" in monthly.infeasibility.reason


def test_close_figures_are_written_with_enough_digits() -> None:
    """15.4 and 15.399999 are told apart in the text."""
    instance = two_classes("rescaling", budget="15.399999gpu")
    answer = infeasible_answer(instance, *least_budget(instance))
    assert answer.infeasibility is not None
    assert "is 15.4 GPUs" in answer.infeasibility.reason
    assert answer.infeasibility.reason.endswith("the budget is 15.399999")


def test_the_least_budget_itself_is_feasible() -> None:
    """Equality, also to within a billionth, leaves a plan; a millionth less does not."""
    total, _ = least_budget(two_classes("rescaling"))
    assert answer_if_infeasible(two_classes("rescaling", budget=f"{total!r}gpu")) is None
    assert answer_if_infeasible(two_classes("rescaling", budget=f"{total * (1 - 5e-10)!r}gpu")) is None
    assert answer_if_infeasible(two_classes("rescaling", budget=f"{total * (1 - 1e-6)!r}gpu")) is not None


def test_no_budget_is_a_wrong_call() -> None:
    """Without a budget there is nothing to compare with."""
    with pytest.raises(UsageError, match="has no budget"):
        answer_if_infeasible(two_classes("rescaling", budget=None))


def shared_out(**changes: object) -> BoaInstance:
    """Make a class of 4 GPU-hours an hour that may run on T4 for 1 and on A100 for 2 usd per GPU-hour."""
    curve = {"form": "table", "gpus": [1], "speedup": [1.0]}
    fields: dict[str, object] = {
        "classes": {
            "bert": {
                "arrival_rate_per_hour": 1.0,
                "epoch_size_gpu_hours": [4.0],
                "speedup": {"t4": curve, "a100": curve},
            }
        },
        "gpu_types": {"t4": {"price_usd_per_hour": 1.0, "quota_gpus": 3.0}, "a100": {"price_usd_per_hour": 2.0}},
        "budget": "4.5usd/hour",
        "problem": "whole",
        "policy": "mixed",
    }
    return BoaInstance.parse(fields | changes)


def test_the_least_budget_of_several_types_regards_no_quota() -> None:
    """All 4 GPUs as T4 cost 4 usd per hour."""
    total, parts = least_budget(shared_out())
    assert total == pytest.approx(4.0)
    assert parts == pytest.approx({"bert": 4.0})


def test_the_reason_names_every_limit_that_would_help() -> None:
    """3 T4 and 1 A100 cost 5; 4.5 usd pay for x T4 and 4 - x A100 from x = 3.5 on; 3f T4 and 4.5f usd from 7.5f = 8."""
    answer = answer_if_infeasible(shared_out())
    assert answer is not None
    assert answer.infeasibility is not None
    assert answer.infeasibility.reason == (
        "the problem with whole widths has no plan that keeps the budget and all quotas; one of these would do: "
        "a budget of at least 5 usd/hour (given: 4.5); a quota of t4 of at least 3.5 GPUs (given: 3); "
        "all limits together would have to grow by 6.667 %"
    )
    budget, quota = answer.infeasibility.relaxations
    assert (budget.limit, budget.given, budget.unit) == ("budget", 4.5, "usd/hour")
    assert budget.least_feasible == pytest.approx(5.0)
    assert budget.multipliers == pytest.approx({"budget": 1.0, "quota.t4": 1.0})  # one more T4 saves 1 usd per hour
    assert (quota.limit, quota.given, quota.unit) == ("quota.t4", 3.0, "gpu")
    assert quota.least_feasible == pytest.approx(3.5)
    assert answer.infeasibility.factor == pytest.approx(8.0 / 7.5)


def test_money_of_a_month_is_answered_in_money_of_a_month() -> None:
    """5 usd per hour are 3650 a month of 730 hours; the quota stays one of GPUs."""
    answer = answer_if_infeasible(shared_out(budget="3285usd/month"))
    assert answer is not None
    assert answer.infeasibility is not None
    budget, quota = answer.infeasibility.relaxations
    assert (budget.unit, quota.unit) == ("usd/month", "gpu")
    assert budget.least_feasible == pytest.approx(3650.0)
    assert quota.least_feasible == pytest.approx(3.5)
    assert "a budget of at least 3,650 usd/month (given: 3,285)" in answer.infeasibility.reason


@pytest.mark.parametrize(
    ("quotas", "budget", "words"),
    [
        # Caps below the load: 1 + 2 GPUs for 4.
        ((1.0, 2.0), "100usd/hour", "a quota of t4 of at least 2 GPUs (given: 1); a quota of a100 of at least 3 GPUs"),
        # The budget pays for no more than 1 GPU, and the quotas are too low as well.
        ((1.0, 2.0), "1usd/hour", "no single limit can mend that; all limits together would have to grow by 300 %"),
        ((1.0, None), "100usd/hour", None),
    ],
)
def test_quotas_below_the_load(quotas: tuple[float, float | None], budget: str, words: str | None) -> None:
    """Whether raising one limit is enough, and which."""
    prices = {"t4": 1.0, "a100": 2.0}
    gpu_types = {
        name: {"price_usd_per_hour": price} | ({} if quota is None else {"quota_gpus": quota})
        for (name, price), quota in zip(prices.items(), quotas, strict=True)
    }
    answer = answer_if_infeasible(shared_out(gpu_types=gpu_types, budget=budget))
    if words is None:
        assert answer is None
    else:
        assert answer is not None
        assert answer.infeasibility is not None
        assert words in answer.infeasibility.reason


def test_the_least_limits_themselves_are_feasible() -> None:
    """Exactly 3 T4 and 1 A100, for 5 usd; a billionth less is rounding, a millionth is not."""
    assert answer_if_infeasible(shared_out(budget="5usd/hour")) is None
    assert answer_if_infeasible(shared_out(budget=f"{5.0 * (1 - 5e-10)!r}usd/hour")) is None
    assert answer_if_infeasible(shared_out(budget=f"{5.0 * (1 - 1e-6)!r}usd/hour")) is not None
