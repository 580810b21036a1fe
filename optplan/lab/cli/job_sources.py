"""The argument LOG_OR_INSTANCE: an instance and its jobs, of a log or a jobs table, or drawn from the instance."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from optplan.cli.amending import amend
from optplan.cli.log_imports import LOG_OPTIONS, read_job_log
from optplan.cli.options import (
    FILE,
    TIME,
    F,
    HeadedOption,
    complete_instance,
    flag,
    list_declared,
    option,
    with_options,
)
from optplan.errors import UsageError

if TYPE_CHECKING:
    from optplan.formulations.boa.data.instance import BoaInstance
    from optplan.instances.job_traces import JobTrace

#: Endings of files that may hold an instance.
_OF_INSTANCES = {".json", ".yaml", ".yml"}


def _declare(
    *,
    instance: Path | None = option(
        type=FILE, help="Of a jobs table that `optplan import log --jobs` wrote: the instance of the same import."
    ),
    jobs: int | None = option(
        type=click.IntRange(min=1), metavar="N", help="Of an instance: so many jobs are drawn at its rates."
    ),
    span: float | None = option(type=TIME, help="Of an instance: jobs are drawn that arrive for so long, such as 48h."),
) -> None:
    """Declare what belongs to tables and instances."""


@dataclass(frozen=True)
class JobSource:
    """What the user gave as LOG_OR_INSTANCE, and how it is to be read."""

    place: str
    instance: Path | None
    jobs: int | None
    span_s: float | None
    seed: int
    log: Mapping[str, Any]  # what read_job_log takes
    typed: Mapping[str, str]  # by parameter, the options that were typed

    @property
    def is_log(self) -> bool:
        """Whether it is a log, whose writer is said."""
        return self.log["form"] is not None

    def check(self, taken: Collection[str] = ()) -> None:
        """Refuse options that have no meaning beside the others, but for those ``taken`` by the command."""
        from optplan.instances.files import is_path

        if self.is_log:
            self._refuse("instance", "jobs", "span", "seed", why="a log has its own jobs", taken=taken)
            return
        self._refuse(*LOG_OPTIONS, why="says how a log is read; add --from", taken=taken)
        if self.instance is not None:
            self._refuse("jobs", "span", "seed", why="a jobs table has its own jobs", taken=taken)
        elif is_path(self.place) and self.place != "-" and Path(self.place).suffix.lower() not in _OF_INSTANCES:
            message = f"LOG_OR_INSTANCE: {self.place} is no instance; say who wrote this log (--from sacct, kubernetes"
            raise UsageError(f"{message} or csv), or of a jobs table the instance that was made with it (--instance)")
        elif self.jobs is None and self.span_s is None:
            self._refuse("seed", why="no job is drawn without --jobs or --span", taken=taken)

    def read(
        self, changes: dict[str, Any] | None = None, taken: Collection[str] = ()
    ) -> tuple[BoaInstance, JobTrace | None]:
        """Read the instance, changed as asked, and the jobs, None without any; log options but ``taken`` need a log."""
        from optplan.formulations.boa.data.instance import BoaInstance
        from optplan.instances.files import read_instance
        from optplan.instances.job_traces import draw_trace, gather_trace, read_trace

        self.check(taken)

        def change(given: BoaInstance) -> BoaInstance:
            changed = amend(given, changes or {})
            assert isinstance(changed, BoaInstance)
            return changed

        if self.is_log:
            made, classes, sizes = read_job_log(Path(self.place), **self.log)
            return change(made), gather_trace(made, classes, sizes, Path(self.place).stem)
        if self.instance is not None:
            given = read_instance(self.instance, BoaInstance)
            return change(given), read_trace(self.place, given)
        changed = change(read_instance(self.place, BoaInstance))
        if self.jobs is None and self.span_s is None:
            return changed, None
        return changed, draw_trace(changed, jobs=self.jobs, span_s=self.span_s, seed=self.seed)

    def import_log(self, folder: Path) -> tuple[Path, Path]:
        """Write the jobs table and the instance of a log into a folder, over what is there; return their paths."""
        from optplan.instances.files import write_json
        from optplan.instances.job_logs.jobs_table import write_jobs

        made, classes, sizes = read_job_log(Path(self.place), **self.log)
        table, instance = (folder / f"{Path(self.place).stem}{end}" for end in (".jobs.csv", ".json"))
        write_jobs(classes, sizes, table, overwrite=True)
        write_json(made, instance, overwrite=True)
        return table, instance

    def _refuse(self, *names: str, why: str, taken: Collection[str]) -> None:
        for name in names:
            if name in self.typed and name not in taken:
                raise UsageError(f"{self.typed[name]}: {why}; leave it out")


def log_or_instance(command: F) -> F:
    """Add the argument LOG_OR_INSTANCE with its options; the command gets a :class:`JobSource` as ``source``."""
    return _add(command, many=False)


def logs_or_instances(command: F) -> F:
    """Add the same for several, without a seed; the command gets a list of them as ``source``."""
    return _add(command, many=True)


def _add(command: F, *, many: bool) -> F:
    @functools.wraps(command)
    def run(*args: Any, place: Any, instance: Path | None, jobs: int | None, span: float | None, **given: Any) -> Any:  # noqa: ANN401 - the command's own
        context = click.get_current_context()
        typed = {
            str(each.name): flag(each)
            for each in context.command.params
            if context.get_parameter_source(str(each.name)) is ParameterSource.COMMANDLINE
        }
        log, seed = {name: given.pop(name) for name in LOG_OPTIONS}, given.pop("seed", 0)
        sources = [JobSource(each, instance, jobs, span, seed, log, typed) for each in (place if many else [place])]
        return command(*args, source=sources if many else sources[0], **given)

    params = [
        click.Argument(
            ["place"],
            metavar=f"LOG_OR_INSTANCE{'...' * many}",
            nargs=-1 if many else 1,
            required=True,
            shell_complete=complete_instance,
        ),
        *list_declared(_declare),
        *list_declared(read_job_log, HeadedOption, heading="Read a log", required=False),
    ]
    seed = click.Option(
        ["--seed"], type=click.IntRange(min=0), default=0, metavar="N", help="Of what is drawn at random."
    )
    added: F = with_options(params if many else [*params, seed])(run)  # type: ignore[assignment]
    return added
