"""Bills of plans with committed GPUs, by the law of demand and on jobs that came."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from optplan.errors import DataError, UsageError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.instances.files import read_instance
from optplan.instances.job_logs.columns import to_texts
from optplan.instances.job_traces import JobTrace, draw_trace
from optplan.lab.billing import compare_commitments, keep_confirmed, replay_widths
from optplan.solving import solve
from optplan.speedup import TableSpeedup

if TYPE_CHECKING:
    from tests.conftest import Runner

EXAMPLE = Path(__file__).parents[2] / "docs/examples/sacct.txt"
TERM = "gpu_types.t4.commitments={1-year: {discount: 0.45}}"


@pytest.fixture
def instance() -> BoaInstance:
    """Return a class of jobs of an hour on 1 GPU, or of half an hour on 2, after a pause of 0.1 hours."""
    table = TableSpeedup(gpus=np.array([1, 2]), speedup=np.array([1.0, 2.0]))
    job = JobClass(arrival_rate_per_hour=1.0, epoch_size_gpu_hours=[1.0], speedup={"t4": table}, rescale_s=360.0)
    kind = {"commitments": {"1-year": {"discount": 0.5}}}
    return BoaInstance.parse({"classes": {"job": job}, "gpu_types": {"t4": kind}, "budget": "1.5gpu"})


def trace_of(instance: BoaInstance, arrive_h: list[float], size: list[float], span_h: float) -> JobTrace:
    """Return jobs of the only class."""
    unknown = np.full(len(size), np.nan)
    return JobTrace(
        name="few",
        classes=tuple(instance.classes),
        class_index=np.zeros(len(size), dtype=np.int64),
        arrive_s=np.array(arrive_h) * 3600.0,
        size=np.array(size),
        ids=to_texts([f"job-{number}" for number in range(len(size))]),
        gpus=unknown,
        run_s=unknown,
        wait_s=unknown,
        span_s=span_h * 3600.0,
    )


def test_jobs_hold_their_gpus_from_arrival_on(instance: BoaInstance) -> None:
    """On 2 GPUs a job takes 0.1 + 0.5 h, one of twice the size 1.1 h: of 4 h, 0.4 h with two jobs and 0.9 with one.

    They come at 0 and 0.2 h and end at 0.6 and 1.3 h.
    """
    plan = BoaSolution(branches={"job": (Branch(widths=np.array([2.0])),)})
    found, mean_s = replay_widths(instance, plan, trace_of(instance, [0.0, 0.2], [1.0, 2.0], 4.0))
    np.testing.assert_allclose(found["t4"].any_time[:5], [2.7 / 4.0, 0.0, 0.9 / 4.0, 0.0, 0.4 / 4.0], atol=1e-12)
    assert mean_s == pytest.approx((0.6 + 1.1) / 2.0 * 3600.0)


def test_jobs_beyond_the_span_are_cut_and_shares_are_dealt(instance: BoaInstance) -> None:
    """Of half the jobs on 1 GPU, for 1.1 h, and half on 2: from 0.9 h on, of a span of 1 h, one of each is there."""
    branches = (Branch(fraction=0.5, widths=np.array([1.0])), Branch(fraction=0.5, widths=np.array([2.0])))
    plan = BoaSolution(branches={"job": branches})
    mixed = instance.replace(policy="mixed")
    found, mean_s = replay_widths(mixed, plan, trace_of(instance, [0.9, 0.9], [1.0, 1.0], 1.0))
    np.testing.assert_allclose(found["t4"].any_time[:4], [0.9, 0.0, 0.0, 0.1], atol=1e-12)
    assert mean_s == pytest.approx((1.1 + 0.6) / 2.0 * 3600.0)


def test_ways_to_commit_stand_side_by_side(instance: BoaInstance) -> None:
    """The best number beats the P95, and widths with it lose nothing for the same bill; all are billed on the jobs."""
    newtrace = read_instance("boa-newtrace", BoaInstance).replace(budget="130gpu")
    kind = newtrace.gpu_types["t4"].replace(commitments={"1-year": {"discount": 0.45}})
    newtrace = newtrace.replace(gpu_types={"t4": kind})
    trace = draw_trace(newtrace, jobs=960, seed=1)
    nothing, rival, rule, same, whole = compare_commitments(newtrace, trace)
    assert nothing.law.saved == pytest.approx(0.0, abs=1e-12)
    assert nothing.law.committed == {"t4": 0.0}
    assert rival.law.saved < rule.law.saved
    assert same.law.bill <= rule.law.bill * (1.0 + 1e-6)
    assert same.objective <= rule.objective
    assert whole.law.bill == pytest.approx(130.0, rel=2e-3)
    assert whole.objective < same.objective
    for plan in (nothing, rival, rule, same, whole):
        assert plan.trace is not None
        assert plan.trace.committed == plan.law.committed
        assert plan.trace.gpus == pytest.approx(plan.law.gpus, rel=0.15)
    with pytest.raises(UsageError, match="the trace 'boa-newtrace' has the classes bert"):
        compare_commitments(instance, trace)
    with pytest.raises(UsageError, match="commitments: no GPU type of 'boa-newtrace' has any"):
        compare_commitments(read_instance("boa-newtrace", BoaInstance))


def test_widths_and_number_together_are_never_worse_than_the_rule(instance: BoaInstance) -> None:
    """Secants stop a little below the rule's bill, where a mixed plan is some hundred thousandths slower: not taken."""
    rows = compare_commitments(instance.replace(policy="mixed", budget="1.127gpu"))
    _, _, rule, same, _ = rows
    assert same.objective <= rule.objective
    assert same.law.bill <= rule.law.bill * (1.0 + 1e-9)
    assert same.bound is not None
    assert same.bound <= same.objective


def test_widths_that_the_jobs_do_not_confirm_give_way(instance: BoaInstance) -> None:
    """On 2 GPUs jobs take 0.6 h in place of 1.1; at half the price, by the law 1 GPU is committed for 1, none for 2.

    In 4 h with one job after the other, 1 GPU costs 0.5 of one on demand, and 2 for 1.2 h cost 0.6. With both at once,
    1 each costs 0.5 and another for 1.1 h, together 0.775, and 2 each for 0.6 h still 0.6.
    """
    narrow, wide = (solve(instance.replace(budget=budget)) for budget in ("1.1gpu", "1.2gpu"))
    assert (narrow.measures["mean_jct_s"], wide.measures["mean_jct_s"]) == pytest.approx((3960.0, 2160.0))
    apart, at_once = (trace_of(instance, arrive_h, [1.0, 1.0], 4.0) for arrive_h in ([0.0, 2.0], [0.0, 0.0]))
    assert keep_confirmed(instance, [narrow], wide, apart) is narrow
    assert keep_confirmed(instance, [narrow], wide, at_once) is wide
    assert keep_confirmed(instance, [narrow], wide, None) is wide
    assert keep_confirmed(instance, [narrow, wide], wide, apart) is wide
    for trace in (apart, at_once, None):
        assert keep_confirmed(instance, [wide], narrow, trace) is wide


def test_jobs_that_come_at_once_have_no_bill(instance: BoaInstance) -> None:
    """There is no time between the first and the last for which to pay."""
    with pytest.raises(DataError, match=r"^jobs.arrive_s: all 2 jobs arrive at once; there is no time to bill"):
        compare_commitments(instance, trace_of(instance, [1.0, 1.0], [1.0, 1.0], 1.0))


def test_the_command_lists_them(run: Runner) -> None:
    """With jobs drawn there are columns of what they cost; JSON has the same figures."""
    options = ("frontier", "boa-newtrace", "--by", "commitments", "--budget", "130gpu", "--set", TERM)
    shown = run(*options, "--jobs", "200", "--seed", "1")
    assert shown.code == 0
    assert "best number, same widths" in shown.out
    assert "bill on the jobs" in shown.out
    data = run(*options, "--json").data
    assert len(data) == 5
    assert not any("trace" in plan for plan in data)
    assert data[0]["law"]["bill"] == pytest.approx(130.0, rel=1e-3)


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_where_only_commitments_keep_the_budget_that_is_said(run: Runner) -> None:
    """Jobs need 6 GPUs, which at half the price are within the bill of 5."""
    asked = ("--by", "commitments", "--budget", "5gpu", "--set", TERM.replace("t4", "v100"))
    shown = run("frontier", "boa-two-classes", *asked)
    assert shown.code == 0
    assert "with widths, whole budget" in shown.out
    assert "Without commitments no plan was found whose bill keeps the budget." in shown.out


def test_a_log_is_enough(run: Runner) -> None:
    """Classes, law and jobs come of one log; a budget that no plan keeps is infeasible, with the least one."""
    log = (EXAMPLE, "--from", "sacct", "--class-pattern", "^[a-z]+")
    term = "gpu_types={a100: {commitments: {1-year: {discount: 0.45}}}}"
    data = run("frontier", *log, "--by", "commitments", "--budget", "40gpu", "--set", term, "--json").data
    assert [plan["name"] for plan in data][:2] == ["nothing committed", "P95 committed, same widths"]
    assert data[2]["trace"]["bill"] <= data[0]["trace"]["bill"]
    refused = run("frontier", *log, "--by", "commitments", "--budget", "1gpu", "--set", term)
    assert refused.code == 3
    assert "the least budget for which" in refused.err


def test_solve_says_what_to_commit(run: Runner) -> None:
    """The first lines have the number and what it saves; tables have the parts of the bill, and other discounts."""
    shown = run("solve", "boa-newtrace", "--budget", "100gpu", "--set", TERM)
    text = " ".join(shown.out.split())
    assert shown.code == 0
    assert text.startswith("With a bill of 100 GPUs on demand, jobs finish in 23 min 40 s on average. Commit 129 t4")
    assert "below that of the same GPUs on demand." in text
    assert "takes every GPU-hour at its least price" in text
    assert "t4 for 1-year" in text
    assert "the P95" in text
