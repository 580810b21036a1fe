"""Policies by name, as the command line has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from optplan.errors import UsageError, nearest_name_hint
from optplan.execution.online.fields import Hold
from optplan.execution.online.jobs import Order
from optplan.execution.online.ledger import tell_drift
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import BoaPlan, build_plan
from optplan.instances.files import read_instance, read_plan
from optplan.lab.cluster.jobs import Job, SchedulingPolicy
from optplan.lab.cluster.policies.boa import Autoscaled, BoaOnline, BudgetHeld, Scheduled, follow_plan
from optplan.lab.cluster.policies.in_turn import EqualShare, LeastAttained, hold_one_width, hold_reservations
from optplan.lab.cluster.policies.pollux import Pollux, PolluxAutoscaled
from optplan.lab.cluster.policies.price_that_fits import PriceThatFits
from optplan.lab.fields import Knowledge
from optplan.solving import solve
from optplan.units import PERIOD_HOURS, BudgetUnit

#: What is followed by an instance, of which no budget is needed.
PRICE_THAT_FITS = "price-that-fits"
#: What is followed by a number of GPUs, as in ``one-width:8``.
ONE_WIDTH = "one-width"
#: What believes something about speeds, as what comes next does.
POLLUX = "pollux"
#: What is followed by a target efficiency or a band, as in ``pollux-autoscaled:0.5``.
POLLUX_AUTOSCALED = "pollux-autoscaled"

#: Policies that need nothing but their name.
POLICIES: Mapping[str, Callable[[], SchedulingPolicy]] = MappingProxyType(
    {
        "one-gpu": lambda: hold_one_width(1),
        "reservation": hold_reservations,
        "equal-share": EqualShare,
        "least-attained": LeastAttained,
    }
)

#: Schedulers that follow a BOA plan: on a cluster of fixed size in an order, or one that grows and shrinks.
SCHEDULERS: Mapping[str, Callable[[BoaPlan], SchedulingPolicy]] = MappingProxyType(
    {
        **{order.value: partial(Scheduled, order=order) for order in Order},
        "autoscaled": Autoscaled,
    }
)

#: What is followed by a BOA instance: rates, sizes and speeds as they are known at the start.
KNOWERS: Mapping[str, Callable[[BoaInstance], SchedulingPolicy]] = MappingProxyType(
    {
        "boa-online": BoaOnline,
        "boa-held": BudgetHeld,
        "boa-repaid": partial(BudgetHeld, hold=Hold.REPAID),
        PRICE_THAT_FITS: PriceThatFits,
    }
)


def make_policy(text: str, *, knowledge: Knowledge | str = Knowledge.TRUTH) -> SchedulingPolicy:
    """Return the policy that a text names, and what Pollux knows of speeds."""
    name, colon, number = text.partition(":")
    if name == ONE_WIDTH and colon and number.isdecimal():
        return hold_one_width(int(number))
    if text == POLLUX_AUTOSCALED:
        fix = f"give an efficiency between 0 and 1 or a band, as in {text}:0.5 or {text}:0.35:0.65"
        raise UsageError(f"policy: {text} has no target to keep; {fix}")
    if name == POLLUX_AUTOSCALED:
        return PolluxAutoscaled(number, Knowledge(knowledge))
    if text == POLLUX:
        return Pollux(Knowledge(knowledge))
    if knowledge != Knowledge.TRUTH:
        raise UsageError(f"knowledge: {text} believes nothing about speeds; leave it out, or choose Pollux")
    if text in POLICIES:
        return POLICIES[text]()
    who, path = split_file(text)
    if path and who in KNOWERS:
        return KNOWERS[who](read_instance(path, BoaInstance))
    if path:
        return SCHEDULERS.get(who, follow_plan)(read_plan(path, BoaPlan))
    known = [
        *POLICIES,
        POLLUX,
        f"{ONE_WIDTH}:8",
        f"{POLLUX_AUTOSCALED}:0.5",
        *(f"{scheduler}:plan.json" for scheduler in SCHEDULERS),
        *(f"{knower}:instance.json" for knower in KNOWERS),
    ]
    fix = f"give the file of a BOA plan or the name of a policy; {nearest_name_hint(text, known)}"
    raise UsageError(f"policy: got {text!r}; {fix}")


def tell_arrivals(text: str, jobs: Sequence[Job]) -> str:
    """Say why the plan, or the instance, of a policy will not hold on jobs; empty where it may, or there is none."""
    who, path = split_file(text)
    if not path or who == PRICE_THAT_FITS:  # which has no budget to hold
        return ""
    arrivals = [(job.application, job.submitted_s) for job in jobs]
    if who not in KNOWERS:
        return tell_drift(read_plan(path, BoaPlan), arrivals)
    instance = read_instance(path, BoaInstance)
    result = solve(instance)
    return "" if result.solution is None else tell_drift(build_plan(instance, result), arrivals, instance)


def budget_gpus(text: str) -> float | None:
    """Return the time-average GPUs that the plan or the instance of a policy may use; None where there is no such."""
    who, path = split_file(text)
    if not path or who == PRICE_THAT_FITS:
        return None
    if who in KNOWERS:
        instance = read_instance(path, BoaInstance)
        return instance.budget_amount() if instance.budget and instance.budget_unit is BudgetUnit.GPU else None
    plan = read_plan(path, BoaPlan)
    limit, prices = plan.limits.get("budget"), {each.price_usd_per_hour for each in plan.resources.values()}
    if limit is None or limit.unit == BudgetUnit.GPU:
        return None if limit is None else limit.amount
    price = prices.pop() if len(prices) == 1 else None
    return limit.amount / PERIOD_HOURS[BudgetUnit(limit.unit)] / price if price else None


def split_file(text: str) -> tuple[str, str]:
    """Return who follows the file of a plan or an instance that a policy's name has, if it says so, and the path."""
    name, colon, path = text.partition(":")
    if colon and (name in SCHEDULERS or name in KNOWERS):
        return name, path
    return "", text if text.lower().endswith((".json", ".yaml", ".yml")) else ""
