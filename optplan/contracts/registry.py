"""What a formulation and a solver declare about themselves, naming their code so that listing them loads none."""

# ruff: noqa: RUF009 - a Part is a descriptor, not a default that records would share

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar, cast

from optplan.contracts import parts
from optplan.contracts.instance import Instance, Solution
from optplan.contracts.parts import Part, load
from optplan.contracts.result import BoundProof, Result
from optplan.errors import RegistrationWarning, UsageError, nearest_name_hint, show_value

if TYPE_CHECKING:
    from optplan.contracts.explanation import Explanation, Sensitivity, SensitivityRequest
    from optplan.contracts.frontier import Frontier, ParetoFrontier
    from optplan.contracts.judgement import Evaluation, PathCosts
    from optplan.contracts.plan import Plan
    from optplan.contracts.proofs import TreeCertificate
    from optplan.contracts.ranges import AnswerRange
    from optplan.contracts.result import SolveRequest
    from optplan.contracts.standing import Continuation, Solver, Standing
    from optplan.progress import Listener, Stopwatch
    from optplan.schema import FloatArray

#: What our own exact solvers prove by.
PROVEN = frozenset({BoundProof.LAGRANGIAN, BoundProof.ENUMERATED, BoundProof.TREE, BoundProof.SEARCHED})
#: What a name begins with, before a colon, that is no registered solver's: of a model that its user held (then the
#: engine), of a function that was given to ``solve``, and of decisions that came from anywhere.
OUTSIDE = ("model", "function", "decisions")
#: What every formulation has; the other parts need not be there.
REQUIRED_PARTS = ("instance_type", "solution_type", "plan_type", "evaluate", "describe", "build_plan", "proofs")
DeclaredT = TypeVar("DeclaredT")


@dataclass(frozen=True)
class SolverEntry:
    """One solver of one formulation."""

    name: str  #: How users choose it; ``published`` is part of the name of a heuristic as its paper prints it.
    target: str  #: ``module:function``, a :class:`~optplan.contracts.parts.Solve`.
    summary: str  #: One line for tables.
    problems: frozenset[str]  #: Of the formulation's, those that it takes.
    policies: frozenset[str]  #: Which kinds of plan it makes.
    proofs: frozenset[BoundProof] = frozenset()  #: All that bounds may rest on.
    exact: bool = True  #: Whether it closes the gap when given time.
    needs: str = ""  #: The importable package behind it; empty when it needs none.
    extra: str = ""  #: The extra of optplan that brings that package.
    max_cells: int | None = None  #: Largest instance, in the formulation's count of choices.
    features: frozenset[str] = frozenset()  #: Beyond the plainest instances, as the formulation calls it.
    prices: bool = False  #: Whether each bound by multipliers has shadow prices of all limits.
    #: ``module:function`` of an instance that fits all of the above: why it is not taken; empty when it is.
    supports: str = ""

    def load(self) -> parts.Solve:
        """Import the solver."""
        return cast(parts.Solve, load(self.target))

    def available(self) -> bool:
        """Whether the package behind the solver is installed; looks, does not load."""
        return not self.needs or find_spec(self.needs) is not None

    def refusal(self, instance: Instance, asked: parts.Description) -> str | None:
        """Say why the solver cannot take an instance, or None when it can."""
        if asked.problem not in self.problems:
            solves = _words(self.problems)
            return f"solver {self.name!r} does not solve the {asked.problem!r} problem; it solves {solves}"
        if asked.policy not in self.policies:
            return f"solver {self.name!r} makes no {asked.policy!r} plans; it makes {_words(self.policies)}"
        if not asked.features <= self.features:
            return f"solver {self.name!r} cannot handle {_words(asked.features - self.features)}"
        if self.max_cells is not None and asked.cells > self.max_cells:
            return f"solver {self.name!r} takes at most {self.max_cells} choices (this instance has {asked.cells})"
        if not self.available():
            way = f'; run: pip install "optplan[{self.extra}]"' if self.extra else ""
            return f"solver {self.name!r} needs the package {self.needs!r}, which is not installed{way}"
        if self.supports:
            return str(load(self.supports)(instance)) or None
        return None


def is_outside(solver: str) -> bool:
    """Whether the name that a result gives its solver is that of something outside the registry."""
    kind, _, name = solver.partition(":")
    return kind in OUTSIDE and bool(name)


@dataclass(frozen=True, eq=False, repr=False)
class Formulation:
    """One paper's decision problem; parts are ``module:attribute``, loaded on use, UnsupportedError where empty."""

    name: str  #: Its folder's, and the field ``formulation`` in files.
    title: str
    reference: str
    solvers: tuple[SolverEntry, ...]  #: In order of preference: the first that takes an instance is ``auto``.
    instance_type: Part[type[Instance]] = Part()
    solution_type: Part[type[Solution]] = Part()
    plan_type: Part[type[Plan]] = Part()
    #: The independent judge: objective, consumption and every constraint, from instance and decisions alone.
    evaluate: Part[Callable[[Any, Any], Evaluation]] = Part()
    describe: Part[Callable[[Any], parts.Description]] = Part()  #: What solvers are matched against.
    build_plan: Part[Callable[[Any, Result[Any]], Any]] = Part()  #: From a result with a solution to a plan.
    #: From a run that has not gone as planned to a plan for the rest, by an instance that says what was measured;
    #: UnsupportedError when the rest is none.
    continue_plan: Part[Callable[[Any, Any, Standing, Solver], Continuation]] = Part(
        "way to plan the rest of a run anew"
    )
    #: The same decisions, elsewhere: a plan with what its segments take under another instance's times and prices.
    retime: Part[Callable[[Any, Any], Plan]] = Part("way to time a plan anew")
    #: The plan's instance with what was measured, and a line for each change; UsageError without anything measured.
    calibrate: Part[Callable[[Any, Any, Standing], tuple[Instance, tuple[str, ...]]]] = Part(
        "way to write back what a run measured"
    )
    #: The kinds of certificate that prove anything about an instance, by its problem, policy and objective; the judge
    #: refuses all others.
    proofs: Part[Callable[[Any], frozenset[BoundProof]]] = Part()
    #: The solvers' forecast of how much is in use at once: figures by name, with the shares of the time in which more
    #: than some numbers are in use.
    forecast_demand: Part[Callable[[Any, Any, Sequence[float]], dict[str, float]]] = Part("forecast of demand")
    #: The judge's, of the same, by names, from the decisions alone; what there is not is left out. Both or neither.
    judge_demand: Part[Callable[[Any, Any, list[str]], dict[str, float]]] = Part("forecast of demand")
    #: How an answer changes within the stated errors of speedups, in at most some seconds; None where there are none.
    #: UnsupportedError where that cannot be told.
    find_range: Part[Callable[[Any, Any, float | None], AnswerRange | None]] = Part("range of an answer")
    #: The judge's instance of one truth, by its shifts; None where decisions are not what runs. ValueError where these
    #: are no shifts of its bands. All three, or none.
    judge_truth: Part[Callable[[Any, Mapping[str, Mapping[str, float]]], Any]] = Part("range of an answer")
    #: What a range has to be by its truths, and by the plans and multipliers that they carry.
    derive_range: Part[Callable[[Any, Any, AnswerRange], AnswerRange]] = Part("range of an answer")
    #: Shares of a solution's GPUs (without one: of the load) by where the speedups behind them come from: by the values
    #: of :class:`optplan.speedup.Evidence` and ``NOT_SAID``, adding up to one.
    share_evidence: Part[Callable[[Any, Any], dict[str, float]]] = Part("evidence of speedups")
    #: The judge of :class:`~optplan.contracts.TreeCertificate`: raises RefutedError unless one proves its claim; every
    #: long loop looks at the stopwatch. With this and the next four the judge derives certificates again.
    check_tree: Part[Callable[[Any, TreeCertificate, Stopwatch], None]] = Part()
    #: Re-derives a Lagrangian bound, apart from solvers: the dual function at multipliers of all limits.
    dual_bound: Part[Callable[[Any, dict[str, float], Stopwatch], float]] = Part()
    #: What enumerated certificates are checked against, where plans are sums of paths: what steps of graphs cost.
    path_costs: Part[Callable[[Any], list[PathCosts]]] = Part()
    #: The same elsewhere: the least objective of the plans that keep the limits, at multipliers by limit, within an
    #: allowance of the dual bound.
    least_within: Part[Callable[[Any, dict[str, float], float, Stopwatch], float]] = Part()
    #: What proves that limits cannot be kept: by part the least consumption, weighted (L,), of any plan.
    least_consumption: Part[Callable[[Any, FloatArray, Stopwatch], dict[str, float]]] = Part()
    #: The trade-off of mixed plans at all limits at once; out of time, only what is known by then.
    build_frontier: Part[Callable[[Any, Stopwatch], Frontier]] = Part("frontier of mixed plans")
    #: Where plans cannot be mixed: every plan that no other beats in both the limit and the objective.
    build_pareto: Part[Callable[[Any, SolveRequest], ParetoFrontier]] = Part("frontier of plans")
    #: Why a result is what it is: choices of some subjects (all if none) beside their neighbours, alone and, in at most
    #: some seconds each, with everything else re-solved; somebody may listen.
    explain: Part[Callable[[Any, Any, tuple[str, ...], float | None, Listener | None], Explanation]] = Part(
        "explanations"
    )
    #: What users hold: the declarative model, an ``optplan.solvers.programs.statement.Statement``, in Pyomo.
    state_model: Part[Callable[[Any], Any]] = Part("declarative model")
    state_convex_model: Part[Callable[[Any], Any]] = Part("model of its own in CVXPY")
    #: The layered graph of an instance, as a directed graph of networkx.
    draw_graph: Part[Callable[[Any], Any]] = Part("layered graph; those of boa and rubberband have one")
    #: What becomes of a solution under sampled errors, which ``estimate_errors`` makes.
    analyse_sensitivity: Part[Callable[[Any, Any, Any, SensitivityRequest], Sensitivity]] = Part(
        "analysis of wrong estimates"
    )
    estimate_errors: Part[Callable[..., object]] = Part("analysis of wrong estimates")
    sensitivity_type: Part[type[Sensitivity]] = Part("analysis of wrong estimates")
    #: What ``optplan bench NAME`` measures, without a suite; small ones when it has to be ``quick``.
    bench_instances: Part[Callable[..., Sequence[Instance]]] = Part("benchmark suite")
    keeps_instance: bool = False  #: Whether plans hold their instance although ``continue_plan`` is not there.

    def __post_init__(self) -> None:
        """Refuse a declaration without what every formulation has."""
        missing = [part for part in REQUIRED_PARTS if not self.declares(part)]
        if missing:
            raise UsageError(f"formulation {self.name!r} declares no {', '.join(missing)}")

    def declares(self, part: str) -> bool:
        """Whether a part is there, by its field's name; loads nothing."""
        return bool(vars(self)[part])

    def with_solvers(self, *more: SolverEntry) -> Formulation:
        """Return the same formulation with further solvers behind its own."""
        return Formulation(**{**vars(self), "solvers": (*self.solvers, *more)})

    def solver(self, name: str) -> SolverEntry:
        """Return the solver of that name."""
        for entry in self.solvers:
            if entry.name == name:
                return entry
        message = f"no solver {name!r} for {self.name}; {nearest_name_hint(name, [s.name for s in self.solvers])}"
        raise UsageError(message)

    def result_type(self) -> type[Result[Solution]]:
        """Return the class of this formulation's results, which knows how to read its solutions."""
        return _specialise_result(self.solution_type)


@cache  # pydantic forgets a class with its last record, and making it anew takes a good part of a small solve
def _specialise_result(solution_type: type[Solution]) -> type[Result[Solution]]:
    specialised: Any = Result.__class_getitem__(solution_type)
    return cast("type[Result[Solution]]", specialised)


def _words(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))


def list_entries(*groups: str) -> list[EntryPoint]:
    """Return what is registered in some groups, one group after the other, each by name."""
    registered = entry_points()  # once: it reads the metadata of every package that is installed
    return [each for group in groups for each in sorted(registered.select(group=group), key=lambda entry: entry.name)]


def load_entry(entry: EntryPoint, kind: type[DeclaredT]) -> DeclaredT | None:
    """Load what an entry point names; None, with a warning, when it is not what its group holds."""
    try:
        declared = entry.load()
    except Exception as error:  # noqa: BLE001 - whatever another package does, the others are there
        leave_out(entry, f"it cannot be loaded ({type(error).__name__}: {error})")
        return None
    if not isinstance(declared, kind):
        leave_out(entry, f"it is {show_value(declared)}, not a {kind.__name__}")
        return None
    return declared


def leave_out(entry: EntryPoint, why: str) -> None:
    """Warn that something which another package registers cannot be taken."""
    package = "another package" if entry.dist is None else entry.dist.name
    message = f"{package} registers {entry.name!r} in {entry.group} as {entry.value}, which is left out: {why}"
    warnings.warn(message, RegistrationWarning, stacklevel=4)
