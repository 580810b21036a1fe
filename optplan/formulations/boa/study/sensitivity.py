"""How a plan fares when estimates are wrong (6.4, figure 8), and the plan that fares best on average.

The widths stay as planned, jobs run at their true speeds: completion times and what is used of the budget follow from
Lemma 4.8 with the true figures. Against each sample stands what a planner who knew the truth could have done with the
same use of the limits. The robust plan is the optimum of the mean over samples: values and consumptions of a path are
linear in the sampled inverse speeds, so it is the same problem with averaged costs, solved by the same engine (sample
average approximation: Kleywegt, Shapiro and Homem-de-Mello, SIAM Journal on Optimization 12, 2002).

Wrong estimates, sampled: what the true speedups, sizes and arrivals may be when the instance only estimates them.

Errors are factors, lognormal with mean 1 and a stated relative standard deviation, independent of one another and the
same in all epochs of a class:

* one of its arrival rate, and one of its sizes;
* one of how well it scales on each GPU type: nothing at the reference width, the stated size at the allowed width that
  is farthest from it (as a rule the widest), in between in proportion to the logarithm of the width and of opposite
  sign on the two sides of the reference width, as a wrong exponent does. With several types there is a second one, of
  the same size, of the speed of the whole type. Where no size is given, its bands say it
  (:mod:`~optplan.formulations.boa.laws.bands`): the shift within them is normal, in 9 of 10 cases between the ends,
  and stated speeds are the medians;
* one of the speed at each single width: what measurements have of noise.

Noise that is independent from width to width is the hardest case for a planner, and makes a planner who knew the truth
look best: there is always a width that happens to be quicker than it should be.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field

from optplan.contracts.explanation import SampledPlan, Sensitivity, SensitivityRequest
from optplan.contracts.judgement import Evaluation, PathCosts
from optplan.errors import (
    DataError,
    InfeasibleError,
    UnsupportedError,
    UsageError,
    VerificationError,
    nearest_name_hint,
)
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, BoaSolution, Policy
from optplan.formulations.boa.exact.costs import cost_steps, find_least, find_least_paths
from optplan.formulations.boa.exact.paths import PathsAnswer, solve_costs
from optplan.formulations.boa.judge.evaluation import TOLERANCE, evaluate
from optplan.formulations.boa.laws.bands import apply_speeds, find_bands
from optplan.formulations.boa.planning import as_run
from optplan.parallel import spread
from optplan.progress import Stopwatch
from optplan.schema import NUMBER, ByName, Fields, FloatArray, FrozenModel, Takes, usual
from optplan.speedup.curves import DEVIATIONS

_LARGEST_ERROR = 2.0
_Error = Annotated[float, Field(ge=0, le=_LARGEST_ERROR), NUMBER]


class ClassErrors(FrozenModel):
    """How wrong the estimates of one class may be; None for as wrong as those of all."""

    speedup: _Error | None = None
    noise: _Error | None = None
    size: _Error | None = None
    arrival: _Error | None = None


class EstimateErrors(FrozenModel):
    """How wrong estimates may be: relative standard deviations."""

    #: Of the speed at the allowed width of each GPU type that is farthest from the reference width; less at nearer
    #: ones, none at the reference width. With several types also of the speed of each whole type. None for as wrong as
    #: the bands of each class say, exact where there is none.
    speedup: _Error | None = None
    #: Of the speed at each single width, the reference width of an instance with one type excepted: its speed is 1 by
    #: definition.
    noise: _Error = 0.0
    size: _Error = 0.0  #: Of each class's epoch sizes, all by the same factor.
    arrival: _Error = 0.0  #: Of each class's arrival rate.
    #: Where those of a class are others, as of a class that a log has few jobs of (:func:`logged_errors`).
    by_class: Takes[ByName[ClassErrors], Mapping[str, ClassErrors | Fields]] = usual(Field(default_factory=dict))

    @property
    def are_zero(self) -> bool:
        """Whether no error is given, or all are zero."""
        own = (error for each in self.by_class.values() for error in each.to_json_data().values())
        return not (self.speedup or self.noise or self.size or self.arrival or any(own))

    def of(self, name: str) -> EstimateErrors:
        """Return the errors of one class."""
        own = self.by_class.get(name)
        return self if own is None else self.model_copy(update=own.to_json_data())


def logged_errors(instance: BoaInstance, *, without: Collection[str] = ()) -> dict[str, dict[str, float]]:
    """Return how wrong each class's ``arrival`` and ``size`` may be, as the log says, for ``EstimateErrors``."""
    found: dict[str, dict[str, float]] = {}
    for name, job_class in instance.classes.items():
        if (logged := job_class.logged) is not None:
            errors = {"arrival": logged.arrival_error, "size": logged.size_error}
            found[name] = {kind: error for kind, error in errors.items() if error and kind not in without}
    return {name: errors for name, errors in found.items() if errors}


def list_errors(instance: BoaInstance, errors: EstimateErrors) -> dict[str, dict[str, float]]:
    """Return the errors of single classes by kind; of a speedup that its bands say, that where the band is widest."""
    found = {name: each.to_json_data() for name, each in errors.by_class.items()}
    for name, band in find_bands(instance).items():
        if errors.of(name).speedup is None:
            deviation = float(band.width.max()) / 2.0 / DEVIATIONS
            found.setdefault(name, {})["speedup"] = math.sqrt(math.expm1(deviation**2))
    return found


@dataclass(frozen=True)
class ClassFactors:
    """Truth over estimate for one class: its rate, its sizes, and its speed at each option, (K,) or by epoch (E, K)."""

    arrival: float
    size: float
    speed: FloatArray


#: By class, in the order of the instance.
Factors = dict[str, ClassFactors]


def draw_factors(instance: BoaInstance, errors: EstimateErrors, *, seed: int, number: int) -> Factors:
    """Draw one sample: the same seed and number give the same one, whatever was drawn before or elsewhere."""
    rng = np.random.default_rng(np.random.SeedSequence((seed, number)))
    factors, bands = {}, find_bands(instance)
    for name, job_class in instance.classes.items():
        options, reference, own = instance.options(name), job_class.reference_width, errors.of(name)
        arrival, size = (float(_draw(rng, error, np.ones(1))[0]) for error in (own.arrival, own.size))
        speed = _draw(rng, own.noise, np.ones(options.widths.size), independent=True)
        if len(instance.gpu_types) == 1:
            speed[options.widths == reference] = 1.0
        shift = np.zeros(options.widths.size)
        for gpu_type in options.gpu_types:
            pairs = options.of_type(gpu_type)
            distance = np.log(options.widths[pairs] / reference)
            scaling = rng.standard_normal(1)
            shift[pairs] = scaling / DEVIATIONS
            speed[pairs] *= _scale(scaling, own.speedup or 0.0, distance / (np.abs(distance).max() or 1.0))
            if len(instance.gpu_types) > 1:
                speed[pairs] *= _draw(rng, own.speedup or 0.0, np.ones(1))
        if own.speedup is None and name in bands:
            speed = speed * bands[name].spread(shift)
        factors[name] = ClassFactors(arrival, size, speed)
    return factors


def _draw(rng: np.random.Generator, error: float, share: FloatArray, *, independent: bool = False) -> FloatArray:
    """Draw lognormal factors of mean 1; of their log-scale each gets a share. Numbers are drawn even for no error."""
    return _scale(rng.standard_normal(share.size if independent else 1), error, share)


def _scale(normal: FloatArray, error: float, share: FloatArray) -> FloatArray:
    """Make lognormal factors of mean 1 of standard normal numbers."""
    sigma = math.sqrt(math.log1p(error**2)) * share
    return np.asarray(np.exp(sigma * normal - sigma**2 / 2.0))


def apply_factors(instance: BoaInstance, factors: Factors) -> BoaInstance:
    """Return the instance as it truly is in a sample; speedups become tables, which have none of the real widths."""
    true = apply_speeds(instance, {name: drawn.speed for name, drawn in factors.items()})
    classes = {
        name: job_class.replace(
            arrival_rate_per_hour=job_class.arrival_rate_per_hour * factors[name].arrival,
            epoch_size_gpu_hours=job_class.epoch_size_gpu_hours * factors[name].size,
        )
        for name, job_class in true.classes.items()
    }
    return true.replace(classes=classes)


#: Samples that one task of a process pool takes: few enough for progress to move.
_CHUNK = 25
#: A robust plan uses at most so much more than the budget, relatively, in such a share of the samples.
_EXCESS, _SURE = 0.05, 0.95
#: By how much the budget is tightened at a time, and how often: to a third.
_TIGHTER, _STEPS = 0.95, 22
#: The parts of step costs that are averaged over samples.
_COSTS = ("run_value", "run_consumption", "enter_value", "enter_consumption")


class BoaSampledPlan(SampledPlan):
    """One plan, run under every sample of the truth."""

    solution: BoaSolution


class BoaSensitivity(Sensitivity):
    """How sensitive widths are to errors of the estimates."""

    plans: tuple[BoaSampledPlan, ...]  # the one asked about, then the robust one if there is one


#: A plan in one sample: what it amounts to, and what the best one of that truth does, if asked for.
_Sample: TypeAlias = tuple[Evaluation, float | None]


def analyse_sensitivity(
    instance: BoaInstance, solution: BoaSolution, errors: EstimateErrors, request: SensitivityRequest
) -> BoaSensitivity:
    """Run a plan under sampled truths.

    Of a continuous problem the whole widths that it is run as count; speedups of which ``errors`` says nothing are as
    wrong as their bands say.
    """
    if instance.floors:
        raise UnsupportedError(
            "sensitivity is of instances without floors only: what a class can run at most is another in each truth; "
            "leave least_mean_gpus out"
        )
    if without := instance.bound_by_law:
        raise UnsupportedError(
            f"sensitivity is of instances without {without} only: plans of other truths would not keep it; leave it out"
        )
    samples, seed = request.samples, request.seed
    for name in errors.by_class:
        if name not in instance.classes:
            raise DataError(f"by_class.{name}", "there is no such class", nearest_name_hint(name, instance.classes))
    if errors.are_zero and (errors.speedup is not None or not find_bands(instance)):
        problem = "there are no errors to sample: all are zero, and no speedup has a band"
        raise UsageError(f"{problem}; give at least one of speedup, noise, size and arrival, such as speedup 0.1")
    watch = Stopwatch(None, request.on_event)
    run_instance, run_solution = as_run(instance, solution)
    plans: list[tuple[str, BoaSolution, float | None]] = [("planned", run_solution, None)]
    if request.robust_samples:
        watch.emit("robust plan")
        robust = solve_robust(
            run_instance, errors, first=samples, samples=request.robust_samples, seed=seed, gap=request.gap
        )
        plans.append(("robust", robust.solution, robust.bound))
    sampled = []
    # A few samples at a time, so that events come as they are done.
    size = 1 if request.processes == 1 else _CHUNK
    chunks = {first: range(first, min(first + size, samples)) for first in range(0, samples, size)}
    asked = replace(request, on_event=None)  # listeners stay in this process
    for position, (name, plan, bound) in enumerate(plans):
        run = partial(_run_samples, run_instance, plan, errors, asked)
        done: dict[int, _Sample] = {}
        for first, chunk in spread(run, chunks, request.processes):
            done |= dict(enumerate(chunk, first))
            watch.emit(name, fraction=(position + len(done) / samples) / len(plans))
        in_order = [done[number] for number in range(samples)]
        sampled.append(_collect(name, plan, bound, evaluate(run_instance, plan), in_order))
    return BoaSensitivity(
        **instance.origin(),
        objective_unit="s",
        limits=instance.limits,
        limit_units={limit: instance.limit_unit(limit) for limit in instance.limit_names},
        errors=errors.model_dump(exclude={"by_class"}, exclude_none=True),
        errors_by_class=list_errors(instance, errors),
        samples=samples,
        robust_samples=request.robust_samples,
        seed=seed,
        plans=tuple(sampled),
        seconds=watch.elapsed_s,
    )


class RobustPlan(NamedTuple):
    """The plan that is best on average among those that are safe; objective and bound are means over the samples."""

    solution: BoaSolution
    objective: float
    bound: float  # of all plans that keep the limits on average, safe or not


def solve_robust(
    instance: BoaInstance, errors: EstimateErrors, *, first: int, samples: int, seed: int, gap: float = 1e-6
) -> RobustPlan:
    """Find a plan of least mean objective that keeps limits on average, and hardly exceeds the budget ever."""
    # A budget kept on average may be far exceeded in the one truth that there is: plans of less and less of it are
    # found, and taken is the best one that uses at most 1.05 budgets in 19 of 20 samples.

    def draw() -> Iterator[BoaInstance]:
        # Drawn again for each use: many samples of large tables are more than the memory of a laptop.
        for number in range(first, first + samples):
            yield apply_factors(instance, draw_factors(instance, errors, seed=seed, number=number))

    answers = _solve_tighter(instance, average_costs(map(cost_steps, draw()), samples), samples, gap)
    plans = [(answer.solution, answer.objective) for answer in answers if answer.solution is not None]
    judged = [[evaluate(sample, plan) for plan, _ in plans] for sample in draw()]
    used = np.array([[one.consumption[BUDGET] for one in each] for each in judged])
    safe = np.quantile(used, _SURE, axis=0, method="inverted_cdf") <= (1.0 + _EXCESS) * instance.limits[BUDGET]
    if not safe.any():
        message = (
            f"every plan tried exceeds the budget by more than {_EXCESS:.0%} in over {1.0 - _SURE:.0%} of {samples}"
        )
        raise InfeasibleError(f"{message} samples of the errors; raise the budget")
    taken = int(safe.argmax())  # with more of the budget nothing is worse
    (solution, objective), mean = plans[taken], float(np.mean([each[taken].objective for each in judged]))
    if objective is None or not abs(mean - objective) <= TOLERANCE * mean:
        message = f"robust plan: the engine's mean objective {objective!r} is {mean!r} by the evaluator"
        raise VerificationError(message)
    return RobustPlan(solution, mean, answers[0].bound)


def _solve_tighter(instance: BoaInstance, costs: list[PathCosts], samples: int, gap: float) -> list[PathsAnswer]:
    """Find the best plans within the limits, and within them and less and less of the budget, to the least."""
    limits = np.array(list(instance.limits.values()))
    answer = solve_costs(instance, costs, gap=gap)
    if answer is None:
        message = f"no plan keeps the limits on average over {samples} samples of the errors; raise the limits"
        raise InfeasibleError(message)
    if answer.solution is None:
        message = f"no plan was found that keeps the limits on average over {samples} samples, and none was excluded"
        raise UsageError(f"{message}; ask for a mixed plan, or raise the limits")
    weights = np.eye(len(limits))[0]
    needed = sum(find_least_paths(costs, weights).values())
    budgets = [limits[0] * _TIGHTER**step for step in range(1, _STEPS)]
    budgets = [budget for budget in budgets if budget > needed] + [needed * (1.0 + TOLERANCE)]
    tighter = [solve_costs(instance, costs, limits=np.array([each, *limits[1:]]), gap=gap) for each in budgets]
    return [answer, *(each for each in tighter if each is not None)]


def average_costs(samples: Iterator[list[PathCosts]], count: int) -> list[PathCosts]:
    """Average the step costs of each class over so many samples, at least one."""
    totals = next(samples)
    for graphs in samples:
        pairs = zip(totals, graphs, strict=True)
        totals = [replace(to, **{part: getattr(to, part) + getattr(own, part) for part in _COSTS}) for to, own in pairs]
    return [replace(total, **{part: getattr(total, part) / count for part in _COSTS}) for total in totals]


def _run_samples(
    instance: BoaInstance, solution: BoaSolution, errors: EstimateErrors, request: SensitivityRequest, numbers: range
) -> list[_Sample]:
    truths = (apply_factors(instance, draw_factors(instance, errors, seed=request.seed, number=n)) for n in numbers)
    judged = ((truth, evaluate(truth, solution)) for truth in truths)
    # Without its checks: nobody asks for them, and samples come from other processes.
    return [(replace(one, checks=()), _find_best(truth, one) if request.compare else None) for truth, one in judged]


def _find_best(truth: BoaInstance, judged: Evaluation) -> float:
    """Bound what a planner who knew the truth could do with what the plan uses of each limit, mixed plans included."""
    used, costs = np.array([judged.consumption[limit] for limit in truth.limit_names]), cost_steps(truth)
    found = solve_costs(truth.replace(policy=Policy.MIXED), costs, limits=used)
    # The plan itself keeps these limits. Should the engine deny that, by rounding, there is still what no use is below.
    bound = sum(find_least(truth, np.zeros(used.size)).values()) if found is None else found.bound
    return min(bound, judged.objective)


def _collect(
    name: str, solution: BoaSolution, bound: float | None, expected: Evaluation, samples: list[_Sample]
) -> BoaSampledPlan:
    judged, best = [sample for sample, _ in samples], [least for _, least in samples]
    costs = [each.measures.get("cost_usd_per_hour") for each in judged]
    return BoaSampledPlan(
        name=name,
        expected_objective=expected.objective,
        expected_consumption=expected.consumption,
        objective=np.array([each.objective for each in judged]),
        consumption={limit: np.array([each.consumption[limit] for each in judged]) for limit in expected.consumption},
        cost_usd_per_hour=None if None in costs else np.array(costs),
        best_objective=None if None in best else np.array(best),
        solution=solution,
        bound=bound,
    )
