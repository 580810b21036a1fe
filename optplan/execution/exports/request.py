"""What a user asks of an export, and what every target's template may hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from optplan.contracts.conditions import Mode
from optplan.errors import DataError, nearest_name_hint
from optplan.execution.exports.steps import Outline
from optplan.schema import ByName, FrozenModel


class Template(FrozenModel):
    """What is merged into the files of every target.

    ``setup`` is lines of shell that run before the command on each node. Secrets do not belong into ``env``: they come
    from the environment of the jobs. ``optplan`` is how optplan is called on the cluster.
    """

    setup: str = ""
    env: ByName[str] = Field(default_factory=dict)
    optplan: Annotated[str, Field(min_length=1)] = "optplan"

    @property
    def member_setup(self) -> str:
        """Lines of shell before the command of every member."""
        return self.setup


_Template = TypeVar("_Template", bound=Template)


class ExportOptions(FrozenModel):
    """How a plan is exported, beside its target and its command.

    By default the command runs where the caller stands, and in containers where their image says. Exports of one plan
    to several ``folder`` have names of their own. ``overlay`` is metadata and specification of a pod, for targets whose
    jobs are pods. Trials draw from ``space`` and ``seed`` as in :func:`optplan.execution.spaces.draw`; ``metric``,
    ``mode`` and ``gpus_per_node`` are the plan's by default. Time limits are the ``time_quantile`` of the seconds that
    one member takes, times one plus the ``margin``. With ``sizes_known`` the command reads its size from the
    environment and needs no placeholder. The ``launcher`` starts it once on each node, by
    torchrun at a fixed size.
    """

    commands: ByName[str] = Field(default_factory=dict)
    workdir: Annotated[str, Field(min_length=1)] | None = None
    folder: str = ""
    template: ByName[Any] = Field(default_factory=dict)
    overlay: ByName[Any] = Field(default_factory=dict)
    launcher: Literal["single", "torchrun"] = "single"
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


@dataclass(frozen=True, kw_only=True)
class ExportRequest(Outline):
    """What an exporter is given: an outline, and what is asked of its export.

    ``command`` is empty where each class of a stream has its own; ``export_id`` is of the plan, of all that was asked,
    and of the folder, and names what is made elsewhere; ``workdir`` is None where the image says it, and with
    ``enters_workdir`` the launcher goes there itself. ``configurations`` has what each trial tries, in the order of
    drawing: one for a job, none for streams.
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

    def template_as(self, kind: type[_Template]) -> _Template:
        """Return the template, which is of the kind that the exporter's entry names."""
        assert isinstance(self.template, kind)
        return self.template

    @property
    def tag(self) -> str:
        """The beginning of the export's id, for names."""
        return f"op-{self.export_id[:8]}"


def write_yaml(data: Mapping[str, Any]) -> str:
    """Write plain data; whatever a text holds, it is read back as that text."""
    import yaml

    return yaml.safe_dump(data, sort_keys=False, width=10_000, allow_unicode=False)


def require_known(field: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names in a template's field that the plan does not have: what they say would be lost without a word."""
    names = sorted(set(known))
    for name in given:
        if name not in names:
            raise DataError(
                f"template.{field}.{name}", "the plan has none of that name", nearest_name_hint(name, names)
            )
