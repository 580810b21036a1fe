"""Start an operation as a session of its own whose number is written down in its folder; or end it."""

import os
import signal
import subprocess
from pathlib import Path

folder = Path(os.environ["OPTPLAN_OPERATION"])
if os.environ["OPTPLAN_ACTION"] == "start":
    with Path(os.environ["OPTPLAN_LOG"]).open("a", encoding="utf-8") as log:
        work = subprocess.Popen(os.environ["OPTPLAN_WORK"], shell=True, stdout=log, stderr=log, start_new_session=True)
    with (folder / "started").open("a", encoding="utf-8") as started:
        started.write(f"{os.environ['OPTPLAN_RESOURCE']} {os.environ['OPTPLAN_GPUS']}\n")
    (folder / "pid").write_text(str(work.pid), encoding="utf-8")
else:
    os.kill(int((folder / "pid").read_text(encoding="utf-8")), signal.SIGUSR1)
