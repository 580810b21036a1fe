"""When a segment of a plan begins and ends: typed conditions that a program can check without reading sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from optplan.contracts.modes import Mode
from optplan.schema import LARGEST_COUNT, NUMBER, Count, CountOrZero, FrozenModel

_Epochs = Annotated[int, Field(ge=0, le=LARGEST_COUNT), NUMBER]
_Segments = Annotated[tuple[str, ...], Field(min_length=1)]


class Started(FrozenModel):
    """The run has begun."""

    when: Literal["start"] = "start"


class Arrived(FrozenModel):
    """A job of the unit has arrived."""

    when: Literal["arrival"] = "arrival"


class EpochsDone(FrozenModel):
    """The job has completed so many epochs since it arrived."""

    when: Literal["epochs"] = "epochs"
    #: Counted from the job's arrival: 12 is the end of the twelfth epoch, and the start of the thirteenth.
    epochs: _Epochs


class IterationsDone(FrozenModel):
    """Each of the segment's members has done so many iterations since it began."""

    when: Literal["iterations"] = "iterations"
    iterations: CountOrZero  #: Counted from the member's own beginning, over all segments that it has been in.


class Elapsed(FrozenModel):
    """The clock shows so many seconds since the run began: the segment ends then, wherever its members are."""

    when: Literal["elapsed"] = "elapsed"
    seconds: Annotated[float, Field(ge=0)]  #: Since the plan's origin of time.


class AllEnded(FrozenModel):
    """All of these segments have ended."""

    when: Literal["all-ended"] = "all-ended"
    segments: _Segments  #: Their ids.


class Selection(FrozenModel):
    """The best members of a segment."""

    segment: str  #: Its id.
    top: Count  #: How many of its members.


class Promoted(FrozenModel):
    """All of these segments have ended, and their best members go on.

    From each segment its ``top`` members are taken; those of all segments are ranked together, and the segment that
    has this condition gets those from its first rank to its last. Rank 1 is best. A member without a number for the
    metric is worse than every other; equal ones rank as they did before.
    """

    when: Literal["promoted"] = "promoted"
    of: Annotated[tuple[Selection, ...], Field(min_length=1)]  #: Which segments, and how many of each.
    #: metric, mode: By what members are ranked, and which way.
    metric: str = "loss"
    mode: Mode = Mode.MIN


#: What a segment may wait for before it begins.
Entry = Annotated[Started | Arrived | EpochsDone | AllEnded | Promoted, Field(discriminator="when")]
#: What may end it.
Exit = Annotated[EpochsDone | IterationsDone | Elapsed, Field(discriminator="when")]


def waits_for(entry: Entry) -> Iterator[str]:
    """Yield the ids of the segments that have to end before one with this condition begins."""
    match entry:
        case AllEnded():
            yield from entry.segments
        case Promoted():
            yield from (selection.segment for selection in entry.of)
