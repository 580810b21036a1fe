"""Policies by name, as the command line has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from optplan.errors import UsageError, nearest_name_hint
from optplan.formulations.boa.planning import BoaPlan
from optplan.instances.files import read_plan
from optplan.simulation.cluster.policies.equal_share import EqualShare
from optplan.simulation.cluster.policies.least_attained import LeastAttained
from optplan.simulation.cluster.policies.one_width import hold_one_width
from optplan.simulation.cluster.policies.pollux import Pollux
from optplan.simulation.cluster.policies.reservation import hold_reservations
from optplan.simulation.cluster.policies.width_table import follow_plan
from optplan.simulation.cluster.policy import Policy

#: What is followed by a number of GPUs, as in ``one-width:8``.
ONE_WIDTH = "one-width"

#: Policies that need nothing but their name.
POLICIES: Mapping[str, Callable[[], Policy]] = MappingProxyType(
    {
        "one-gpu": lambda: hold_one_width(1),
        "reservation": hold_reservations,
        "equal-share": EqualShare,
        "least-attained": LeastAttained,
        "pollux": Pollux,
    }
)


def make_policy(text: str) -> Policy:
    """Return the policy that a text names.

    Parameters
    ----------
    text
        A name of :data:`POLICIES`, ``one-width:N``, or the path of a BOA plan: a file ``.json`` or ``.yaml``.

    Raises
    ------
    UsageError
        When it names none.
    DataError
        When the file cannot be read or is no BOA plan.
    """
    name, colon, number = text.partition(":")
    if name == ONE_WIDTH and colon and number.isdecimal():
        return hold_one_width(int(number))
    if text in POLICIES:
        return POLICIES[text]()
    if is_file(text):
        return follow_plan(read_plan(text, BoaPlan))
    known = [*POLICIES, f"{ONE_WIDTH}:8"]
    message = f"policy: got {text!r}; {nearest_name_hint(text, known)}, or give the file of a BOA plan"
    raise UsageError(message)


def is_file(text: str) -> bool:
    """Return whether a text is the path of a plan, not a name."""
    return text.lower().endswith((".json", ".yaml", ".yml"))
