"""List the jobs that run, with their names."""

import os
import sys
from contextlib import suppress
from pathlib import Path

for job in Path(os.environ["OPTPLAN_TEST_JOBS"]).iterdir():
    with suppress(OSError):
        state = Path("/proc", job.name, "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        name = job.read_text(encoding="utf-8").split()[0]
        if state != "Z":
            sys.stdout.write(f"{job.name} {name}\n")
