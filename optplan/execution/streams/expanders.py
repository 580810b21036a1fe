"""Who is told how many nodes are wanted, beside the executor: a command of the user's."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping

from optplan.errors import UsageError

#: Seconds that a command has.
_PATIENCE_S = 60.0


def ask_command(command: str, nodes: Mapping[str, int]) -> None:
    """Run a command for each type with ``OPTPLAN_GPU_TYPE`` and ``OPTPLAN_NODES`` set; it has a minute."""
    for kind, count in nodes.items():
        own = {**os.environ, "OPTPLAN_GPU_TYPE": kind, "OPTPLAN_NODES": str(count)}
        try:
            done = subprocess.run(
                shlex.split(command), env=own, timeout=_PATIENCE_S, capture_output=True, text=True, check=False
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise UsageError(f"scale_command: {command!r} could not be run ({error})") from None
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise UsageError(f"scale_command: {command!r} ended with exit code {done.returncode} ({last})")
