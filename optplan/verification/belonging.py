"""Whether audits and traces belong to the instance that they are judged with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optplan.contracts import Instance
from optplan.contracts.audits import Audit, CapacityBound
from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance

if TYPE_CHECKING:
    from optplan.instances.job_traces import JobTrace


def require_trace(instance: BoaInstance, trace: JobTrace) -> None:
    """Raise a UsageError unless the classes of a trace are those of an instance."""
    if trace.classes != tuple(instance.classes):
        message = f"the trace {trace.name!r} is not of the instance {instance.name!r}, which has other classes"
        raise UsageError(f"{message} ({', '.join(instance.classes)}); give the trace that was made with it")


def require_made_for(instance: Instance, made: Audit | CapacityBound, what: str) -> None:
    """Raise a UsageError unless something was made for an instance."""
    if made.instance_hash != instance.content_hash():
        known, own = made.instance_hash[:12], instance.content_hash()[:12]
        message = f"the {what} was made for {made.instance_name!r} with hash {known}, this one has {own}"
        raise UsageError(f"{message}; give the instance it was made for")
