"""AdaptDL's hints as an event."""

from __future__ import annotations

import hashlib
import json

from optplan.online.events import HintsReported


def read_hints(data: object, job: str, job_class: str) -> HintsReported:
    """Return AdaptDL's hints as an event, whose id is their content: jobs send the same over and over.

    Raises
    ------
    DataError
        When they are none.
    """
    digest = hashlib.sha256(f"{job}\0{json.dumps(data, sort_keys=True)}".encode()).hexdigest()
    return HintsReported.parse({"id": f"hints-{digest[:40]}", "job_class": job_class, "hints": data})
