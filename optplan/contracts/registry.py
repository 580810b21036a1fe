"""What a formulation and a solver declare about themselves.

The declarations are light: they name their code as ``module:attribute`` and load it on use, so that listing every
solver loads none. The command line's choices, the conformance suite and the tables of the docs derive from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

from optplan.contracts.instance import Solution
from optplan.contracts.result import BoundProof, Result
from optplan.errors import UnsupportedError, UsageError, nearest_name_hint


def load(target: str) -> Any:  # noqa: ANN401 - the declared attribute may be anything
    """Import ``module:attribute``."""
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


@dataclass(frozen=True)
class SolverEntry:
    """One solver of one formulation.

    Parameters
    ----------
    name
        How users choose it; ``published`` is part of the name of a heuristic as its paper prints it.
    target
        ``module:function`` taking (instance, :class:`~optplan.contracts.SolveRequest`) and returning an Answer.
    summary
        One line for tables.
    proofs
        Everything that its bounds may rest on; empty where it has none, as most heuristics.
    problems
        Which of the formulation's problems it takes.
    policies
        Which kinds of plan it makes.
    exact
        Whether it closes the gap when given time.
    needs
        The importable package behind it; empty when it needs nothing beyond the core.
    max_cells
        Largest instance (in the formulation's own count of choices) it accepts; None for no limit.
    features
        What it can do beyond the plainest instances, in the formulation's own words.
    prices
        Whether every bound of it that rests on multipliers comes with shadow prices of all limits.
    """

    name: str
    target: str
    summary: str
    proofs: frozenset[BoundProof]
    problems: frozenset[str]
    policies: frozenset[str]
    exact: bool = True
    needs: str = ""
    max_cells: int | None = None
    features: frozenset[str] = frozenset()
    prices: bool = False

    def available(self) -> bool:
        """Whether the package behind the solver is installed; looks, does not load."""
        return not self.needs or find_spec(self.needs) is not None

    def refusal(self, problem: str, policy: str, cells: int, features: frozenset[str] = frozenset()) -> str | None:
        """Say why the solver cannot take an instance, or None when it can.

        Parameters
        ----------
        problem, policy
            What the instance asks for.
        cells
            Size of the instance in the formulation's count.
        features
            What the instance needs beyond the plainest ones.
        """
        if problem not in self.problems:
            return f"solver {self.name!r} does not solve the {problem!r} problem; it solves {_words(self.problems)}"
        if policy not in self.policies:
            return f"solver {self.name!r} makes no {policy!r} plans; it makes {_words(self.policies)}"
        if not features <= self.features:
            return f"solver {self.name!r} cannot handle {_words(features - self.features)}"
        if self.max_cells is not None and cells > self.max_cells:
            return f"solver {self.name!r} takes at most {self.max_cells} choices (this instance has {cells})"
        if not self.available():
            return f"solver {self.name!r} needs the package {self.needs!r}, which is not installed"
        return None


#: What users know the parts as that a formulation need not have.
_PARTS = {
    "build_frontier": "frontier of mixed plans",
    "build_pareto": "frontier of plans",
    "explain": "explanations",
    "analyse_sensitivity": "analysis of wrong estimates",
    "estimate_errors": "analysis of wrong estimates",
}


@dataclass(frozen=True)
class Formulation:
    """One paper's decision problem.

    Parts that are left empty are not there; asking for one raises UnsupportedError.

    Parameters
    ----------
    name
        Its folder's name and the value of the field ``formulation`` in files.
    title, reference
        For tables and docs.
    instance_type, solution_type, plan_type
        ``module:Class``.
    evaluate
        ``module:function`` (instance, solution) -> Evaluation: the independent judge.
    describe
        ``module:function`` (instance) -> dict with the keys problem, policy, cells, features: what solvers are matched
        against.
    build_plan
        ``module:function`` (instance, result, *, explanation) -> Plan.
    solvers
        In order of preference; the first that takes an instance is what ``auto`` means.
    proofs
        ``module:function`` (instance) -> frozenset of BoundProof: the kinds of certificate that prove anything about
        this instance, by its problem, policy and objective; the judge refuses all others.
    check_tree
        ``module:function`` (instance, certificate, stopwatch) -> None: the judge of TreeCertificate. It raises
        :class:`~optplan.contracts.judgement.RefutedError` unless the certificate proves its claim, whatever its
        content is, and calls ``stopwatch.require()`` in every long loop.
    dual_bound
        ``module:function`` (instance, multipliers) -> float: re-derives a Lagrangian bound, written apart from solvers.
    path_costs
        ``module:function`` (instance) -> list of PathCosts: what enumerated certificates are checked against.
    least_within
        ``module:function`` (instance, multipliers, allowance, stopwatch) -> float: the same where plans are no sums of
        paths; the least objective of the plans that keep the limits and lie within the allowance of the dual bound.
    least_consumption
        ``module:function`` (instance, weights) -> dict: by part, the least weighted consumption of any plan.
    build_frontier
        ``module:function`` (instance) -> Frontier.
    build_pareto
        ``module:function`` (instance, request) -> ParetoFrontier, where plans cannot be mixed.
    explain
        ``module:function`` (instance, result, *, only, time_limit_s, on_event) -> Explanation.
    analyse_sensitivity
        ``module:function`` (instance, solution, errors, *, samples, ...) -> Sensitivity.
    estimate_errors, sensitivity_type
        ``module:Class`` of those errors, and of what is found.
    """

    name: str
    title: str
    reference: str
    instance_type: str
    solution_type: str
    plan_type: str
    evaluate: str
    describe: str
    build_plan: str
    solvers: tuple[SolverEntry, ...]
    proofs: str
    check_tree: str = ""
    dual_bound: str = ""
    path_costs: str = ""
    least_within: str = ""
    least_consumption: str = ""
    build_frontier: str = ""
    build_pareto: str = ""
    explain: str = ""
    analyse_sensitivity: str = ""
    estimate_errors: str = ""
    sensitivity_type: str = ""

    def solver(self, name: str) -> SolverEntry:
        """Return the solver of that name.

        Raises
        ------
        UsageError
            When there is none.
        """
        for entry in self.solvers:
            if entry.name == name:
                return entry
        message = f"no solver {name!r} for {self.name}; {nearest_name_hint(name, [s.name for s in self.solvers])}"
        raise UsageError(message)

    def result_type(self) -> type[Result[Solution]]:
        """Return the class of this formulation's results, which knows how to read its solutions."""
        specialised: Any = Result.__class_getitem__(load(self.solution_type))
        return cast("type[Result[Solution]]", specialised)

    def loaded(self, part: str) -> Callable[..., Any]:
        """Load one of the declared parts by its field's name.

        Raises
        ------
        UnsupportedError
            When the formulation has no such part.
        """
        target = getattr(self, part)
        if not target:
            message = f"formulation {self.name!r} has no {_PARTS.get(part, part)}"
            raise UnsupportedError(message)
        part_loaded: Callable[..., Any] = load(target)
        return part_loaded


def _words(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))
