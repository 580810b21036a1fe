"""The jobs of a stream: when each arrives, of which class it is, and what it trains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from optplan.errors import DataError
from optplan.instances.plain_data import read_data
from optplan.schema import FrozenModel

#: Each of them is written down and told; beyond this, what is meant is an iteration and no epoch.
_MOST_EPOCHS = 1_000_000

#: Beyond this, seconds are too coarse to time an epoch by.
_LATEST_S = 1e10


class StreamJob(FrozenModel):
    """A job that will arrive."""

    #: name, job_class: Its own name, and that of its class.
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
    job_class: Annotated[str, Field(min_length=1)]
    at_s: Annotated[float, Field(ge=0, le=_LATEST_S)] = 0.0  #: When it arrives, in seconds since the stream began.
    #: How many it trains, 1,000,000 at most; None for as many as the plan says of its class.
    epochs: Annotated[int, Field(ge=1, le=_MOST_EPOCHS)] | None = None
    configuration: Mapping[str, Any] = Field(default_factory=dict)  #: What its trainable is set up with.


def read_jobs(path: Path | str) -> list[StreamJob]:
    """Read a list of jobs from a file of YAML or JSON, in the order of arrival."""
    data = read_data(Path(path))
    if not isinstance(data, list):
        raise DataError("jobs", f"{path} is no list", "list jobs, each with name, job_class and at_s")
    return order_jobs(StreamJob.parse(each, path=f"jobs.{number}") for number, each in enumerate(data))


def order_jobs(jobs: Iterable[StreamJob]) -> list[StreamJob]:
    """Return jobs in the order of arrival; DataError when two have the same name."""
    ordered = sorted(jobs, key=lambda job: (job.at_s, job.name))
    seen: set[str] = set()
    for job in ordered:
        if job.name in seen:
            raise DataError(f"jobs.{job.name}", "two jobs have this name", "give each job a name of its own")
        seen.add(job.name)
    return ordered
