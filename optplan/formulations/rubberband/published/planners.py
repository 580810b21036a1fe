"""The paper's planners: the static cluster, naive elasticity and Algorithm 2 (sections 3.2, 4.3 and 6.3).

All plans are judged by the same evaluator, whoever made them; none of these planners has a bound. Where the printed
text leaves a choice, this is what is done:

- *Static cluster.* One number of instances is held throughout, and a stage uses the fastest allocation that the mode
  allows on them. Only numbers that some allocation needs are looked at: any other costs more and is no faster.
- *Naive elastic.* All trials of a stage run at once, on the same number of GPUs in every stage; what is held is what
  that needs.
- *Algorithm 2.* Allocations are fair by the paper's rule, a factor or a multiple of the number of trials (times the
  least GPUs of a trial), whatever the mode; a stage holds what its allocation needs. The warm starts are the optimal
  static cluster by the same predictor and the static clusters of 2 and 3 times its size, each as it is and rounded down
  stage by stage to the largest fair allocation that needs no more instances; those that miss the deadline are skipped.
  With a limit on instances the clusters are no larger than that. As the static cluster itself is among them, no plan
  found is predicted to be worse.
- *Sampled.* The predictor of ``published-greedy`` is the mean of a few sampled executions, with the same random numbers
  for every plan. A plan that misses the deadline by the evaluator is not returned; a warning says by how much.
- *Whole instances.* ``published-greedy-instances`` walks down another ladder: from one number of instances to the next
  lower one that is slower, each with the fastest allocation that the mode allows. A step frees at least one instance.
  Per function nothing is paid by instance, and the ladder has every allocation that is worth considering.
- *Skipping.* ``published-greedy-skipping`` is the same, but passes over candidates that break the deadline, where the
  printed algorithm ends.

Brackets side by side are planned one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from optplan.contracts.result import Answer, SolveRequest, Status, Termination
from optplan.formulations.rubberband.data.allocations import list_allowed
from optplan.formulations.rubberband.data.instance import (
    DEADLINE,
    AllocationRule,
    RubberBandInstance,
    RubberBandSolution,
    StageAllocation,
    recall,
)
from optplan.formulations.rubberband.exact.both_limits import keep_both
from optplan.formulations.rubberband.exact.bracket_choice import (
    PricedChain,
    answer_without_plan,
    choose_chains,
    isolate_brackets,
    write_solution,
)
from optplan.formulations.rubberband.exact.costs import stage_options
from optplan.formulations.rubberband.judge.evaluation import evaluate, expected_costs
from optplan.formulations.rubberband.laws.sampling import Drawn, sample_plan
from optplan.formulations.rubberband.laws.stages import StageOptions
from optplan.progress import Stopwatch
from optplan.solvers.limits import LIMIT_TOLERANCE

#: A candidate whose cost is lower by less than this, relatively, is no improvement (the paper's delta).
LEAST_SAVING = 1e-9


#: By stage, the number of the step on its ladder.
Steps = tuple[int, ...]
Predictor = Callable[[Steps], PricedChain]


#: The allocations that a stage steps through, from the least to the largest.
Ladder = tuple[StageAllocation, ...]


def end_with(ladder: Ladder, last: StageAllocation) -> Ladder:
    """Return the ladder that ends with an allocation, above all steps that fit on its instances."""
    fitting = (each for each in ladder if each.instances <= last.instances)
    return *(each for each in fitting if each.instances < last.instances or each.gpus < last.gpus), last


def walk_down(
    start: Steps, predict: Predictor, deadline_s: float, stopwatch: Stopwatch, *, skip: bool = False
) -> PricedChain:
    """Run the loop of Algorithm 2 from a warm start; return the last plan accepted. ``skip`` passes over late ones."""
    most_s = deadline_s * (1.0 + LIMIT_TOLERANCE)
    best, now = start, predict(start)
    while not stopwatch.expired:
        candidates = list_candidates(best)
        predictions = [predict(candidate) for candidate in candidates]
        if skip:
            kept = [number for number, each in enumerate(predictions) if each.seconds <= most_s]
            candidates, predictions = [candidates[number] for number in kept], [predictions[number] for number in kept]
        if not candidates:
            return now
        chosen = max(range(len(candidates)), key=lambda number: benefit(now, predictions[number]))
        if not saves(now, predictions[chosen]) or predictions[chosen].seconds > most_s:
            return now
        best, now = candidates[chosen], predictions[chosen]
        stopwatch.emit("greedy steps", objective=now.usd)
    return now


def list_candidates(steps: Steps) -> list[Steps]:
    """List the plans that differ from one by a step down in one stage, by stage; at the foot there is none."""
    return [(*steps[:stage], step - 1, *steps[stage + 1 :]) for stage, step in enumerate(steps) if step > 0]


def saves(now: PricedChain, candidate: PricedChain) -> bool:
    """Whether a candidate costs less than the plan it comes from."""
    return candidate.usd < now.usd * (1.0 - LEAST_SAVING)


def benefit(now: PricedChain, candidate: PricedChain) -> tuple[int, float]:
    """Return a candidate's cost-marginal benefit (1): cheaper and no slower, then dollars a second lost, then none."""
    saved, lost = now.usd - candidate.usd, candidate.seconds - now.seconds
    if not saves(now, candidate):
        return 0, saved
    return (1, saved / lost) if lost > 0.0 else (2, saved)


#: Executions that the sampled predictor averages; the paper's default is "small".
SAMPLES = 20
#: Sizes of the warm starts, in optimal static clusters (section 4.3).
WARM_STARTS = (1, 2, 3)

#: The allocations of one bracket, stage by stage.
Chain = tuple[StageAllocation, ...]
#: Says what a chain of an instance with one bracket takes and costs.
Judge = Callable[[RubberBandInstance, Chain], PricedChain]
#: Makes the ladders of the stages of an instance with one bracket, up to some instances.
LadderMaker = Callable[[RubberBandInstance, int], list[Ladder]]


def judge_chain(alone: RubberBandInstance, chain: Chain) -> PricedChain:
    """Have a chain of an instance with one bracket evaluated."""
    return PricedChain(chain, *expected_costs(alone, 0, chain))


@keep_both
def solve_greedy(instance: RubberBandInstance, request: SolveRequest) -> Answer[RubberBandSolution]:
    """Run Algorithm 2 as published: fair steps, driven by the sampled simulator, whose seed is the request's."""
    drawn: Drawn = {}

    def sample_chain(alone: RubberBandInstance, chain: Chain) -> PricedChain:
        solution = RubberBandSolution(brackets=(chain,))
        sampled = sample_plan(alone, solution, samples=SAMPLES, seed=request.seed, drawn=drawn)
        return PricedChain(chain, sampled.mean_s().value, sampled.mean_usd().value)

    return _run_greedy(instance, request, sample_chain, list_fair_ladders)


def list_static_chains(alone: RubberBandInstance) -> list[Chain]:
    """List the static clusters of an instance with one bracket, by size."""
    options = _list_options(alone)
    if not all(option.gpus.size for option in options):
        return []
    least = max(int(option.instances[0]) for option in options)
    counts = np.unique(np.concatenate([option.instances for option in options]))
    return [_hold(options, count) for count in counts[counts >= least].tolist()]


def _hold(options: list[StageOptions], instances: int) -> Chain:
    gpus = [int(option.gpus[_fastest_on(option, instances)]) for option in options]
    return StageAllocation.of_stages([instances] * len(gpus), gpus)


def list_naive_chains(alone: RubberBandInstance) -> list[Chain]:
    """List the plans of an instance with one bracket that give every trial the same GPUs throughout, by GPUs."""
    at_once = []
    for stage, option in zip(alone.brackets[0], _list_options(alone), strict=True):
        rows = np.flatnonzero(option.slots == stage.trials)
        allocations = StageAllocation.of_stages(option.instances[rows].tolist(), option.gpus[rows].tolist())
        at_once.append(dict(zip(option.gpus_per_trial[rows].tolist(), allocations, strict=True)))
    common = sorted(set.intersection(*(set(stage) for stage in at_once)))
    return [tuple(stage[each] for stage in at_once) for each in common]


def list_fair_ladders(alone: RubberBandInstance, most_instances: int) -> list[Ladder]:
    """Make the ladders of the paper's steps: every fair allocation on at most so many instances."""
    ladders = []
    for number, stage in enumerate(alone.brackets[0]):
        fair = np.sort(list_allowed(alone, stage.trials, AllocationRule.FAIR).gpus)
        gpus = fair[fair <= most_instances * alone.cloud.gpus_per_instance]
        instances = stage_options(alone, 0, number, gpus).instances if gpus.size else gpus
        ladders.append(StageAllocation.of_stages(instances.tolist(), gpus.tolist()))
    return ladders


def list_instance_ladders(alone: RubberBandInstance, most_instances: int) -> list[Ladder]:
    """Make ladders of whole instances, the fastest on each count that helps; per function all that is useful."""
    ladders = []
    for option in _list_options(alone):
        rows = np.flatnonzero(option.instances <= most_instances)
        if alone.cloud.is_per_instance:
            fastest = [_fastest_on(option, count) for count in np.unique(option.instances[rows]).tolist()]
            rows = np.unique(np.array(fastest, dtype=np.int64))
        ladders.append(StageAllocation.of_stages(option.instances[rows].tolist(), option.gpus[rows].tolist()))
    return ladders


def _list_options(alone: RubberBandInstance) -> list[StageOptions]:
    return [stage_options(alone, 0, stage) for stage in range(len(alone.brackets[0]))]


def _fastest_on(option: StageOptions, instances: int) -> int:
    """Return the row of the fastest allocation on some instances; of equal ones that which needs the fewest."""
    return int(option.expected_s[: np.searchsorted(option.instances, instances, side="right")].argmin())


def _answer(
    instance: RubberBandInstance,
    request: SolveRequest,
    list_chains: Callable[[RubberBandInstance], list[Chain]],
    what: str,
    stage: str,
) -> Answer[RubberBandSolution]:
    request.stopwatch.emit(stage)
    candidates = [[judge_chain(alone, chain) for chain in list_chains(alone)] for alone in isolate_brackets(instance)]
    chosen = choose_chains(instance, candidates)
    if chosen is None:
        return answer_without_plan(instance, request, what)
    solution = write_solution(chosen)
    return Answer(
        Status.FEASIBLE,
        Termination.COMPLETED,
        solution=solution,
        objective=evaluate(instance, solution).objective,
        counters={"plans": float(sum(len(listed) for listed in candidates))},
    )


def _run_greedy(
    instance: RubberBandInstance,
    request: SolveRequest,
    judge: Judge,
    make_ladders: LadderMaker,
    *,
    skip: bool = False,
) -> Answer[RubberBandSolution]:
    deadline_s = instance.limits[DEADLINE]
    found, plans = [], 0
    for alone in isolate_brackets(instance):
        best, judged = _plan_bracket(alone, deadline_s, request, judge, make_ladders, skip=skip)
        plans += judged
        if best is None:
            return answer_without_plan(instance, request, "static cluster to start from")
        found.append(best)
    solution = write_solution(found)
    evaluation = evaluate(instance, solution)
    counters = {"plans": float(plans)}
    if not all(check.holds for check in evaluation.checks):
        message = (
            f"the plan found takes {evaluation.consumption[DEADLINE]:.6g} s in expectation, more than the deadline of "
            f"{deadline_s:g} s; {SAMPLES} samples predicted {max(each.seconds for each in found):.6g} s"
        )
        return Answer(Status.UNKNOWN, _termination(request), counters=counters, warnings=(message,))
    return Answer(
        Status.FEASIBLE, _termination(request), solution=solution, objective=evaluation.objective, counters=counters
    )


def _plan_bracket(
    alone: RubberBandInstance,
    deadline_s: float,
    request: SolveRequest,
    judge: Judge,
    make_ladders: LadderMaker,
    *,
    skip: bool,
) -> tuple[PricedChain | None, int]:
    """Walk down from every warm start; return the cheapest plan by the judge, and how many plans were judged."""
    static = choose_chains(alone, [[judge(alone, chain) for chain in list_static_chains(alone)]])
    if static is None:
        return None, 0
    size, most = static[0].allocations[0].instances, alone.cloud.most_instances
    sizes = {factor * size if most is None else min(factor * size, most) for factor in WARM_STARTS}
    ladders, options = make_ladders(alone, max(sizes)), _list_options(alone)
    judged = {static[0].allocations: static[0]}  # so that no plan is judged twice

    def predict(some: Sequence[Ladder], steps: Steps) -> PricedChain:
        chain = tuple(ladder[step] for ladder, step in zip(some, steps, strict=True))
        return recall(judged, chain, lambda: judge(alone, chain))

    found = []
    for instances in sorted(sizes):
        start = static[0].allocations if instances == size else _hold(options, instances)
        own = [end_with(ladder, last) for ladder, last in zip(ladders, start, strict=True)]
        top = tuple(len(ladder) - 1 for ladder in own)
        found += [
            walk_down(steps, partial(predict, own), deadline_s, request.stopwatch, skip=skip)
            for steps in (top, tuple(max(step - 1, 0) for step in top))
            if predict(own, steps).seconds <= deadline_s * (1.0 + LIMIT_TOLERANCE)
        ]
    return min(found, key=lambda plan: plan.usd, default=None), len(judged)


def _termination(request: SolveRequest) -> Termination:
    return Termination.TIME_LIMIT if request.stopwatch.expired else Termination.COMPLETED


#: Algorithm 2 driven by the exact evaluator: with fair steps, and with steps that free whole instances.
solve_greedy_exact = keep_both(partial(_run_greedy, judge=judge_chain, make_ladders=list_fair_ladders))
solve_greedy_instances = keep_both(partial(_run_greedy, judge=judge_chain, make_ladders=list_instance_ladders))
#: The same, passing over candidates that break the deadline.
solve_greedy_skipping = keep_both(
    partial(_run_greedy, judge=judge_chain, make_ladders=list_instance_ladders, skip=True)
)

#: The best static cluster (section 3.2), and the best plan with one number of GPUs per trial throughout (section 6.3).
solve_static = keep_both(
    partial(_answer, list_chains=list_static_chains, what="static cluster", stage="static clusters")
)
_CONSTANT = "constant GPUs per trial"
solve_naive_elastic = keep_both(
    partial(_answer, list_chains=list_naive_chains, what=f"plan with {_CONSTANT}", stage=_CONSTANT)
)
