"""List the jobs that run, all or those of a name."""

import os
import sys
from contextlib import suppress
from pathlib import Path

name = next((word[7:] for word in sys.argv if word.startswith("--name=")), None)
for job in Path(os.environ["OPTPLAN_TEST_JOBS"]).iterdir():
    with suppress(OSError):
        state = Path("/proc", job.name, "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        if state != "Z" and name in (None, job.read_text(encoding="utf-8").split()[0]):
            sys.stdout.write(f"{job.name}\n")
