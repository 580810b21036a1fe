"""The width calculator: events and a clock in, estimates and a width table out. It reads no clock and writes no file.

The scheduler looks widths up and never waits for this (BOA, 5.2). The calculator takes what happened, keeps estimates
(:mod:`~optplan.execution.online.estimates`), solves again when something moved or the time has come, and says whether
the new table is worth publishing. All of it is a function of the instance, the terms, and the events with their times,
so that a state which was written down goes on as if nothing had happened.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from optplan.contracts import LagrangianCertificate, Result
from optplan.errors import DataError, OptplanError
from optplan.execution.online.estimates import find_probing
from optplan.execution.online.fields import Hold
from optplan.execution.online.knowledge import Knowledge, read_state, write_state
from optplan.execution.online.ledger import TOO_SMALL, Ledger, PriceLine
from optplan.execution.online.looks import Graph, Look, Seen, tell_changes
from optplan.execution.online.messages import (
    Arrival,
    Calculation,
    Completion,
    Measurement,
    NodeStart,
    OnlineEvent,
    Terms,
    Verdict,
    find_excess,
    say_kept,
)
from optplan.execution.online.width_table import WidthTable, rows_of, weigh
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, BoaSolution, Branch, Problem
from optplan.formulations.boa.judge.evaluation import share_evidence
from optplan.formulations.boa.planning import as_run
from optplan.solving import frontier, solve
from optplan.speedup import Evidence
from optplan.units import Amount

#: What is written down besides what is known, by attribute.
_WRITTEN = {
    "table": WidthTable | None,
    "ledger": Ledger,
    "_line": PriceLine | None,
    "_seen": dict[str, Seen],
    "_looks": dict[str, Look],
    "_probed": dict[str, tuple[int, ...]],
    "_solved_s": float,
    "_prices": dict[str, float],
}
#: When nothing was done that was never done: long before all moments.
_NEVER_S = -1e300
#: What rounding may put a table above a limit that it was made for, relatively.
_ROUNDING = 1e-6
#: Which part of the budget a queue is to take on the narrowest widths: a little is left to choose from.
_FILLED = 0.98


class WidthCalculator:
    """Keeps estimates and the width table of one stream of jobs, from what an instance with a budget says at the start.

    ``now_s`` is in seconds since 1970; ``state`` is what :meth:`to_json_data` returned, to go on from: the instance and
    the terms may be others since. ``table`` is the published one, None before the first calculation. Where there are
    ``most_gpus`` and no more, the budget is at most that of all of them.
    """

    def __init__(
        self,
        instance: BoaInstance,
        terms: Terms | None = None,
        *,
        now_s: float,
        state: Mapping[str, Any] | None = None,
        most_gpus: float = math.inf,
    ) -> None:
        budget = instance.budget_amount()  # it is needed
        self.is_limited = math.isfinite(most_gpus)
        if self.is_limited:
            most = most_gpus * max(instance.prices_on_demand.values())
            instance = instance.replace(budget=Amount(min(budget, most), instance.budget_unit))
        if not instance.bound_by_law:  # else nothing here asks how many GPUs are in use at which hour
            classes = {name: each.replace(arrivals=None) for name, each in instance.classes.items()}
            instance = instance.replace(classes=classes)
        self.terms = terms if terms is not None else Terms()
        self.knowledge = Knowledge(instance, self.terms, now_s=now_s)
        self.knowledge.urgent = "the first calculation"
        self.ledger = Ledger(now_s, now_s, instance.budget_amount(), self.terms.hold_budget)
        # What each multiplier spends, as it was when widths were last solved for; None where it has to be asked anew.
        self._line: PriceLine | None = None
        self.table: WidthTable | None = None
        # Of each class: what was estimated when widths were last calculated, and the last look.
        self._seen: dict[str, Seen] = {}
        self._looks: dict[str, Look] = {}
        self._probed: dict[str, tuple[int, ...]] = {}
        self._solved_s = self._looked_s = _NEVER_S
        self._near: Result[BoaSolution] | None = None
        # By class: what each step of the way of a job of the stated size costs, with the speeds looked at.
        self._graphs: dict[str, Graph] = {}
        # By limit, as the last solve has found them: seconds of all jobs of an hour that one more of it is worth.
        self._prices: dict[str, float] = {}
        # Whether all that is limited are sums over classes, and widths are whole.
        is_whole = instance.problem is not Problem.CONTINUOUS and not instance.bound_by_law
        self._is_linear = is_whole and not (instance.due_s or instance.floors)
        # Whether widths that are made for another budget keep whatever else is limited, as far as any do.
        self._can_hold = not (instance.due_s or instance.floors or instance.most_gpus)
        if state is not None:
            read_state(self, _WRITTEN, state)
            if self.knowledge.restore(state["knowledge"]):
                self._line, self._looks = None, {}
            # Another budget, or way to hold it, counts from now on; the amount that is owed stays.
            self.ledger.budget, self.ledger.hold = instance.budget_amount(), self.terms.hold_budget

    def take(self, events: Iterable[OnlineEvent], now_s: float) -> list[DataError | None]:
        """Take what happened; return for each event why it is refused, None where it counts.

        Repetitions are to be left out before. A time before the last one means that clocks were set back, and that no
        time has passed.
        """
        told = list(events)
        refused = self.knowledge.take(told, now_s)
        for event, why in zip(told, refused, strict=True):
            if why is None and not isinstance(event, Measurement):
                self._book(event, now_s if event.at_s is None else min(event.at_s, now_s))
        self.ledger.advance(now_s)
        return refused

    def expect(self, name: str) -> float | None:
        """Return what a job will take of the budget by the present table, in its unit times hours; None: not known."""
        if name not in self.knowledge.classes:
            return None
        look = self._looks.get(name) or self._look(name)
        return look.bound(look.taken[1])[1] if look.taken else look.bound_needs()[0]

    def _book(self, event: OnlineEvent, at_s: float) -> None:
        """Enter what happened into the ledger; jobs that came before it was begun are no part of it."""
        ledger = self.ledger
        ledger.advance(at_s)
        if isinstance(event, Arrival) and at_s >= ledger.began_s:
            committed = self.expect(event.job_class) if event.committed is None else event.committed
            ledger.admit(event.job_class, committed or 0.0)
        elif isinstance(event, Completion):
            ledger.settle(event.job_class, self.knowledge.count_held(event.held or event.ran))
        elif isinstance(event, NodeStart):
            ledger.pay(self.knowledge.count_held([event]))

    def consider(self, now_s: float, *, waiting: bool = False) -> Calculation | None:
        """Calculate widths where something moved or the time has come; None where there was no reason to.

        ``waiting`` says that jobs wait, as there are no more GPUs: then those that are there count as load.
        """
        knowledge, terms, solved_s = self.knowledge, self.terms, self._solved_s
        if solved_s <= now_s < solved_s + terms.settle_s:
            return None
        urgent = knowledge.urgent
        late = not solved_s <= now_s < solved_s + terms.every_s
        rests = self._looked_s <= now_s < self._looked_s + terms.settle_s
        if not (urgent or late or (knowledge.heard and not rests)):
            return None
        knowledge.advance(now_s)
        # What nobody heard of has been forgotten a little, at most: that is for when it is time anyway.
        moved = self._find_moved(knowledge.heard)
        self._looked_s, knowledge.heard = now_s, {}
        if not (urgent or late or moved):
            return None
        self.knowledge.queued = self._load_queue() if waiting else {}
        moved = self._find_moved(self.knowledge.classes) or moved
        seen = {name: look.seen(self.knowledge.rate_per_hour(name)) for name, look in self._looks.items()}
        changes = tell_changes(seen, self._seen)
        reason = urgent or ("something moved" if moved else f"{self.terms.every_s / 60.0:g} minutes have passed")
        self._seen, self.knowledge.urgent, self._solved_s = seen, "", now_s
        return self._calculate(reason, changes)

    @property
    def due_s(self) -> float:
        """When widths are to be calculated again whatever happens."""
        return self._solved_s + max(self.terms.every_s, self.terms.settle_s)

    def _load_queue(self) -> dict[str, float]:
        """Return the rates at which the jobs that are there count: each as one GPU, as far as the budget carries them.

        So widths are the narrowest while there are more jobs than GPUs, and grow when the queue has become short.
        """
        knowledge, rates, load = self.knowledge, dict[str, float](), 0.0
        knowledge.queued = {}
        for name, (count, _) in self.ledger.open_jobs.items():
            if name in self._looks and name in knowledge.classes:
                look = self._looks[name]
                rates[name] = max(knowledge.rate_per_hour(name), count / (look.size_gpu_hours * look.factor))
                load += rates[name] * look.needs * look.factor
        most = min(1.0, _FILLED * knowledge.known.budget_amount() / load) if load else 1.0
        return {name: most * rate for name, rate in rates.items()}

    def _look(self, name: str) -> Look:
        """Look at a class anew."""
        look, known, estimate = self._looks.get(name), self.knowledge.known, self.knowledge.classes[name]
        if look is not None and look.changes == estimate.changes and not look.drift:  # jobs are larger by the factor
            look.size_gpu_hours, look.factor = look.size_gpu_hours * look.factor, 1.0
        else:
            job_class = self.knowledge.estimate_class(name)
            graph = self._graphs[name] = Graph.of(known, name, job_class)
            look = self._looks[name] = Look.at(graph, job_class, estimate)
        self._weigh(name)
        return look

    def _weigh(self, name: str) -> None:
        """Weigh the jobs of a class, as they were looked at, under the present table and prices."""
        known = self.knowledge.known
        rows, only = () if self.table is None else self.table.classes.get(name, ()), next(iter(known.gpu_types))
        prices = [self._prices.get(limit) for limit in known.limit_names]
        look, weight = self._looks[name], known.classes[name].weight
        fair = None if None in prices or not weight else np.array(prices, dtype=float) / weight
        if name not in self._graphs:  # a state was read, and no speed has moved since
            self._graphs[name] = Graph.of(known, name, self.knowledge.estimate_class(name))
        factor = look.size_gpu_hours / known.classes[name].size_gpu_hours
        look.weigh(self._graphs[name].resize(factor), rows, only, fair)

    def _find_moved(self, names: Iterable[str]) -> bool:
        """Whether an estimate has moved enough since the last calculation; looks anew where it may have."""
        limit, knowledge, moved = math.log1p(self.terms.move), self.knowledge, False
        stated, looks = knowledge.known.classes, self._looks
        for name in looks.keys() - stated.keys():
            del looks[name]
        for name in names:
            if name not in stated:
                continue
            estimate, look, before = knowledge.classes[name], looks.get(name), self._seen.get(name)
            if look is None or not look.follow(stated[name], estimate):
                look = self._look(name)
            if before is None:  # it is new, and that is urgent
                continue
            rate = knowledge.rate_per_hour(name)
            most = look.seen(rate).find_moved(before) + look.drift
            if most > limit and look.drift:
                most = self._look(name).seen(rate).find_moved(before)
            moved = moved or most > limit
        return moved

    def _find_followed(self) -> float:
        """Return the budget that widths are made for: what is spent at the multiplier that holds the given one."""
        return self.ledger.budget if self._line is None else self._line.budget_at(self.ledger.shift)

    def _calculate(self, reason: str, changes: list[str]) -> Calculation:
        """Keep the table where that is proven right; else solve, and publish the new one where it is worth it."""
        knowledge = self.knowledge
        self.ledger.advance(knowledge.now_s)
        followed, probed, part, found = self._find_followed(), dict[str, tuple[Branch, ...]](), 0.0, None
        if any(each.is_new for each in knowledge.classes.values()):
            probed, part = find_probing(knowledge.estimate(), knowledge.classes, self.terms)
        if self._is_linear and not probed and not self._probed:
            found = self._prove(followed)
            if found is None and (moved := [name for name, look in self._looks.items() if not look.is_exact]):
                for name in moved:
                    self._look(name)
                found = self._prove(followed)
        if found is None:
            found = self._replace(knowledge.estimate(), probed, part)
        return Calculation(
            at_s=knowledge.now_s,
            reason=reason,
            changes=tuple(changes),
            number=None if self.table is None else self.table.number,
            budget=knowledge.known.budget_amount(),
            debt_h=self.ledger.debt_h,
            unit=knowledge.known.budget_unit.value,
            **{"followed": followed, **found},
        )

    def _prove(self, followed: float) -> dict[str, Any] | None:
        """Return what sums over the classes prove: that no widths keep the budget, or that none gain enough.

        The latter is Lagrange's bound at the last prices, which move with the weighted rate that means are divided by.
        """
        known, given = self.knowledge.known, self.knowledge.known.budget_amount()
        limits = {**known.limits, BUDGET: followed or given}
        total = seconds = least = least_needs = most_needs = 0.0
        takes = dict.fromkeys(limits, 0.0)
        fits = bool(self._prices) and self.table is not None and self.table.classes.keys() == self._looks.keys()
        for name, look in self._looks.items():
            rate, needs = self.knowledge.rate_per_hour(name), look.bound_needs()
            weighted = rate * known.classes[name].weight
            total += weighted
            least_needs, most_needs = least_needs + rate * needs[0], most_needs + rate * needs[1]
            fits = fits and bool(look.taken and look.least)
            if fits:
                one_s, *each = (look.bound(ends)[1] for ends in look.taken)
                seconds, least = seconds + weighted * one_s, least + weighted * look.bound(look.least)[0]
                for limit, amount in zip(limits, each, strict=True):
                    takes[limit] += rate * amount
        present = {"present_jct_s": seconds / total, "planned": takes[BUDGET]} if fits else {}
        if least_needs > given * (1.0 + _ROUNDING) and not known.further_limits:
            needed = f"these arrivals need {most_needs:.4g} {known.budget_unit.value}, and {given:.4g} are given"
            notes = (f"{TOO_SMALL}: {needed}", self._say_what_stays())
            return {"verdict": Verdict.OVER_BUDGET, "needed": most_needs, "notes": notes, **present}
        excess = find_excess(limits, takes) if fits else None
        some_fit = excess is None or (not known.further_limits and most_needs <= limits[BUDGET])
        if not (fits and some_fit):
            return None
        bound_s = (least - sum(self._prices[limit] * amount for limit, amount in limits.items())) / total
        kept = say_kept(bound_s, seconds / total, excess, self.terms.least_gain, at_most=" at most")
        return {"verdict": Verdict.KEPT, "bound_s": bound_s, "notes": (kept,), **present} if kept else None

    def _say_what_stays(self) -> str:
        return "there is no table yet" if self.table is None else f"table {self.table.number} stays"

    def _replace(self, instance: BoaInstance, probed: Mapping[str, tuple[Branch, ...]], part: float) -> dict[str, Any]:
        """Solve, and publish the table where it keeps the limits and is worth it; return what is to be said of it."""
        notes, given, unit = list[str](), instance.budget_amount(), instance.budget_unit
        holds = self._can_hold and self.ledger.hold is not Hold.NO
        self._line = PriceLine.of(frontier(instance), given) if holds else None
        followed = given if probed else self._find_followed()
        if followed != given:
            instance = instance.replace(budget=Amount(followed, unit))
            debt_h = self.ledger.debt_h
            owed = f"{abs(debt_h):.3g} hours of the budget {'are committed too much' if debt_h > 0 else 'are left'}"
            notes.append(f"widths are made for {followed:.4g} {unit.value}, as {owed}")
        said: dict[str, Any] = {"followed": followed, "verdict": Verdict.FAILED}
        present, excess = None if self.table is None else weigh(instance, self.table.solution), None
        if present is not None and not math.isnan(present.objective):
            said |= {"present_jct_s": present.objective, "planned": present.consumption[BUDGET]}
            excess = find_excess(instance.limits, present.consumption)
        try:
            solution, result = self._solve(instance, probed, part)
        except OptplanError as error:  # of an engine, or a bug of ours: jobs keep their widths
            solution, result = None, None
            notes.append(str(error))
        new = None if solution is None else weigh(instance, solution)
        beyond = None if new is None else find_excess(instance.limits, new.consumption)
        if beyond is not None and beyond[1] > _ROUNDING:
            notes.append(f"a table was found that takes {beyond[1]:.2%} more than the limit {beyond[0]}")
            said["verdict"] = Verdict.OVER_BUDGET
        elif result is not None and (proof := result.infeasibility) is not None:
            notes.append(f"{TOO_SMALL}: {proof.reason}")
            least = [one.least_feasible for one in proof.relaxations if one.limit == BUDGET]
            if least:  # else the budget alone is no help
                said["needed"] = instance.count_limit(BUDGET, least[0]) + part * given
            said["verdict"] = Verdict.OVER_BUDGET
        elif result is not None and solution is None:
            notes.append(f"no plan was found: {result.status}")
        if solution is None or new is None or said["verdict"] is Verdict.OVER_BUDGET:
            return {**said, "notes": (*notes, self._say_what_stays())}
        widths = {name: tuple(int(row.widths[0]) for row in rows) for name, rows in probed.items()}
        notes += [f"{name} is probed at {', '.join(map(str, at))} GPUs" for name, at in widths.items()]
        assumed = share_evidence(instance, solution).get(Evidence.ASSUMED)
        notes += [] if assumed is None else [f"{assumed:.0%} of its GPUs rest on assumed speedups"]
        present_s = said.get("present_jct_s") if widths == self._probed else None
        kept = say_kept(new.objective, present_s, excess, self.terms.least_gain)
        if not kept:
            self._probed = widths
            self.table = WidthTable(
                number=1 if self.table is None else self.table.number + 1,
                made_s=self.knowledge.now_s,
                gpu_types=tuple(instance.gpu_types),
                classes={name: rows_of(branches) for name, branches in solution.branches.items()},
                gpus=new.measures["gpus"],
                mean_jct_s=new.measures["mean_jct_s"],
            )
            said["planned"] = new.consumption[BUDGET]
        for name in self._looks:
            self._weigh(name)
        return {
            **said,
            "verdict": Verdict.KEPT if kept else Verdict.PUBLISHED,
            "mean_jct_s": new.objective,
            "bound_s": None if result is None or probed else result.bound,
            "gap": None if result is None else result.gap,
            "notes": (*notes, kept) if kept else tuple(notes),
        }

    def _solve(
        self, instance: BoaInstance, probed: Mapping[str, tuple[Branch, ...]], part: float
    ) -> tuple[BoaSolution | None, Result[BoaSolution] | None]:
        """Find the widths of all classes that are not probed, with what these leave of the budget."""
        asked = instance
        if probed:
            rest = {name: job_class for name, job_class in instance.classes.items() if name not in probed}
            if not rest:
                return BoaSolution(branches=dict(probed)), None
            budget = Amount(instance.budget_amount() * (1.0 - part), instance.budget_unit)
            asked = instance.replace(classes=rest, budget=budget)
        result = solve(asked, gap=self.terms.gap, ranges=False, near=self._near)
        if result.solution is None:
            return None, result
        self._near = result
        proofs = [each for each in result.certificates if isinstance(each, LagrangianCertificate)]
        multipliers = max(proofs, key=lambda each: each.bound).multipliers if proofs else {}
        total = asked.total_weighted_rate_per_hour
        self._prices = {limit: total * each for limit, each in multipliers.items()}
        _, run = as_run(asked, result.solution)
        return BoaSolution(branches={name: probed.get(name) or run.branches[name] for name in instance.classes}), result

    def to_json_data(self) -> dict[str, Any]:
        """Return all that has to be written down, as plain data."""
        return {"knowledge": self.knowledge.to_json_data(), **write_state(self, _WRITTEN)}
