"""The width calculator: events and a clock in, estimates and a width table out. It reads no clock and writes no file.

The scheduler looks widths up and never waits for this (BOA, 5.2). The calculator takes what happened, keeps estimates
(:mod:`~optplan.execution.online.estimates`), solves again when something moved or the time has come, and says whether
the new table is worth publishing. All of it is a function of the instance, the terms, and the events with their times,
so that a state which was written down goes on as if nothing had happened.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import numpy as np

from optplan.contracts import Infeasibility, LagrangianCertificate, Result
from optplan.contracts.judgement import Evaluation
from optplan.errors import DataError, OptplanError
from optplan.execution.online.events import OnlineEvent
from optplan.execution.online.knowledge import Knowledge
from optplan.execution.online.looks import Look, Seen
from optplan.execution.online.probing import find_probing
from optplan.execution.online.terms import Terms
from optplan.execution.online.weighing import find_excess, rows_of, solution_of, weigh
from optplan.execution.online.width_table import WidthTable
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.judge.duality import dual_bound, least_consumption
from optplan.formulations.boa.judge.evaluation import share_evidence
from optplan.formulations.boa.planning import as_run
from optplan.schema import FrozenModel
from optplan.solving import solve
from optplan.speedup import Evidence
from optplan.units import Amount

#: What rounding may put a table above a limit that it was made for, relatively.
_ROUNDING = 1e-6
#: Least relative change of an estimate that is told.
_TOLD = 1e-3


class Verdict(StrEnum):
    """What became of a calculation."""

    PUBLISHED = "published"
    #: The present table stays: the new one gains too little.
    KEPT = "kept"
    #: No table keeps the limits; the present one stays.
    OVER_BUDGET = "over-budget"
    #: There is no plan; the present table stays.
    FAILED = "failed"


class Calculation(FrozenModel):
    """One calculation, and what became of it.

    ``at_s`` is in seconds since 1970; ``reason`` is why it was made, ``changes`` what had moved since the last one, in
    words. ``notes`` say why the table was kept, which classes are probed, or that a budget is too small. ``number`` is
    of the table that holds from now on, None before the first. ``mean_jct_s``, ``bound_s`` and ``gap`` are the new
    plan's; while classes are probed there is no bound, and the gap is that of the others. ``present_jct_s`` is what the
    table before promises under the same estimates; None where it breaks a limit or lacks a class. ``budget``,
    ``planned`` (what the table that holds takes) and ``needed`` (the least that carries the load, where the given one
    does not) are in ``unit``.
    """

    at_s: float
    verdict: Verdict
    reason: str
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    number: int | None = None
    mean_jct_s: float | None = None
    bound_s: float | None = None
    gap: float | None = None
    present_jct_s: float | None = None
    budget: float
    planned: float | None = None
    needed: float | None = None
    unit: str


class WidthCalculator:
    """Keeps estimates and the width table of one stream of jobs, from what an instance with a budget says at the start.

    ``now_s`` is in seconds since 1970; ``state`` is what :meth:`to_json_data` returned, to go on from: the instance and
    the terms may be others since. ``table`` is the published one, None before the first calculation.
    """

    def __init__(
        self, instance: BoaInstance, terms: Terms | None = None, *, now_s: float, state: Mapping[str, Any] | None = None
    ) -> None:
        instance.budget_amount()  # a budget is needed
        self.terms = terms if terms is not None else Terms()
        self.knowledge = Knowledge(instance, self.terms, now_s=now_s)
        self.table: WidthTable | None = None
        # Of each class: what was estimated when widths were last calculated, and the last look.
        self._seen: dict[str, Seen] = {}
        self._looks: dict[str, Look] = {}
        self._probed: dict[str, tuple[int, ...]] = {}
        self._solved_s = self._looked_s = -math.inf
        self._heard = True
        self._near: Result[BoaSolution] | None = None
        # Of the limits, as the last solve has found them: what proves that no table gains enough.
        self._multipliers: dict[str, float] = {}
        if state is not None:
            self._restore(state)

    def take(self, events: Iterable[OnlineEvent], now_s: float) -> list[DataError | None]:
        """Take what happened; return for each event why it is refused, None where it counts.

        Repetitions are to be left out before. A time before the last one means that clocks were set back, and that no
        time has passed.
        """
        self._heard = True
        return self.knowledge.take(events, now_s)

    def consider(self, now_s: float) -> Calculation | None:
        """Calculate widths where something moved or the time has come; None where there was no reason to."""
        self.knowledge.advance(now_s)
        first = self.table is None and math.isinf(self._solved_s)
        urgent = self.knowledge.urgent or ("the first calculation" if first else "")
        settling = self._solved_s <= now_s < self._solved_s + self.terms.settle_s
        looked = self._looked_s <= now_s < self._looked_s + self.terms.settle_s
        late = not self._solved_s <= now_s < self._solved_s + self.terms.every_s
        if settling or not (urgent or late or (self._heard and not looked)):
            return None
        self._looked_s, self._heard = now_s, False
        if not (urgent or late or self._can_have_moved()):
            return None
        instance, known = self.knowledge.estimate(), self.knowledge.known
        self._looks = {
            name: Look.at(instance, known.classes[name], name, estimate)
            for name, estimate in self.knowledge.classes.items()
        }
        seen = {name: each.seen for name, each in self._looks.items()}
        changes, moved = self._compare(seen)
        if not (urgent or late or moved):
            return None
        reason = urgent or ("something moved" if moved else f"{self.terms.every_s / 60.0:g} minutes have passed")
        self._seen, self.knowledge.urgent, self._solved_s = seen, "", now_s
        return self._calculate(instance, reason, changes)

    def calculate(self, now_s: float) -> Calculation:
        """Calculate widths now, whatever moved."""
        self.knowledge.urgent = self.knowledge.urgent or "asked for"
        self._solved_s = -math.inf
        made = self.consider(now_s)
        if made is None:  # excluded by what is urgent
            raise RuntimeError("no calculation was made")
        return made

    def _can_have_moved(self) -> bool:
        """Whether an estimate can have moved enough since the last calculation; cheaper than to estimate."""
        limit, knowledge = math.log1p(self.terms.move), self.knowledge
        for name, estimate in knowledge.classes.items():
            before, last = self._seen.get(name), self._looks.get(name)
            if before is None:  # it is new, and that is urgent
                continue
            if last is None or last.stated is not knowledge.known.classes[name]:
                return True
            if last.most_moved(before, knowledge.rate_per_hour(name), estimate) > limit:
                return True
        return False

    def _compare(self, seen: Mapping[str, Seen]) -> tuple[list[str], bool]:
        """Return what has changed since the last calculation, in words, and whether any of it moved enough."""
        changes, most = [], 0.0
        for name, now in seen.items():
            before = self._seen.get(name)
            if before is None:
                continue
            size, rate = (abs(math.log(new / old)) for new, old in zip(now[1::-1], before[1::-1], strict=True))
            speed = now.distance(before)
            most = max(most, size, rate, speed)
            words = [
                f"{what} {old:.4g} to {new:.4g} {unit}"
                for what, moved, old, new, unit in (
                    ("rate", rate, before.rate_per_hour, now.rate_per_hour, "an hour"),
                    ("size", size, before.size_gpu_hours, now.size_gpu_hours, "GPU-hours"),
                )
                if moved > _TOLD
            ]
            if speed > _TOLD:
                words.append("other widths" if math.isinf(speed) else f"speeds by up to {math.expm1(speed):.1%}")
            if words:
                changes.append(f"{name}: {', '.join(words)}")
        return changes, most > math.log1p(self.terms.move)

    def _calculate(self, instance: BoaInstance, reason: str, changes: list[str]) -> Calculation:
        """Solve, and publish the table where it keeps the limits and is worth it."""
        notes: list[str] = []
        probing = find_probing(instance, self.knowledge.classes, self.terms)
        unit = instance.budget_unit.value
        made = Calculation(
            at_s=self.knowledge.now_s,
            verdict=Verdict.FAILED,
            reason=reason,
            changes=tuple(changes),
            number=None if self.table is None else self.table.number,
            budget=instance.budget_amount(),
            unit=unit,
        )
        present = None if self.table is None else weigh(instance, solution_of(self.table))
        if present is not None and not math.isnan(present.objective):
            made = made.replace(present_jct_s=present.objective, planned=present.consumption[BUDGET])
            bound_s = None if probing.widths or self._probed else self._bound(instance, present)
            kept = "" if bound_s is None else self._keep(instance, bound_s, present, {}, at_most=" at most")
            if kept:
                return made.replace(verdict=Verdict.KEPT, bound_s=bound_s, notes=(kept,))
        try:
            solution, result = self._solve(instance, probing.branches, probing.part, notes)
        except OptplanError as error:  # of an engine, or a bug of ours: jobs keep their widths
            solution, result = None, None
            notes.append(str(error))
        new = None if solution is None else weigh(instance, solution)
        excess = None if new is None else find_excess(instance, new)
        if excess is not None and excess[1] > _ROUNDING:
            notes.append(f"a table was found that takes {excess[1]:.2%} more than the limit {excess[0]}")
            made = made.replace(verdict=Verdict.OVER_BUDGET)
        elif result is not None and result.infeasibility is not None:
            needed = _find_needed(instance, result.infeasibility, probing.part)
            made = made.replace(verdict=Verdict.OVER_BUDGET, needed=needed)
        if solution is None or new is None or made.verdict is Verdict.OVER_BUDGET:
            notes.append("there is no table yet" if self.table is None else f"table {self.table.number} stays")
            return made.replace(notes=tuple(notes))
        notes += [f"{name} is probed at {', '.join(map(str, at))} GPUs" for name, at in probing.widths.items()]
        assumed = share_evidence(instance, solution).get(Evidence.ASSUMED)
        notes += [] if assumed is None else [f"{assumed:.0%} of its GPUs rest on assumed speedups"]
        kept = self._keep(instance, new.objective, present, probing.widths)
        made = made.replace(
            mean_jct_s=new.objective,
            bound_s=None if result is None or probing.branches else result.bound,
            gap=None if result is None else result.gap,
        )
        if kept:
            return made.replace(verdict=Verdict.KEPT, notes=(*notes, kept))
        self._probed = probing.widths
        self.table = WidthTable(
            number=1 if self.table is None else self.table.number + 1,
            made_s=self.knowledge.now_s,
            gpu_types=tuple(instance.gpu_types),
            classes={name: rows_of(branches) for name, branches in solution.branches.items()},
            gpus=new.measures["gpus"],
            mean_jct_s=new.measures["mean_jct_s"],
        )
        return made.replace(
            verdict=Verdict.PUBLISHED, number=self.table.number, planned=new.consumption[BUDGET], notes=tuple(notes)
        )

    def _bound(self, instance: BoaInstance, present: Evaluation) -> float | None:
        """Return what no table is better than, by the last multipliers; None where it is not known that there is one.

        A solve costs ten times as much. Some table keeps the budget where the present one does, or where the widths
        that take least do; with further limits only the former is looked at.
        """
        if self._multipliers.keys() != set(instance.limit_names):
            return None
        if find_excess(instance, present) is not None:
            if instance.further_limits or instance.most_gpus is not None:
                return None
            if sum(least_consumption(instance, np.ones(1)).values()) > instance.budget_amount():
                return None
        return dual_bound(instance, self._multipliers)

    def _keep(
        self,
        instance: BoaInstance,
        new_s: float,
        present: Evaluation | None,
        probed: dict[str, tuple[int, ...]],
        at_most: str = "",
    ) -> str:
        """Return why the present table stays; empty where the new one is to be published."""
        if present is None or math.isnan(present.objective) or probed != self._probed:
            return ""
        least = self.terms.least_gain
        excess = find_excess(instance, present)
        if excess is not None and excess[1] > least:
            return ""
        gain = 1.0 - new_s / present.objective
        if gain >= least:
            return ""
        beyond = f"; it takes {excess[1]:.2%} more than the limit {excess[0]}" if excess is not None else ""
        return f"the table stays: a gain of{at_most} {max(gain, 0.0):.2%} is below {least:.2%}{beyond}"

    def _solve(
        self, instance: BoaInstance, probed: Mapping[str, tuple[Branch, ...]], part: float, notes: list[str]
    ) -> tuple[BoaSolution | None, Result[BoaSolution] | None]:
        """Find the widths of all classes that are not probed, with what these leave of the budget."""
        rest = {name: job_class for name, job_class in instance.classes.items() if name not in probed}
        if not rest:
            return BoaSolution(branches=dict(probed)), None
        budget = instance.budget
        if budget is None:  # excluded where the calculator begins
            raise RuntimeError("the instance has no budget")
        asked = instance.replace(classes=rest, budget=Amount(budget.value * (1.0 - part), budget.unit))
        result = solve(asked, gap=self.terms.gap, near=self._near)
        if result.infeasibility is not None:
            notes.append(f"the budget is too small: {result.infeasibility.reason}")
            return None, result
        if result.solution is None:
            notes.append(f"no plan was found: {result.status}")
            return None, result
        self._near = result
        proofs = [each for each in result.certificates if isinstance(each, LagrangianCertificate)]
        self._multipliers = dict(max(proofs, key=lambda each: each.bound).multipliers) if proofs else {}
        _, run = as_run(asked, result.solution)
        return BoaSolution(branches={name: probed.get(name) or run.branches[name] for name in instance.classes}), result

    def to_json_data(self) -> dict[str, Any]:
        """Return all that has to be written down, as plain data."""
        return {
            "knowledge": self.knowledge.to_json_data(),
            "solved_s": None if math.isinf(self._solved_s) else self._solved_s,
            "probed": {name: list(widths) for name, widths in self._probed.items()},
            "multipliers": self._multipliers,
            "seen": {name: seen._asdict() for name, seen in self._seen.items()},
            "table": None if self.table is None else self.table.to_json_data(),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.knowledge.restore(state["knowledge"])
        self._solved_s = -math.inf if state["solved_s"] is None else state["solved_s"]
        self._probed = {name: tuple(widths) for name, widths in state["probed"].items()}
        self._multipliers = dict(state["multipliers"])
        self._seen = {name: Seen(**seen) for name, seen in state["seen"].items()}
        self.table = None if state["table"] is None else WidthTable.parse(state["table"])


def _find_needed(instance: BoaInstance, infeasibility: Infeasibility, probed: float) -> float | None:
    """Return the least budget that carries the load beside what probing takes; None where the budget alone is no help.

    Both are in the unit that limits count in.
    """
    least = next((one.least_feasible for one in infeasibility.relaxations if one.limit == BUDGET), None)
    return None if least is None else instance.count_limit(BUDGET, least) + probed * instance.budget_amount()
