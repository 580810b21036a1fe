"""List the jobs that run, all or those of some names."""

import os
import sys
from contextlib import suppress
from pathlib import Path

names = next((word[7:].split(",") for word in sys.argv if word.startswith("--name=")), None)
for job in Path(os.environ["OPTPLAN_TEST_JOBS"]).iterdir():
    with suppress(OSError):
        state = Path("/proc", job.name, "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        name = job.read_text(encoding="utf-8").split()[0]
        if state != "Z" and (names is None or name in names):
            sys.stdout.write(f"{job.name} {name}\n" if names is not None else f"{job.name}\n")
