"""The ranks of a fleet on one machine: each a supervised group of processes that runs the user's command.

``python -m optplan.execution.fleets.ranks FOLDER VM LOG COMMAND...`` runs those of a VM and ends when they have.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optplan.execution.fleets.hook import OPERATION, RANKS
from optplan.execution.supervision import launch, name_home
from optplan.execution.trial_files import read


def start_ranks(
    folder: Path, said: Mapping[str, Any], command: Sequence[str], log: Path, vm: str | None = None
) -> dict[int, subprocess.Popen[bytes]]:
    """Start the ranks of a fleet that have not run yet, and return their supervisors.

    With ``vm`` they are those of one VM, and end with this process; without, all of them, which outlive it.
    """
    children: dict[int, subprocess.Popen[bytes]] = {}
    for role in said["ranks"]:
        rank = role["rank"]
        if (folder / RANKS / f"{rank:05d}.jsonl").exists() or vm not in (None, role["vm"]):
            continue  # it has run, or does; or is another VM's
        variables = {
            "OPTPLAN_FLEET": str(folder),
            "RANK": str(rank),
            "LOCAL_RANK": str(role["local_rank"]),
            "WORLD_SIZE": str(len(said["ranks"])),
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
            "PYTHONUNBUFFERED": "1",
        }
        if vm is None:
            variables["GLOO_SOCKET_IFNAME"] = "lo"
        home = name_home(folder, rank)
        home.mkdir(exist_ok=True)
        child = launch(home, folder, command, log=log, variables=variables, tied=vm is not None)
        if child is not None:  # else it runs
            children[rank] = child
    return children


def main(folder: Path, vm: str, log: Path, command: Sequence[str]) -> int:
    """Run the ranks of a VM, and return the exit code of one that has failed, or 0."""
    said = read(folder / OPERATION) or {"ranks": ()}
    codes = [child.wait() for child in start_ranks(folder, said, command, log, vm).values()]
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4:]))
