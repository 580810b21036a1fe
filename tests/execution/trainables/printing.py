"""Trainables whose one step prints more than a log may hold, and goes on printing until it sees that it was cut."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

#: Bytes that are printed at a time, and how often at most; seconds for which a cut is waited for.
LINE, TIMES, PATIENCE_S = "x" * 999_999, 12, 60.0


def talk(configuration: Mapping[str, Any], session: object) -> Iterator[dict[str, float]]:
    """Print 12 MB in a step, and end it once its log is shorter than it was."""
    for _ in range(TIMES):
        sys.stdout.write(f"{LINE}\n")
    sys.stdout.flush()
    until = time.monotonic() + PATIENCE_S
    while os.fstat(1).st_size > 8_000_000:
        if time.monotonic() > until:
            raise TimeoutError("the log is not cut")
        time.sleep(0.01)
    sys.stdout.write("after the cut\n")
    yield {"loss": 1.0}
