"""How a log is to be read: who wrote it, what its columns are called, and which of its jobs are looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from optplan.errors import DataError
from optplan.instances.job_logs.records import RULES, Rule
from optplan.instances.job_logs.times import Clock, find_zone


class LogFormat(StrEnum):
    """Who wrote a log."""

    SACCT = "sacct"
    KUBERNETES = "kubernetes"
    CSV = "csv"


@dataclass(frozen=True)
class LogReading:
    """How a log is to be read.

    Attributes
    ----------
    form
        Who wrote it.
    timezone
        Of times that say none.
    time_format
        How times are written, as ``strptime`` takes it; None for ISO 8601.
    columns
        By what we call a column (:data:`optplan.instances.job_logs.tables.KNOWN_NAMES`), what the table calls it; the
        others are found under their usual names.
    class_column
        The column (label of Kubernetes) whose values name classes.
    gpus
        How many GPUs each job has, where the table does not say it.
    delimiter
        Between two fields; None finds out.
    rules
        What becomes of a job, by how it ended.
    since, until
        Only jobs submitted from then on, and before then; ``since_s`` and ``until_s`` are seconds since 1970.
    gpu_type
        Only jobs on it, and those of which the log does not say the type.
    """

    form: LogFormat
    timezone: str = "UTC"
    time_format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    class_column: str | None = None
    gpus: int | None = None
    delimiter: str | None = None
    rules: Mapping[str, Rule] = field(default_factory=lambda: dict(RULES))
    since: str | None = None
    until: str | None = None
    gpu_type: str | None = None
    since_s: float | None = field(init=False)
    until_s: float | None = field(init=False)

    def __post_init__(self) -> None:
        """Read the ends of the span.

        Raises
        ------
        DataError
            When one is no time.
        UsageError
            When there is no such time zone.
        """
        clock = Clock(find_zone(self.timezone))
        for what, text in (("since", self.since), ("until", self.until)):
            try:
                moment = None if text is None else clock.read(text)
            except ValueError as error:
                raise DataError(what, str(error), "correct it") from None
            object.__setattr__(self, f"{what}_s", moment)
