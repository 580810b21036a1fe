"""Sets and parameters of BOA's algebraic model, by the names of its sheet (the docstring of the module ``model``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from optplan.formulations.boa.data.instance import BoaInstance, Problem
from optplan.units import SECONDS_PER_HOUR


def add_data(model: Any, instance: BoaInstance) -> None:  # noqa: ANN401 - Pyomo has no types
    """Add sets and parameters to a Pyomo model, which has none yet; problem whole or rescaling."""
    import pyomo.environ as pyo

    classes, gpu_types = instance.classes, instance.gpu_types
    widths = {(i, h): _list_widths(instance, i, h) for i in classes for h in gpu_types}
    rows = [(i, j) for i, c in classes.items() for j in range(1, c.num_epochs + 1)]
    cells = [(i, j, h, k) for i, j in rows for h in gpu_types for k in widths[i, h]]
    model.CLASSES = pyo.Set(initialize=list(classes))
    model.EPOCHS = pyo.Set(model.CLASSES, initialize={i: range(1, c.num_epochs + 1) for i, c in classes.items()})
    model.TYPES = pyo.Set(initialize=list(gpu_types))
    model.WIDTHS = pyo.Set(model.CLASSES, model.TYPES, initialize=widths)
    model.CELLS = pyo.Set(dimen=4, initialize=cells)
    model.w = pyo.Param(model.CLASSES, initialize={i: c.weight for i, c in classes.items()})
    model.arrivals = pyo.Param(model.CLASSES, initialize={i: c.arrival_rate_per_hour for i, c in classes.items()})
    sizes = np.concatenate([c.epoch_size_gpu_hours for c in classes.values()])
    model.X = pyo.Param(rows, initialize=dict(zip(rows, sizes.tolist(), strict=True)))
    model.s = pyo.Param(model.CELLS, initialize=_list_speeds(instance, widths))
    held_at: dict[tuple[str, int], float] = {}
    wall_at: dict[tuple[str, int], float] = {}
    for (_, h), ks in widths.items():
        wall, held = gpu_types[h].stretch(np.array(ks, dtype=np.int64))
        wall_at |= {(h, k): float(factor) for k, factor in zip(ks, wall, strict=True)}
        held_at |= {(h, k): float(factor) for k, factor in zip(ks, held, strict=True)}
    model.wall = pyo.Param(list(wall_at), initialize=wall_at)
    model.held = pyo.Param(list(held_at), initialize=held_at)
    paid = {(h, k): gpus for i, h in widths for k, gpus in _list_paid(instance, i, h).items()}
    model.paid = pyo.Param(list(paid), initialize=paid)
    model.b = pyo.Param(initialize=instance.budget_amount())
    model.c = pyo.Param(model.TYPES, initialize=instance.prices_in_budget)
    model.q = pyo.Param(list(instance.quotas), initialize=instance.quotas)
    model.D = pyo.Param(list(instance.due_s), initialize=instance.due_s)
    model.f = pyo.Param(list(instance.floors), initialize=instance.floors)
    _add_pauses(model, instance)


def _add_pauses(model: Any, instance: BoaInstance) -> None:  # noqa: ANN401 - Pyomo has no types
    """Add what starts and changes take, and the sets of changes, for each class of one of two kinds."""
    import pyomo.environ as pyo

    classes, m = instance.classes, model
    hours = 1.0 / SECONDS_PER_HOUR if instance.problem is Problem.RESCALING else 0.0
    runs_on = {i: [h for h in m.TYPES if len(m.WIDTHS[i, h])] for i in m.CLASSES}
    r = {(i, h): hours * classes[i].rescale_s_of(h) for i in m.CLASSES for h in runs_on[i]}
    d = {
        (i, g, h): hours * classes[i].type_change_s_of(g, h) if g != h else 0.0
        for i in m.CLASSES
        for g in runs_on[i]
        for h in runs_on[i]
    }
    typed = {i for (i, _, _), extra in d.items() if extra > 0}
    later = [cell for cell in m.CELLS if cell[1] > 1] if hours else []
    kept = [cell for cell in later if cell[0] in typed]
    m.r = pyo.Param(list(r), initialize=r)
    m.d = pyo.Param(list(d), initialize=d)
    m.CHANGES = pyo.Set(dimen=4, initialize=[cell for cell in later if cell[0] not in typed])
    m.KEPT = pyo.Set(dimen=4, initialize=kept)
    m.TYPE_CHANGES = pyo.Set(dimen=5, initialize=[(i, j, g, h, k) for i, j, h, k in kept for g in runs_on[i]])


def _list_widths(instance: BoaInstance, name: str, gpu_type: str) -> list[int]:
    if gpu_type not in instance.classes[name].speedup:
        return []
    widths: list[int] = instance.allowed_widths(name, gpu_type).tolist()
    return widths


def _list_paid(instance: BoaInstance, name: str, gpu_type: str) -> dict[int, float]:
    options = instance.options(name)
    own = options.of_type(gpu_type)
    return dict(zip(options.widths[own].tolist(), options.paid[own].tolist(), strict=True))


def _list_speeds(
    instance: BoaInstance, widths: dict[tuple[str, str], list[int]]
) -> dict[tuple[str, int, str, int], float]:
    speeds: dict[tuple[str, int, str, int], float] = {}
    for (name, gpu_type), ks in widths.items():
        if ks:
            epochs = instance.classes[name].num_epochs
            table = np.broadcast_to(instance.speeds(name, gpu_type), (epochs, len(ks)))
            speeds |= {
                (name, j, gpu_type, k): speed
                for j, row in enumerate(table.tolist(), start=1)
                for k, speed in zip(ks, row, strict=True)
            }
    return speeds
