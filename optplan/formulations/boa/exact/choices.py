"""Problems (1) and (7) as independent choices for the sorted-slopes engine: a row per (class, epoch).

With one GPU type the options of a row are the widths, or a closed form over all real widths. With several types and no
quota they are all pairs of type and width together, whatever the type::

    minimise    sum p[i,j,o] rho[i,j] wall[o] / s[i,j,o]                     (weighted, seconds of mean completion time)
    subject to  sum p[i,j,o] rho[i,j] price[o] k[o] held[o] / s[i,j,o] <= b    (family ``budget``)
                sum over o of p[i,j,o] = 1,   p[i,j,o] >= 0                    (family ``fraction-sum``)

which is the paper's problem (7) on the lower-left hull of the union of all types' points: an option o is a type with a
width, ``p[i,j,o]`` the fraction of the jobs that run epoch j on it, ``wall`` and ``held`` what interruptions make of
time and GPU-time. An optimum has one option per row, except in one row, which divides its jobs between two.

Deviations: the paper has one width per type and a fraction per type; two widths of one type in the one divided row are
the same as a width between them. Widths have an upper limit here.

Classes with as many options share a block, so that the engine works on thousands of rows at a time however many classes
they belong to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optplan.errors import UnsupportedError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch, any_real_widths, has_real_widths
from optplan.formulations.boa.exact.costs import cost_options, load_of, state_curve
from optplan.formulations.boa.exact.paths import write_branch
from optplan.schema import FloatArray
from optplan.solvers import slopes

Choice = slopes.TableChoice | slopes.SmoothChoice


@dataclass(frozen=True, eq=False)
class StatedChoices:
    """Problem (1), or (7) without quotas, stated.

    Parameters
    ----------
    instance
        Whose problem it is.
    blocks
        Values in seconds of (weighted) mean completion time, consumption in ``instance.budget_unit``.
    places
        By class: the block, and the row of its first epoch in it.
    """

    instance: BoaInstance
    blocks: tuple[slopes.Block, ...]
    places: dict[str, tuple[int, int]]

    @property
    def any_smooth(self) -> bool:
        """Whether a class has a closed form, which makes the frontier curved."""
        return any(isinstance(block, slopes.SmoothBlock) for block in self.blocks)

    def write_solution(self, choices: tuple[Choice, ...]) -> BoaSolution:
        """Turn the engine's choices, one per block, into branches by class.

        With one type that is a row of real widths; otherwise rows of options, two where the class has a divided epoch.
        """
        branches: dict[str, tuple[Branch, ...]] = {}
        for name, (block, first) in self.places.items():
            rows = slice(first, first + self.instance.classes[name].num_epochs)
            choice = choices[block]
            if isinstance(choice, slopes.SmoothChoice):
                branches[name] = (Branch(widths=choice.width[rows]),)
            elif self.instance.is_typed:
                branches[name] = self._divide(name, choice, rows)
            else:
                branches[name] = (Branch(widths=self._real_widths(name, choice, rows)),)
        return BoaSolution(branches=branches)

    def _divide(self, name: str, choice: slopes.TableChoice, rows: slice) -> tuple[Branch, ...]:
        """Return the branches of a class's rows: one, or two with the fraction of its divided epoch."""
        lower, upper = choice.lower[rows].astype(np.int64), choice.upper[rows].astype(np.int64)
        share = float(choice.fraction[rows].max())
        parts = [(lower, 1.0 - share), (upper, share)]
        return tuple(write_branch(self.instance, name, columns, part) for columns, part in parts if part > 0.0)

    def _real_widths(self, name: str, choice: slopes.TableChoice, rows: slice) -> FloatArray:
        """Turn a class's rows of a choice into widths (E,): the GPU-hours of a mixture over its hours."""
        lower, upper, fraction = choice.lower[rows], choice.upper[rows], choice.fraction[rows]
        allowed = self.instance.allowed_widths(name)
        widths = allowed[lower].astype(float)
        mixed = np.flatnonzero(fraction)
        if mixed.size:
            speeds = np.broadcast_to(self.instance.speeds(name), (widths.size, allowed.size))
            hours_lower = (1.0 - fraction[mixed]) / speeds[mixed, lower[mixed]]
            hours_upper = fraction[mixed] / speeds[mixed, upper[mixed]]
            gpu_hours = hours_lower * widths[mixed] + hours_upper * allowed[upper[mixed]]
            widths[mixed] = gpu_hours / (hours_lower + hours_upper)
        return widths


@dataclass(frozen=True, eq=False)
class _TableGroup:
    """Classes with a table row of their own for each epoch, and as many options.

    Parameters
    ----------
    speeds, loads
        Per class: (E, K) speeds, (E,) loads in GPUs.
    uses, seconds
        Per class: (K,) consumption and value of an hour on an option.
    first
        (classes + 1,) Row of each class's first epoch.
    """

    speeds: tuple[FloatArray, ...]
    loads: tuple[FloatArray, ...]
    uses: tuple[FloatArray, ...]
    seconds: tuple[FloatArray, ...]
    first: FloatArray

    def make(self, start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        """Return consumption and value of the rows from ``start`` to before ``stop``."""
        consumption = np.empty((stop - start, self.uses[0].size))
        value = np.empty_like(consumption)
        at = int(np.searchsorted(self.first, start, side="right")) - 1
        while start < stop:
            offset = int(self.first[at])
            end = min(stop, int(self.first[at + 1]))
            rows, out = slice(start - offset, end - offset), slice(start - stop, end - stop or None)
            hours = self.loads[at][rows, None] / self.speeds[at][rows]
            np.multiply(hours, self.uses[at], out=consumption[out])
            np.multiply(hours, self.seconds[at], out=value[out])
            start, at = end, at + 1
        return consumption, value


def state_choices(instance: BoaInstance) -> StatedChoices:
    """State problem (1), or (7) without quotas: every (class, epoch) chooses an option, and may mix two.

    Parameters
    ----------
    instance
        Problem continuous; its limits are not looked at.

    Raises
    ------
    UnsupportedError
        When several types meet closed forms.
    """
    if instance.is_typed and any_real_widths(instance):
        message = "sorted slopes know closed forms for one GPU type only; solver 'typed-choices' takes several"
        raise UnsupportedError(message)
    blocks: list[slopes.Block] = []
    places: dict[str, tuple[int, int]] = {}
    grouped: dict[int, list[str]] = {}
    for name in instance.classes:
        options = instance.options(name)
        smooth = has_real_widths(instance, name, options.gpu_types[0])
        if not smooth and len(options.speeds) == instance.classes[name].num_epochs:
            grouped.setdefault(options.widths.size, []).append(name)
            continue
        places[name] = (len(blocks), 0)
        blocks.append(state_curve(instance, name, options.gpu_types[0]) if smooth else _state_shared(instance, name))
    for num_options, names in grouped.items():
        group = _group_tables(instance, names)
        places |= {name: (len(blocks), int(row)) for name, row in zip(names, group.first[:-1], strict=True)}
        blocks.append(slopes.LazyTableBlock(int(group.first[-1]), num_options, group.make))
    return StatedChoices(instance, tuple(blocks), {name: places[name] for name in instance.classes})


def _group_tables(instance: BoaInstance, names: list[str]) -> _TableGroup:
    hourly = [cost_options(instance, name) for name in names]
    loads = tuple(load_of(instance, name) for name in names)
    return _TableGroup(
        speeds=tuple(instance.options(name).speeds for name in names),
        loads=loads,
        uses=tuple(each.consumption[0] for each in hourly),
        seconds=tuple(each.seconds for each in hourly),
        first=np.concatenate(([0], np.cumsum([load.size for load in loads]))),
    )


def _state_shared(instance: BoaInstance, name: str) -> slopes.Block:
    """State a class with one table for all its epochs."""
    hourly, load = cost_options(instance, name), load_of(instance, name)
    hours = 1.0 / instance.options(name).speeds[0]
    return slopes.SharedTableBlock(hourly.consumption[0] * hours, hourly.seconds * hours, load, np.ones(load.size))
