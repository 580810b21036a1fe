"""Play a command that starts and ends the ranks of a fleet, all on this machine: its arguments are what a rank runs."""

import os
import subprocess
import sys
from pathlib import Path

from optplan.execution.supervision import end, is_running, list_homes
from optplan.execution.trial_files import read

folder = Path(os.environ["OPTPLAN_FLEET"])
if os.environ["OPTPLAN_ACTION"] == "start":
    for vm in dict.fromkeys(role["vm"] for role in (read(folder / "operation.json") or {})["ranks"]):
        log = str(folder / "output.log")
        words = [sys.executable, "-m", "optplan.execution.fleets.ranks", str(folder), vm, log]
        subprocess.Popen([*words, *sys.argv[1:]], stdin=subprocess.DEVNULL, start_new_session=True)
elif os.environ["OPTPLAN_ACTION"] == "stop":
    for home in filter(is_running, list_homes(folder)):
        end(home)
