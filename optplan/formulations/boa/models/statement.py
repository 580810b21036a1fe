"""What users hold: the declarative model, of which decisions are read from its shares, and the layered graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optplan.errors import UnsupportedError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Policy, Problem
from optplan.formulations.boa.exact.costs import cost_steps
from optplan.formulations.boa.exact.feasibility import least_budget, raise_to_least
from optplan.formulations.boa.exact.paths import write_mixture
from optplan.formulations.boa.models.flows import Flow, Strand, list_strands, mix_strands
from optplan.formulations.boa.models.mixed_integer import build_pyomo_model, scale_model
from optplan.progress import Stopwatch
from optplan.solvers.layered_graphs import draw_layers
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.programs.statement import Statement, are_whole

if TYPE_CHECKING:
    from networkx import DiGraph


def state_model(instance: BoaInstance, *, stopwatch: Stopwatch | None = None) -> Statement:
    """State an instance with whole widths; the sheet is in :mod:`optplan.formulations.boa.models.mixed_integer`."""
    if instance.most_gpus is not None:
        message = "a limit on the GPUs in use at once (most_gpus) is a probability, which no linear model states"
        raise UnsupportedError(f"{message}; leave it out, and look at Result.demand of the plan")
    if instance.commits:
        message = "the bill of committed GPUs is a mean over the GPUs in use at once, which no linear model states"
        raise UnsupportedError(f"{message}; leave commitments out")
    if instance.problem is not Problem.CONTINUOUS:
        total, _ = least_budget(instance)
        if total <= instance.budget_amount() * (1.0 + LIMIT_TOLERANCE):
            instance = raise_to_least(instance)
    native = build_pyomo_model(instance, stopwatch=stopwatch)
    return Statement(
        native=native,
        read=lambda: _read(native, instance),
        choices=(native.x,),
        scaling=scale_model(native, instance),
        # In the rows of changes presolve finds next to nothing, takes minutes on large models and looks at no clock.
        presolve=instance.problem is not Problem.RESCALING,
    )


def read_choice(native: Any, instance: BoaInstance) -> list[list[Strand]] | None:  # noqa: ANN401 - Pyomo has no types
    """Read a path for each class, or of mixed plans the paths that the flow is made of."""
    flows = _read_flows(native, instance).values()
    if instance.policy is Policy.MIXED:
        return [list_strands(flow) for flow in flows]
    if not are_whole((native.x,)):
        return None
    return [[(1.0, flow.at.argmax(axis=1).tolist())] for flow in flows]


def _read(native: Any, instance: BoaInstance) -> BoaSolution | None:  # noqa: ANN401 - Pyomo has no types
    choice = read_choice(native, instance)
    return None if choice is None else write_mixture(instance, mix_strands(cost_steps(instance), choice))


def _read_flows(model: Any, instance: BoaInstance) -> dict[str, Flow]:  # noqa: ANN401 - Pyomo has no types
    """Read x class by class, and y and u where they are."""
    m, flows = model, {}
    typed = {i for i, *_ in m.KEPT}
    for i in instance.classes:
        types = [h for h in m.TYPES if len(m.WIDTHS[i, h])]
        pairs = [(h, k) for h in types for k in m.WIDTHS[i, h]]
        at = np.array([[m.x[i, j, h, k].value or 0.0 for h, k in pairs] for j in m.EPOCHS[i]])
        if i not in typed:
            flows[i] = Flow.of_shares(at)
            continue
        later = [j for j in m.EPOCHS[i] if j > 1]
        stay = np.array([[m.u[i, j, h, k].value or 0.0 for h, k in pairs] for j in later])
        enter = np.array([[[m.y[i, j, g, h, k].value or 0.0 for h, k in pairs] for g in types] for j in later])
        flows[i] = Flow(at, stay, enter, np.array([types.index(h) for h, _ in pairs]))
    return flows


def draw_graph(instance: BoaInstance) -> DiGraph:
    """Draw the graph of each class: ``value`` in seconds, ``budget``; nodes have ``gpus`` and ``gpu_type``."""
    if instance.problem is Problem.CONTINUOUS:
        raise UnsupportedError("the continuous problem has no layered graph: its widths are real numbers")
    return draw_layers((costs, _describe(instance, costs.name)) for costs in cost_steps(instance))


def _describe(instance: BoaInstance, name: str) -> list[dict[str, object]]:
    options = instance.options(name)
    types = (options.gpu_types[group] for group in options.group.tolist())
    return [{"gpus": k, "gpu_type": h} for k, h in zip(options.widths.tolist(), types, strict=True)]
