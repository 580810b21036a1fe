"""Writes the pages of the site as plain Markdown: ``python docs/_steps/prepare.py FOLDER``.

Tables come from the registry and the library, formulas become MathML, each notebook a page, and each kind of file gets
its JSON Schema at a path that stays. Whatever builds a site of Markdown can go on from there, with no code of ours.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from generated_tables import fill_tables
from mathml import fill_formulas
from notebooks import SCRIPT, write_page

from optplan.formulations import formulations
from optplan.reporting.pages import read_plotly_js

DOCS = Path(__file__).resolve().parents[1]


def prepare(folder: Path) -> None:
    """Write everything that the site is made of into a folder, anew."""
    if DOCS.is_relative_to(folder.resolve()):
        raise SystemExit(f"{folder}: holds the documentation itself, and would be emptied; give a folder of its own")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("_*", "*.py[co]"))
    for page in folder.glob("*.md"):
        try:
            page.write_text(fill_formulas(fill_tables(page.read_text(encoding="utf-8"))), encoding="utf-8")
        except ValueError as error:
            raise SystemExit(f"{page.name}: {error}") from error
    for notebook in folder.glob("*.ipynb"):
        notebook.with_suffix(".md").write_text("\n\n".join(write_page(notebook)), encoding="utf-8")
    (folder / SCRIPT).write_text(read_plotly_js(), encoding="utf-8")
    (folder / "schemas").mkdir()
    for name, own in formulations().items():
        for kind, record in {"instance": own.instance_type, "result": own.result_type(), "plan": own.plan_type}.items():
            schema = json.dumps(record.model_json_schema(), indent=1)
            (folder / "schemas" / f"{name}-{kind}.json").write_text(schema + "\n", encoding="utf-8")


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))
