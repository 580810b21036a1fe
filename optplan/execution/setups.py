"""What machines need before they train: commands that are run on each of them once, an image, and which they are."""

from __future__ import annotations

import fcntl
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from optplan.errors import DataError
from optplan.schema import ByName, FrozenModel

_Command = Annotated[str, Field(min_length=1)]
_Amount = Annotated[float, Field(gt=0)]


class Setup(FrozenModel):
    """What a machine needs."""

    #: Container image of what is trained; for Ray, which runs it with podman. Empty for what is installed.
    image: str = ""
    #: Of a shell, run one after another on each machine before its first trial. Variables in them are the shell's, so
    #: that secrets come from the environment and are written nowhere.
    commands: tuple[_Command, ...] = ()
    #: By resource of the plan, what Ray reserves for one of its nodes, by Ray's names; what is not named has as many
    #: GPUs as the plan says, and as many CPUs.
    nodes: ByName[ByName[_Amount]] = Field(default_factory=dict)


def set_up(root: Path, commands: Sequence[str]) -> None:
    """Run commands on this machine, unless they have been run for this run; others wait until they are through.

    It is written down in the run's folder for which machines that is done; DataError where one fails.
    """
    if not commands:
        return
    folder = root / "setup"
    folder.mkdir(exist_ok=True)
    handle = os.open(folder / platform.node(), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.read(handle, 1):
            return
        for number, command in enumerate(commands):
            sys.stdout.flush()
            code = subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, check=False).returncode
            if code:
                problem = f"{command!r} ended with exit code {code} on {platform.node()}"
                raise DataError(f"setup.commands.{number}", problem, "its output is in the trial's log")
        os.write(handle, b"1")
    finally:
        os.close(handle)
