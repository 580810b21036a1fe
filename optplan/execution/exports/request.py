"""What a user asks of an export: the plan, the options, and what a template may hold; a record for each target."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from functools import cached_property, reduce
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar

import yaml
from pydantic import Field

from optplan.contracts.plan import Plan
from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.execution.exports.steps import CannotExpressError, Outline, outline
from optplan.execution.fields import ExportFields
from optplan.execution.options import draw_configurations
from optplan.execution.scheduler import list_trials
from optplan.schema import ByName, FrozenModel

#: Two braces that stand for one, or the name of a placeholder between two.
PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}")


class Template(FrozenModel):
    """What is merged into the files of every target; ``setup`` is of shell, ``optplan`` how that is called there."""

    setup: str = ""
    env: ByName[str] = Field(default_factory=dict)
    optplan: Annotated[str, Field(min_length=1)] = "optplan"


class Export(FrozenModel, ExportFields):
    """What is asked of the export of a plan to one target, which is a subclass: a template, and the files it writes.

    The fields are the options of ``optplan export``. ``command`` is empty where each class of a stream has its own in
    ``commands``; ``folder`` is where the files go, which gives what is made elsewhere names of its own.
    """

    #: For `optplan list exporters`: what a plan becomes, and what has to be there to use it.
    SUMMARY: ClassVar[str]
    NEEDS: ClassVar[str]
    #: Whether the target copies the working folder to its nodes and sets them up; else the launcher goes to that folder
    #: and runs the set-up before each command.
    PREPARES: ClassVar[bool] = False
    #: Whether jobs are pods: their image says what there is, and an overlay is merged into them.
    IN_PODS: ClassVar[bool] = False

    plan: Plan
    to: str
    command: str = ""
    commands: ByName[str] = Field(default_factory=dict)
    folder: str = ""
    template: Template
    overlay: ByName[Any] = Field(default_factory=dict)
    space: Any = None
    grace_s: Annotated[int, Field(ge=1)] = 30

    @abstractmethod
    def write_files(self) -> Mapping[str, str]:
        """Return the target's own files by their path below the folder; those that end in ``.sh`` can be run.

        Jobs start through ``launch.sh``, which is written besides.
        """

    @cached_property
    def outline(self) -> Outline:
        """The plan, taken apart."""
        return outline(self.plan, margin=self.margin, quantile=self.time_quantile, gpus_per_node=self.gpus_per_node)

    @cached_property
    def workplace(self) -> str | None:
        """Where the command runs: as given, or where the caller stands; None where the image says it."""
        if self.IN_PODS:
            if self.workdir is not None and not self.workdir.startswith("/"):
                raise UsageError(f"workdir: got {self.workdir!r}; give a path in the containers, from / on")
            return self.workdir
        place = Path(self.workdir or ".").expanduser()
        if not place.is_dir():
            raise UsageError(f"workdir: {self.workdir!r} is no folder; give the one in which the command is to run")
        return str(place.resolve())

    @cached_property
    def configurations(self) -> tuple[Mapping[str, Any], ...]:
        """What each trial tries, in the order of drawing, from the space that was given or the plan's own.

        There is one for a job, and none for streams.
        """
        kind = self.outline.kind
        if kind == "stream":
            if self.space is not None:
                raise UsageError("space: jobs of a stream have no configurations of the plan's; leave it out")
            return ()
        if self.space is None and not self.plan.to_json_data().get("search_space"):
            if kind == "search" and "trial" not in placeholders(self.command):
                message = "space: is missing, and the plan has none: nothing would tell one trial from another"
                raise UsageError(f"{message}; give --space, or use {{trial}} in the command")
            return ()
        return tuple(draw_configurations(self.plan, list_trials(self.plan), self.space, self.seed).values())

    @cached_property
    def export_id(self) -> str:
        """The same for the same plan, options and folder: it names what is made elsewhere."""
        asked = [self.plan.plan_id, self.workplace, self.configurations, self.model_dump(exclude={"plan", "space"})]
        return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()[:16]

    @property
    def tag(self) -> str:
        """The beginning of the export's id, for names."""
        return f"op-{self.export_id[:8]}"

    @property
    def optplan(self) -> str:
        """How optplan is called where jobs run, in words of shell."""
        return shlex.join(split(self.template.optplan, "template.optplan"))

    def require_one_group(self, why: str) -> None:
        """Refuse a fleet of several groups, saying why and what else could be done."""
        groups = self.outline.steps
        if self.outline.kind == "fleet" and len(groups) > 1:
            raise CannotExpressError(f"cannot express: the fleet has {len(groups)} groups of nodes, {why}")

    @property
    def cases(self) -> str:
        """For a script of a stream: what each way sets."""
        return "".join(f"  {way.name}) steps='{' '.join(way.step_names)}' ;;\n" for way in self.outline.ways)

    def write_script(self, name: str, /, **blanks: object) -> str:
        """Return a text of the folder ``scripts``; between ``@`` stands the name of a blank, or of an attribute."""
        text = re.sub("@(LOCK|STREAM)@", lambda found: _read(f"{found[1].lower()}.sh"), _read(name))

        def fill(found: re.Match[str]) -> str:
            blank = found[1].lower()
            return str(blanks[blank] if blank in blanks else getattr(self, blank))

        return re.sub("@([A-Z_]+)@", fill, text)

    def write_manifest(self, name: str, /, **blanks: object) -> dict[str, Any]:
        """Return a manifest of the folder ``scripts`` with what stands after ``$`` filled in; ``$export`` is this.

        Behind a point stands an attribute of what was before it. What is empty is left out.
        """

        def fill(part: Any) -> Any:  # noqa: ANN401 - plain data
            if isinstance(part, Mapping):
                filled = {key: (each, fill(each)) for key, each in part.items()}
                return {
                    key: found for key, (each, found) in filled.items() if each == found or found not in (None, {}, [])
                }
            if isinstance(part, list):
                return [fill(each) for each in part]
            if not isinstance(part, str) or not part.startswith("$"):
                return part
            first, *attributes = part[1:].split(".")
            return reduce(getattr, attributes, {"export": self, **blanks}.get(first))

        found: dict[str, Any] = fill(yaml.safe_load(_read(name)))
        return found


def _read(name: str) -> str:
    return (files("optplan.execution.exports") / "scripts" / name).read_text(encoding="utf-8")


def write_yaml(data: Mapping[str, Any]) -> str:
    """Write plain data; whatever a text holds, it is read back as that text."""
    return yaml.safe_dump(data, sort_keys=False, width=10_000, allow_unicode=False)


def require_known(field: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names in a template's field that the plan does not have: what they say would be lost without a word."""
    names = sorted(set(known))
    for name in given:
        if name not in names:
            raise DataError(
                f"template.{field}.{name}", "the plan has none of that name", nearest_name_hint(name, names)
            )


def split(command: str, field: str = "command") -> list[str]:
    """Take a command, which a field holds, apart as a shell would."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"{field}: got {command!r} ({error}); close the quotes") from None
    if not words:
        raise UsageError('command: is empty; give a program, as in --command "python train.py --gpus {gpus}"')
    if any("\0" in word for word in words):
        raise UsageError("command: holds the character NUL, which no program's argument can; leave it out")
    return words


def placeholders(command: str) -> set[str]:
    """Return the names that stand in braces."""
    return {found.group(1) for found in PLACEHOLDER.finditer(command) if found.group(1)}
