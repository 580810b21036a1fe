"""How a plan fares when estimates are wrong (6.4, figure 8), and the plan that fares best on average.

The widths stay as planned, jobs run at their true speeds: completion times and what is used of the budget follow from
Lemma 4.8 with the true figures. Against each sample stands what a planner who knew the truth could have done with the
same use of the limits. The robust plan is the optimum of the mean over samples: values and consumptions of a path are
linear in the sampled inverse speeds, so it is the same problem with averaged costs, solved by the same engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

import numpy as np

from optplan.contracts.judgement import Evaluation, PathCosts
from optplan.contracts.sensitivity import SampledPlan, Sensitivity
from optplan.errors import InfeasibleError, UsageError, VerificationError
from optplan.formulations.boa.data import BoaInstance, BoaSolution, Policy
from optplan.formulations.boa.duality import path_costs
from optplan.formulations.boa.evaluation import TOLERANCE, evaluate
from optplan.formulations.boa.paths import PathsAnswer, solve_costs
from optplan.formulations.boa.planning import as_run
from optplan.formulations.boa.sampling import EstimateErrors, apply_factors, draw_factors
from optplan.progress import Listener, Stopwatch
from optplan.schema import FloatArray

#: Samples that one task of a process pool takes: few enough for progress to move.
_CHUNK = 25


@dataclass(frozen=True)
class _Question:
    """What every sample is asked; small enough to send to other processes."""

    instance: BoaInstance
    solution: BoaSolution
    errors: EstimateErrors
    seed: int
    compare: bool


@dataclass(frozen=True)
class _Sample:
    """A plan in one sample."""

    objective: float
    consumption: dict[str, float]
    cost_usd_per_hour: float | None
    best_objective: float | None


def analyse_sensitivity(  # noqa: PLR0913 - what is asked, how many samples, and how to run them
    instance: BoaInstance,
    solution: BoaSolution,
    errors: EstimateErrors,
    *,
    samples: int = 1000,
    robust_samples: int = 0,
    compare: bool = True,
    seed: int = 0,
    gap: float = 1e-6,
    processes: int = 1,
    on_event: Listener | None = None,
) -> Sensitivity:
    """Run a plan under sampled truths.

    Parameters
    ----------
    instance
        The estimates, with a budget.
    solution
        The plan; of a continuous problem the whole widths that it is run as.
    errors
        How wrong the estimates may be.
    samples
        How many truths.
    robust_samples
        From how many others a robust plan is made; 0 for none.
    compare
        Whether to find what a planner who knew each truth could do.
    seed
        The same seed gives the same samples, for any number of processes.
    gap
        Relative gap at which the search for the robust plan may stop.
    processes
        How many processes share the samples.
    on_event
        Called as samples are done.

    Raises
    ------
    UsageError
        When a number is out of its range or the instance has no budget.
    InfeasibleError
        When no plan keeps the limits on average over the robust samples.
    """
    asked = (("samples", samples, 1), ("robust_samples", robust_samples, 0), ("processes", processes, 1))
    for name, number, least in asked:
        if number < least:
            message = f"{name}: got {number}; a whole number of at least {least} is needed"
            raise UsageError(message)
    watch = Stopwatch(None, on_event)
    run_instance, run_solution = as_run(instance, solution)
    plans: list[tuple[str, BoaSolution, float | None]] = [("planned", run_solution, None)]
    if robust_samples:
        watch.emit("robust plan")
        answer = solve_robust(run_instance, errors, first=samples, samples=robust_samples, seed=seed, gap=gap)
        plans.append(("robust", answer.solution, answer.bound))
    sampled = []
    for position, (name, plan, bound) in enumerate(plans):
        question = _Question(run_instance, plan, errors, seed, compare)
        done = []
        for sample in _ask(question, samples, processes):
            done.append(sample)
            watch.emit(name, fraction=(position + len(done) / samples) / len(plans))
        sampled.append(_collect(name, plan, bound, evaluate(run_instance, plan), done))
    return Sensitivity(
        formulation=instance.formulation,
        instance_name=instance.name,
        instance_hash=instance.content_hash(),
        objective_unit="s",
        limits=instance.limits,
        limit_units={limit: instance.limit_unit(limit).value for limit in instance.limit_names},
        errors=errors.model_dump(),
        samples=samples,
        robust_samples=robust_samples,
        seed=seed,
        plans=tuple(sampled),
        seconds=watch.elapsed_s,
    )


def solve_robust(
    instance: BoaInstance, errors: EstimateErrors, *, first: int, samples: int, seed: int, gap: float = 1e-6
) -> PathsAnswer:
    """Find the plan whose mean objective over samples is least, its mean use of each limit within the limit.

    Parameters
    ----------
    instance
        Problem whole or rescaling, with a budget.
    errors
        How wrong its estimates may be.
    first, samples
        Numbers of the samples: from ``first`` on, so many.
    seed
        Of the samples.
    gap
        Relative gap at which the search may stop.

    Returns
    -------
    PathsAnswer
        Objective and bound are means over the samples; the evaluator has confirmed the objective sample by sample.

    Raises
    ------
    InfeasibleError
        When no plan keeps the limits on average.
    """
    drawn = [
        apply_factors(instance, draw_factors(instance, errors, seed=seed, number=number))
        for number in range(first, first + samples)
    ]
    costs = average_costs([path_costs(sample) for sample in drawn])
    answer = solve_costs(instance, costs, gap=gap)
    if answer is None:
        message = f"no plan keeps the limits on average over {samples} samples of the errors; raise the limits"
        raise InfeasibleError(message)
    judged = [evaluate(sample.replace(budget=None), answer.solution).objective for sample in drawn]
    mean = float(np.mean(judged))
    if not abs(mean - answer.objective) <= TOLERANCE * mean:
        message = f"robust plan: the engine's mean objective {answer.objective!r} is {mean!r} by the evaluator"
        raise VerificationError(message)
    return answer


def average_costs(samples: list[list[PathCosts]]) -> list[PathCosts]:
    """Average the step costs of each class over samples; limits, labels and groups are those of the first."""
    averaged = []
    for graphs in zip(*samples, strict=True):
        mean = {
            part: np.mean([getattr(graph, part) for graph in graphs], axis=0)
            for part in ("run_value", "run_consumption", "enter_value", "enter_consumption")
        }
        averaged.append(PathCosts(graphs[0].name, graphs[0].labels, graphs[0].group, graphs[0].limits, **mean))
    return averaged


def _ask(question: _Question, samples: int, processes: int) -> Iterator[_Sample]:
    """Yield the samples in their order, as they are done."""
    if processes == 1:
        for number in range(samples):
            yield _run_sample(question, number)
        return
    chunks = [range(start, min(start + _CHUNK, samples)) for start in range(0, samples, _CHUNK)]
    # Spawned processes inherit nothing, so results cannot depend on the state of this one.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for done in pool.map(partial(_run_chunk, question), chunks):
            yield from done


def _run_chunk(question: _Question, numbers: range) -> list[_Sample]:
    return [_run_sample(question, number) for number in numbers]


def _run_sample(question: _Question, number: int) -> _Sample:
    instance = question.instance
    factors = draw_factors(instance, question.errors, seed=question.seed, number=number)
    truth = apply_factors(instance, factors)
    judged = evaluate(truth, question.solution)
    return _Sample(
        objective=judged.objective,
        consumption=judged.consumption,
        cost_usd_per_hour=judged.measures.get("cost_usd_per_hour"),
        best_objective=_find_best(truth, judged) if question.compare else None,
    )


def _find_best(truth: BoaInstance, judged: Evaluation) -> float:
    """Bound what a planner who knew the truth could do with what the plan uses of each limit, mixed plans included."""
    used = np.array([judged.consumption[limit] for limit in truth.limit_names])
    found = solve_costs(truth.replace(policy=Policy.MIXED), path_costs(truth), limits=used)
    # The plan itself keeps these limits, so there is an answer; rounding may put it a hair above the plan.
    return judged.objective if found is None else min(found.bound, judged.objective)


def _collect(
    name: str, solution: BoaSolution, bound: float | None, expected: Evaluation, samples: list[_Sample]
) -> SampledPlan:
    costs = [sample.cost_usd_per_hour for sample in samples]
    best = [sample.best_objective for sample in samples]
    return SampledPlan(
        name=name,
        expected_objective=expected.objective,
        expected_consumption=expected.consumption,
        objective=_gather([sample.objective for sample in samples]),
        consumption={
            limit: _gather([sample.consumption[limit] for sample in samples]) for limit in expected.consumption
        },
        cost_usd_per_hour=None if None in costs else _gather(costs),
        best_objective=None if None in best else _gather(best),
        solution=solution,
        bound=bound,
    )


def _gather(numbers: list[float] | list[float | None]) -> FloatArray:
    return np.array(numbers, dtype=np.float64)
