"""Writing the library's manifest: the records of the instances that were made again, and all others as they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optplan.instances.library import manifest

LIBRARY = Path(__file__).resolve().parents[1] / "optplan" / "instances" / "library"
_HEADING = (
    "# Best objectives and bounds known, and what proved them; every entry is solved and verified again by a test.",
    "# In benchmarks, build_library.py makes trace instances; build_search_library.py, build_seer_library.py searches;",
    "# build_fleet_library.py, build_spot_library.py, build_aws_library.py jobs of Srift.",
)


def write_manifest(changed: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the manifest.

    Parameters
    ----------
    changed
        By instance, its ``origin`` and ``licence`` and its records ``best``; the other instances keep theirs.
    """
    lines = [*_HEADING]
    for name, facts in (dict(manifest()) | dict(changed)).items():
        lines += ["", f'["{name}"]', f'origin = "{facts["origin"]}"', f'licence = "{facts["licence"]}"']
        for entry in facts["best"]:
            lines += ["", f'[["{name}".best]]', *(f"{field} = {_write(value)}" for field, value in entry.items())]
    (LIBRARY / "manifest.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write(value: str | float) -> str:
    """Write text or a number as TOML does."""
    return f'"{value}"' if isinstance(value, str) else repr(value)
