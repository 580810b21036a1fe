"""The paper's own planners: exhaustive search with its pruning, the eager mode, and the two static policies (4.4, 5.2).

All fleets are judged by the same evaluator, whoever made them; none of these planners has a bound, and all VMs of a
type get one batch. The paper says that its pruning keeps the optimum. It does not. Its rules: batches are powers of two
on each GPU; one type before several; of a kind of GPU the largest VMs first; spot VMs before on-demand ones. Where the
printed text leaves a choice, this is what is done:

- *Favourites.* Rules that favour a kind of fleet "if capacity allows" order the search: fleets that go against a rule
  are looked at only when none of those that follow it keeps the limits. Spot before on-demand weighs most, then one
  type before several, then the larger VMs of a kind of GPU before the smaller ones.
- *Saturating batches.* "Large enough to saturate the hardware" comes without a figure and is left out; the instance's
  choices of batches say it.
- *Eager mode.* Types are ranked by the speed of a VM, or by its speed for the price, both at its largest batch and
  without exchange. Each step allows some more VMs of a type; when all of them are allowed, the next type's turn comes.
  The search goes on while the budget of solving time lasts, and returns the best fleet that keeps the limits.
- *Static policies.* They look at no limit. A fleet of theirs that breaks one is not returned; a warning says by how
  much. VMs are loaded with the largest batch of their type; a remainder for which one would have to be loaded in part
  is not representable.

Running VMs are part of every fleet; the static policies load them first.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from optplan.contracts.result import Answer, SolveRequest, Status, Termination
from optplan.contracts.time_and_money import Objective
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup, write_fleet
from optplan.formulations.srift.exact.best_first import FleetSearch, answer_without_fleet
from optplan.formulations.srift.judge.evaluation import evaluate
from optplan.progress import Stopwatch

#: (type, count, batch) of a group.
_Choice = tuple[str, int, int]


@dataclass(frozen=True)
class CountRange:
    """How many VMs of a type a fleet may have; a least count of zero allows fleets without the type."""

    name: str
    least: int
    most: int


class FleetList:
    """Lists every fleet that reaches an instance's global batch exactly, one by one without a dead end."""

    # Sums that the first types can reach are the bits of a number, so that types are gone through from the last.

    def __init__(self, instance: SriftInstance, batches: Mapping[str, tuple[int, ...]]) -> None:
        self._order = {name: number for number, name in enumerate(instance.types)}
        self._unit = math.gcd(instance.global_batch, *(batch for choices in batches.values() for batch in choices))
        self._batches = {name: [batch // self._unit for batch in choices] for name, choices in batches.items()}
        self._target = instance.global_batch // self._unit
        self._mask = (1 << (self._target + 1)) - 1
        self._reach: dict[tuple[CountRange, ...], int] = {(): 1}

    def fleets(self, ranges: Sequence[CountRange]) -> Iterator[tuple[VmGroup, ...]]:
        """List, in the order of types, the fleets with so many VMs of each; common beginnings of lists are quick."""
        allowed = tuple(ranges)
        if self._reached_by(allowed) >> self._target & 1:
            for choices in self._choose(allowed, self._target):
                yield self._write(choices)

    def _reached_by(self, ranges: tuple[CountRange, ...]) -> int:
        """Return the sums that some types can reach together: bit s stands for s units of samples."""
        known = self._reach.get(ranges)
        if known is None:
            before, last = self._reached_by(ranges[:-1]), ranges[-1]
            known = self._reach[ranges] = self._extend(before, last)
        return known

    def _extend(self, before: int, last: CountRange) -> int:
        reached = before if last.least == 0 else 0
        for batch in self._batches[last.name]:
            for count in range(max(1, last.least), min(last.most, self._target // batch) + 1):
                reached |= before << (batch * count)
        return reached & self._mask

    def _choose(self, ranges: tuple[CountRange, ...], units: int) -> Iterator[list[_Choice]]:
        if not ranges:
            yield []
            return
        before, last = self._reached_by(ranges[:-1]), ranges[-1]
        for rest, chosen in self._pick(before, last, units):
            for earlier in self._choose(ranges[:-1], rest):
                yield earlier + chosen

    def _pick(self, before: int, last: CountRange, units: int) -> Iterator[tuple[int, list[_Choice]]]:
        """List the choices of a type: the units that they leave to the types before, and the groups."""
        if last.least == 0 and before >> units & 1:
            yield units, []
        for batch in reversed(self._batches[last.name]):
            for count in range(max(1, last.least), min(last.most, units // batch) + 1):
                if before >> (units - batch * count) & 1:
                    yield units - batch * count, [(last.name, count, batch * self._unit)]

    def _write(self, choices: list[_Choice]) -> tuple[VmGroup, ...]:
        ordered = sorted(choices, key=lambda choice: self._order[choice[0]])
        return tuple(VmGroup(type=name, count=count, batch=batch) for name, count, batch in ordered)


#: VMs of a type that the eager mode allows at each step, K.
EAGER_STEP = 8
#: Processor time of the eager mode where the request has no limit.
EAGER_BUDGET_S = 0.05


def solve_exhaustive(instance: SriftInstance, request: SolveRequest) -> Answer[SriftSolution]:
    """Look at every fleet that the paper's pruning leaves (section 4.4)."""
    search = FleetSearch(instance, request.stopwatch)
    listed, favourites = FleetList(instance, _choose_powers_of_two(instance)), _Favourites(instance)
    for level in favourites.levels:
        request.stopwatch.emit("fleets", objective=search.objective)
        for ranges in favourites.ranges(level):
            if not search.look_at(listed.fleets(ranges), partial(favourites.is_of, level)):
                return search.answer(request, "fleet within the paper's pruning", Termination.TIME_LIMIT)
        if search.best is not None:
            break
    return search.answer(request, "fleet within the paper's pruning", Termination.COMPLETED)


def _choose_powers_of_two(instance: SriftInstance) -> dict[str, tuple[int, ...]]:
    """Return the choices of batches that are powers of two on each GPU."""
    return {
        name: tuple(batch for batch in batches if (batch // instance.types[name].gpus).bit_count() == 1)
        for name, batches in instance.batches_of.items()
    }


#: Whether a fleet goes against the rules: spot first, homogeneous first, larger first.
_Level = tuple[bool, bool, bool]


class _Favourites:
    """The kinds of fleets, in the order in which they are favoured."""

    def __init__(self, instance: SriftInstance) -> None:
        self.instance = instance
        types = {name: vm for name, vm in instance.types.items() if instance.most_of(name)}
        self._on_demand = {name for name, vm in types.items() if not vm.spot}
        largest: dict[tuple[str, bool], int] = {}
        for vm in types.values():
            largest[vm.gpu, vm.spot] = max(vm.gpus, largest.get((vm.gpu, vm.spot), 0))
        self._smaller = {name for name, vm in types.items() if vm.gpus < largest[vm.gpu, vm.spot]}
        self.levels: list[_Level] = list(itertools.product((False, True), (False, True), (False, True)))

    def is_of(self, level: _Level, fleet: tuple[VmGroup, ...]) -> bool:
        """Whether a fleet goes against just the rules of a level."""
        names = {group.type for group in fleet}
        return level == (bool(names & self._on_demand), len(names) > 1, bool(names & self._smaller))

    def ranges(self, level: _Level) -> Iterator[list[CountRange]]:
        """Return lists of ranges that hold the fleets of a level, and others that follow more of the rules."""
        against_spot, several, against_larger = level
        excluded = (set() if against_spot else self._on_demand) | (set() if against_larger else self._smaller)
        running = {name for name, vm in self.instance.types.items() if vm.running}
        if running & excluded or (against_spot and not self._on_demand) or (against_larger and not self._smaller):
            return
        if several and not self.instance.mixed:
            return
        allowed = [
            CountRange(name, vm.running, self.instance.most_of(name))
            for name, vm in self.instance.types.items()
            if name not in excluded
        ]
        if several:
            yield allowed
            return
        for each in allowed:
            if running <= {each.name}:
                yield [CountRange(each.name, max(1, each.least), each.most)]


def solve_eager(instance: SriftInstance, request: SolveRequest) -> Answer[SriftSolution]:
    """Run the eager mode (section 4.4): :data:`EAGER_STEP` more VMs of a type at a time, the best type first."""
    stopwatch = request.stopwatch
    own_budget = stopwatch.limit_s is None
    if own_budget:
        stopwatch = Stopwatch(EAGER_BUDGET_S, stopwatch.listener, time.thread_time)  # the same on a busy machine
    search = FleetSearch(instance, stopwatch)
    listed = FleetList(instance, instance.batches_of)
    every = True
    for ranges in _allow_stepwise(instance):
        stopwatch.emit("eager steps", objective=search.objective)
        every = search.look_at(listed.fleets(ranges))
        if not every:
            break
    # To end with its own budget is what the algorithm does; with the request's limit it may be cut off.
    ended = Termination.COMPLETED if every or own_budget else Termination.TIME_LIMIT
    answer = search.answer(replace(request, stopwatch=stopwatch), "fleet of the eager mode", ended)
    if every or not own_budget or answer.status is Status.INFEASIBLE:
        return answer
    note = f"the eager mode has used up its budget of {EAGER_BUDGET_S:g} s; with a time limit it takes as long as that"
    return replace(answer, warnings=(*answer.warnings, note))


def _allow_stepwise(instance: SriftInstance) -> Iterator[list[CountRange]]:
    """Yield the ranges of counts that each step adds; before the first one there are the running VMs alone."""
    running = {name: vm.running for name, vm in instance.types.items()}
    prices = {name: vm.price_usd_per_hour for name, vm in instance.types.items()}
    by_time = instance.objective is Objective.TIME
    ranked = _rank(instance, lambda name: samples_per_s(instance, name) / (1.0 if by_time else prices[name]))
    allowed = [CountRange(name, count, count) for name, count in running.items() if count]
    if allowed:
        yield allowed
    for name in ranked:
        others = [each for each in allowed if each.name != name]
        if not instance.mixed and any(each.least for each in others):
            continue
        most = instance.most_of(name)
        for least in range(running[name] + 1, most + 1, EAGER_STEP):
            now = CountRange(name, least, min(least + EAGER_STEP - 1, most))
            yield [*others, now] if instance.mixed else [now]
        allowed = [*others, CountRange(name, running[name], most)]


def _rank(instance: SriftInstance, preference: Callable[[str], float]) -> list[str]:
    """Sort the types that a fleet can have, those preferred most first; equal ones stay in the instance's order."""
    return sorted((name for name in instance.types if instance.most_of(name)), key=preference, reverse=True)


def samples_per_s(instance: SriftInstance, name: str) -> float:
    """Return how many samples a VM of a type computes in a second with its largest batch, without exchange."""
    batch = largest_batch(instance, name)
    return batch / sum(instance.passes_s(name, batch))


def largest_batch(instance: SriftInstance, name: str) -> int:
    """Return the largest of a type's choices of samples per VM, whether the global batch has so many or not."""
    vm = instance.types[name]
    if vm.batches is not None:
        return int(vm.batches[-1])
    return vm.gpus << (instance.job.devices[vm.gpu].largest_batch.bit_length() - 1)


def solve_cost_aware(instance: SriftInstance, request: SolveRequest) -> Answer[SriftSolution]:
    """Run the cost-aware policy, CAP: fill the cheapest VMs first (section 5.2)."""
    return _answer_static(instance, request, "cost-aware policy", fill_cost_aware(instance))


def solve_throughput_aware(instance: SriftInstance, request: SolveRequest) -> Answer[SriftSolution]:
    """Run the throughput-aware policy, TAP: fill the fastest VMs first; otherwise as :func:`solve_cost_aware`."""
    return _answer_static(instance, request, "throughput-aware policy", fill_throughput_aware(instance))


def fill_cost_aware(instance: SriftInstance) -> tuple[VmGroup, ...] | str:
    """Fill VMs in the order of their price per hour, the cheapest first."""
    return _fill(instance, _rank(instance, lambda name: -instance.types[name].price_usd_per_hour))


def fill_throughput_aware(instance: SriftInstance) -> tuple[VmGroup, ...] | str:
    """Fill VMs in the order of their samples per second at their largest batch, the fastest first."""
    return _fill(instance, _rank(instance, lambda name: samples_per_s(instance, name)))


def _fill(instance: SriftInstance, ranked: list[str]) -> tuple[VmGroup, ...] | str:
    """Load VMs with the largest batch of their type, the running ones first, then by rank; or say why it cannot."""
    counts = {name: vm.running for name, vm in instance.types.items() if vm.running}
    left = instance.global_batch - sum(count * largest_batch(instance, name) for name, count in counts.items())
    for name in ranked:
        batch, available = largest_batch(instance, name), instance.types[name].available
        if left <= 0:
            break
        wanted = left // batch
        if not instance.mixed and set(counts) - {name}:
            continue
        free = wanted + 1 if available is None else available - counts.get(name, 0)
        taken = min(wanted, free)
        if taken:
            counts[name] = counts.get(name, 0) + taken
        left -= taken * batch
        if left and free > taken:
            return (
                f"{left:,} of {instance.global_batch:,} samples are left for a VM of {name}, which it would load in "
                f"part: a full one takes {batch:,}; not representable"
            )
    if left > 0:
        return f"all VMs that it can have, fully loaded, leave {left:,} of {instance.global_batch:,} samples"
    if left < 0:
        return f"the running VMs, fully loaded, take {-left:,} samples more than there are"
    return tuple(
        VmGroup(type=name, count=counts[name], batch=largest_batch(instance, name))
        for name in instance.types
        if counts.get(name)
    )


def _answer_static(
    instance: SriftInstance, request: SolveRequest, policy: str, made: tuple[VmGroup, ...] | str
) -> Answer[SriftSolution]:
    request.stopwatch.emit(policy)
    if isinstance(made, str):
        return answer_without_fleet(instance, request, f"the {policy} makes no fleet: {made}")
    solution = SriftSolution(groups=made)
    evaluation = evaluate(instance, solution)
    broken = [
        f"{check.family}: {check.message} ({check.left:.6g} against {check.right:.6g})"
        for check in evaluation.checks
        if not check.holds
    ]
    if broken:
        message = f"the {policy} makes {write_fleet(made)}, which breaks {'; '.join(broken)}"
        return answer_without_fleet(instance, request, message)
    return Answer(Status.FEASIBLE, Termination.COMPLETED, solution=solution, objective=evaluation.objective)
