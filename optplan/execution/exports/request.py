"""What a user asks of an export, and what every target's template may hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from optplan.contracts.conditions import Mode
from optplan.errors import DataError, nearest_name_hint
from optplan.schema import ByName, FrozenModel


class Launcher(StrEnum):
    """How the command is started where a member has several workers."""

    #: Once on each node; the command starts the workers there itself.
    SINGLE = "single"
    #: Once on each node, by torchrun at a fixed size.
    TORCHRUN = "torchrun"


class Template(FrozenModel):
    """What is merged into the files of every target.

    Parameters
    ----------
    setup
        Lines of shell that run before the command, on each node.
    env
        Environment variables of the command. Secrets do not belong here: they come from the environment of the jobs.
    optplan
        How optplan is called on the cluster.
    """

    setup: str = ""
    env: ByName[str] = Field(default_factory=dict)
    optplan: Annotated[str, Field(min_length=1)] = "optplan"

    @property
    def member_setup(self) -> str:
        """Lines of shell before the command of every member."""
        return self.setup


class ExportOptions(FrozenModel):
    """How a plan is exported, beside its target and its command.

    Parameters
    ----------
    commands
        Of a stream: the command of a class, where it is not the one of all.
    workdir
        Where the command runs: by default where the caller stands, and in containers where their image says.
    folder
        Where the files will be: exports of one plan to several folders have names of their own.
    template
        What is merged in: partition, image, volumes, set-up, as the target has them.
    overlay
        Metadata and specification of a pod, merged into those of targets whose jobs are pods.
    launcher
        How the command is started on several nodes.
    space, seed
        What configurations of trials are drawn from, as in :func:`optplan.execution.spaces.draw`.
    metric, mode
        By what trials are ranked, and which way; the plan's by default.
    time_quantile, margin
        Time limits are this quantile of the seconds that one member takes, times one plus the margin.
    gpus_per_node
        GPUs of one of the target's nodes; the plan's by default.
    retries
        How often a job that failed, or was killed, is started again.
    grace_s
        Seconds between the request to end and the end.
    sizes_known
        Whether the command reads its size from the environment, so that it needs no placeholder.
    """

    commands: ByName[str] = Field(default_factory=dict)
    workdir: Annotated[str, Field(min_length=1)] | None = None
    folder: str = ""
    template: ByName[Any] = Field(default_factory=dict)
    overlay: ByName[Any] = Field(default_factory=dict)
    launcher: Launcher = Launcher.SINGLE
    space: Any = None
    seed: Annotated[int, Field(ge=0)] = 0
    metric: Annotated[str, Field(min_length=1)] | None = None
    mode: Mode | None = None
    time_quantile: Annotated[float, Field(ge=0.5, lt=1)] = 0.99
    margin: Annotated[float, Field(ge=0, le=100)] = 0.5
    gpus_per_node: Annotated[int, Field(ge=1)] | None = None
    retries: Annotated[int, Field(ge=0)] = 2
    grace_s: Annotated[int, Field(ge=1)] = 30
    sizes_known: bool = False


@dataclass(frozen=True)
class ExportRequest:
    """What an exporter is given.

    Parameters
    ----------
    command
        A program with its arguments, in which placeholders stand for sizes; it is no shell's. Empty where each class
        of a stream has its own.
    options
        The user's.
    export_id
        Of the plan, of all that was asked, and of the folder: what is made elsewhere is named by it.
    workdir
        Where the command runs; None where the image says it.
    enters_workdir
        Whether the launcher goes there itself.
    template
        Of the target, read.
    configurations
        What each trial tries, in the order of drawing; one for a job, empty for streams.
    metric, mode
        By what trials are ranked, and which way.
    """

    command: str
    options: ExportOptions
    template: Template
    export_id: str = ""
    workdir: str | None = None
    enters_workdir: bool = False
    configurations: tuple[Mapping[str, Any], ...] = ()
    metric: str = "loss"
    mode: Mode = Mode.MIN

    @property
    def tag(self) -> str:
        """The beginning of the export's id, for names."""
        return f"op-{self.export_id[:8]}"


def write_yaml(data: Mapping[str, Any]) -> str:
    """Write plain data; whatever a text holds, it is read back as that text."""
    import yaml

    return yaml.safe_dump(data, sort_keys=False, width=10_000, allow_unicode=False)


def require_known(field: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names in a template's field that the plan does not have: what they say would be lost without a word.

    Raises
    ------
    DataError
        When the plan lacks one.
    """
    names = sorted(set(known))
    for name in given:
        if name not in names:
            raise DataError(
                f"template.{field}.{name}", "the plan has none of that name", nearest_name_hint(name, names)
            )
