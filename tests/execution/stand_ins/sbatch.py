"""Submit a job: a session of its own, whose process is its number."""

import os
import subprocess
import sys
from pathlib import Path

given = dict(word[2:].partition("=")[::2] for word in sys.argv[1:])
with Path(given["output"]).open("a", encoding="utf-8") as log:
    job = subprocess.Popen(["bash", "-c", given["wrap"]], stdout=log, stderr=log, start_new_session=True)
noted = Path(os.environ["OPTPLAN_TEST_JOBS"], str(job.pid))
said = [given[name] for name in ("job-name", "gres", "partition") if name in given]
noted.write_text(" ".join(said), encoding="utf-8")
sys.stdout.write(f"{job.pid};cluster\n")
