"""Where something was measured: the processor, and the versions that matter."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

#: Packages whose versions matter to the figures.
PACKAGES = ("optplan", "numpy", "highspy", "ortools", "cvxpy")


def describe_machine() -> str:
    """Say what processor this is, and how many of its cores the process may use."""
    processor = platform.processor() or platform.machine()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    named = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    python = f"Python {platform.python_version()}"
    return f"{named[1] if named else processor}, {count_processors()} cores, {platform.system()}, {python}"


def describe_versions() -> str:
    """Say which versions of the packages that matter are installed; those of extras need not be."""
    return ", ".join(f"{name} {version(name)}" for name in PACKAGES if find_spec(name) is not None)


def count_processors() -> int:
    """Count the processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
