"""BOA's declarative model as a statement that users hold: decisions are read from its shares."""

from __future__ import annotations

from typing import Any

import numpy as np

from optplan.errors import UnsupportedError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Policy, Problem
from optplan.formulations.boa.exact.costs import cost_steps
from optplan.formulations.boa.exact.feasibility import least_budget, raise_to_least
from optplan.formulations.boa.exact.paths import write_mixture
from optplan.formulations.boa.models.flows import Flow, Strand, list_strands, mix_strands
from optplan.formulations.boa.models.mixed_integer import build_pyomo_model, scale_model
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.programs.statement import Statement, are_whole


def state_model(instance: BoaInstance) -> Statement:
    """State an instance with whole widths; the sheet is in :mod:`optplan.formulations.boa.models.mixed_integer`.

    Raises
    ------
    UnsupportedError
        When the problem is the continuous one, or the GPUs in use at once are limited, which is no linear constraint.
    """
    if instance.most_gpus is not None:
        message = "a limit on the GPUs in use at once (most_gpus) is a probability, which no linear model states"
        raise UnsupportedError(f"{message}; leave it out, and look at Result.demand of the plan")
    if instance.problem is not Problem.CONTINUOUS:
        total, _ = least_budget(instance)
        if total <= instance.budget_amount() * (1.0 + LIMIT_TOLERANCE):
            instance = raise_to_least(instance)
    native = build_pyomo_model(instance)
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
