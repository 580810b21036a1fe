"""What the pages show of Python has types: users check their own projects with ``mypy --strict``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```python(?: title=\"(?P<title>[^\"]+)\")?\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_OTHERS = ("IPython", "PIL", "cvxpy", "matplotlib", "prompt_toolkit", "rich", "torch", "xgboost")
_SETTINGS = f"""[mypy]
ignore_missing_imports = True
[mypy-{",".join(f"{name}.*" for name in _OTHERS)}]
follow_imports = skip
"""


def write_blocks(folder: Path) -> list[str]:
    """Write the untitled blocks of each page into one module, and titled ones to the files that they name."""
    written = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        script = ""
        for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            if block["title"]:
                path = folder / block["title"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block["code"], encoding="utf-8")
            else:
                script += block["code"]
        if script:
            name = f"page_{page.stem.lower().replace('-', '_')}.py"
            (folder / name).write_text(script, encoding="utf-8")
            written.append(name)
    return written


def test_the_python_of_the_pages_passes_strict_checks(tmp_path: Path) -> None:
    """With the types that the package ships, and none of its own settings or plugins.

    Packages of others that it needs for none of its types are not read: torch and cvxpy alone take most of the time.
    """
    pytest.importorskip("mypy", reason="mypy is not installed, which checks types")
    names = write_blocks(tmp_path)
    assert len(names) > 5
    (tmp_path / "strict.ini").write_text(_SETTINGS, encoding="utf-8")
    options = ["--strict", "--config-file=strict.ini", "--no-incremental", f"--cache-dir={os.devnull}"]
    command = [sys.executable, "-P", "-m", "mypy", *options, *names, "tonight/tonight"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
