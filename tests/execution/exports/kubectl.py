"""A `kubectl` that keeps objects in a folder and runs the pods of Jobs here: `kubectl.py STATE VERB ...`.

As far as the exports go it does what an API server and the Job controller do: an object that has ended stays ended when
it is applied again, one that has changed is refused, every index of a Job is tried as often as its policies say, and
one that fails leaves the others alone. Each pod is written to STATE/pods.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

state = Path(sys.argv[1])
verb, *words = sys.argv[2:]
words = [word for word in words if word not in ("--wait", "--ignore-not-found")]
if "--namespace" in words:
    place = words.index("--namespace")
    del words[place : place + 2]


def run_pod(job: dict[str, Any], index: int) -> int:
    """Run the container of one index, and return its exit code."""
    (container,) = job["template"]["spec"]["containers"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    done = subprocess.run(
        container["command"],
        env={**os.environ, **variables, "JOB_COMPLETION_INDEX": str(index)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode


def run_index(job: dict[str, Any], name: str, index: int) -> bool:
    """Run an index until it succeeds, or its policies give up; return whether it succeeded."""
    (final,) = (rule["onExitCodes"]["values"] for rule in job["podFailurePolicy"]["rules"] if "onExitCodes" in rule)
    for _ in range(job["backoffLimitPerIndex"] + 1):
        code = run_pod(job, index)
        with (state / "pods").open("a") as pods:
            pods.write(f"{name} {index} {code}\n")
        if code == 0:
            return True
        if code in final:
            return False
    return False


def apply(manifest: dict[str, Any]) -> None:
    """Take an object in, and let its pods run to their end."""
    name = manifest["metadata"]["name"]
    file = state / f"{manifest['kind'].lower()}-{name}.json"
    if file.exists():
        if json.loads(file.read_text())["manifest"] != manifest:
            sys.exit(f"The {manifest['kind']} {name!r} is invalid: field is immutable")
        return
    job = manifest["spec"]
    ended = [run_index(job, name, index) for index in range(job["completions"])]
    conditions = ["SuccessCriteriaMet", "Complete"] if all(ended) else ["FailureTarget", "Failed"]
    file.write_text(json.dumps({"manifest": manifest, "conditions": conditions}))


if verb == "apply":
    assert words == ["-f", "-"], words
    apply(yaml.safe_load(sys.stdin))
elif verb == "get":
    kind, name, output, template = words
    assert (output, template) == ("-o", 'jsonpath={.metadata.name} {.status.conditions[?(@.status=="True")].type}')
    file = state / f"{kind}-{name}.json"
    if file.exists():
        print(name, " ".join(json.loads(file.read_text())["conditions"]), end="")  # noqa: T201 - as kubectl
elif verb == "delete":
    kind, name = words
    (state / f"{kind}-{name}.json").unlink()
else:
    sys.exit(f"unknown command {verb!r}")
