"""Writing the library's manifest: the records of the instances that were made again, and all others as they are.

What a benchmark found beyond the manifest is put into the library, with its proofs. So are the proofs of records that
have none or, because their instance was made again, have one of another instance: after any of the scripts here run::

    optplan bench best-known --proofs found
    python benchmarks/library_manifest.py --take found
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optplan.instances.library import manifest, name_record
from optplan.lab.benchmarks.best_known import RECORDS

LIBRARY = Path(__file__).resolve().parents[1] / "optplan" / "instances" / "library"
_HEADING = (
    "# Best objectives and bounds known, and what proved them; every entry is solved and verified again by a test.",
    "# `optplan bench best-known` does that too, and finds more; benchmarks/library_manifest.py takes that in.",
    "# In benchmarks, build_library.py makes trace instances; build_search_library.py, build_seer_library.py searches;",
    "# build_fleet_library.py, build_spot_library.py, build_aws_library.py jobs of Srift;",
    "# build_throughputs_library.py one of which speeds were measured.",
)


def write_manifest(changed: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the manifest.

    Parameters
    ----------
    changed
        By instance, what is said of it, such as its ``origin``, and its records ``best``; the others keep theirs.
    """
    lines = [*_HEADING]
    for name, facts in (dict(manifest()) | dict(changed)).items():
        said = (f"{field} = {_write(value)}" for field, value in facts.items() if field != "best")
        lines += ["", f'["{name}"]', *said]
        for entry in facts["best"]:
            lines += ["", f'[["{name}".best]]', *(f"{field} = {_write(value)}" for field, value in entry.items())]
    (LIBRARY / "manifest.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def take(folder: Path) -> None:
    """Put what a benchmark found into the library: its proofs, and records in the place of those on the same question.

    Parameters
    ----------
    folder
        That ``optplan bench best-known --proofs`` wrote.
    """
    found: dict[str, list[dict[str, Any]]] = json.loads((folder / RECORDS).read_text(encoding="utf-8"))
    changed = {}
    for name, entries in found.items():
        facts = manifest()[name]
        records = {name_record(name, record): record for record in facts["best"]}
        changed[name] = {**facts, "best": (records | {name_record(name, entry): entry for entry in entries}).values()}
        for entry in entries:
            (LIBRARY / "proofs").mkdir(exist_ok=True)
            shutil.copyfile(folder / entry["proof_file"], LIBRARY / "proofs" / entry["proof_file"])
    write_manifest(changed)
    print("took", sum(map(len, found.values())), "values into", LIBRARY / "manifest.toml")


def _write(value: str | float | list[str]) -> str:
    """Write text, a number or a list of texts as TOML does."""
    return repr(value) if isinstance(value, int | float) else json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--take", type=Path, required=True, metavar="FOLDER", help="what `--proofs FOLDER` wrote")
    take(parser.parse_args().take)
