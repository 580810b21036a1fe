"""Compiles the loops of the solvers and packs them into the wheel; without a compiler they run as Python, slower.

``OPTPLAN_KERNEL`` says what is wanted: ``auto`` (the default) compiles where that works, ``compiled`` fails where it
does not, ``python`` does without.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: What is compiled: modules of Python with their types beside them, of solvers, of judges, and of what both use.
KERNELS = (
    "optplan/solvers/paths/kernel",
    "optplan/solvers/paths/runs",
    "optplan/solvers/paths/simplex",
    "optplan/judging/loops",
    "optplan/lab/audits/price_loops",
    "optplan/formulations/boa/judge/loops",
    "optplan/formulations/srift/laws/exchange",
)
#: The same bits as Python on every processor: no operation is fused with another.
FLAGS = ["-O3", "-ffp-contract=off", "-g0"]
DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,  # types are those of the .pxd
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
}


class KernelBuild(BuildHookInterface):  # type: ignore[type-arg, misc]
    """Adds what was compiled to a wheel, which is then one for every Python from 3.11 on of this platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the wheel is packed; one that is editable does without."""
        wanted = os.environ.get("OPTPLAN_KERNEL", "auto")
        if wanted not in ("auto", "compiled", "python"):
            raise ValueError(f"OPTPLAN_KERNEL: got {wanted!r}; allowed: auto, compiled, python")
        if self.target_name != "wheel" or version == "editable" or wanted == "python":
            return
        self.folder = tempfile.mkdtemp(prefix="optplan-kernel-")
        try:
            built = compile_kernels(Path(self.root), Path(self.folder))
        except (Exception, SystemExit) as error:
            if wanted == "compiled":
                raise
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            self.app.display_warning(f"optplan's kernel is not compiled ({reason}): solves take 20 times as long")
            return
        build_data["force_include"] |= {str(path): name for name, path in built.items()}
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{_platform()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's
        """Remove what was made on the way."""
        shutil.rmtree(getattr(self, "folder", ""), ignore_errors=True)


def compile_kernels(root: Path, folder: Path) -> dict[str, Path]:
    """Compile in a folder, and return where each file for the wheel lies; nothing is written among the sources."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension

    for name in KERNELS:
        for path in ((root / name).with_suffix(".py"), (root / name).with_suffix(".pxd")):
            copy = folder / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
            for parent in list(copy.relative_to(folder).parents)[:-1]:
                (folder / parent / "__init__.py").touch()
    macros = [("Py_LIMITED_API", "0x030B0000"), ("CYTHON_LIMITED_API", "1")]
    before = Path.cwd()
    os.chdir(folder)  # Cython names modules by their path from here
    try:
        extensions = [
            Extension(
                name.replace("/", "."),
                [f"{name}.py"],
                extra_compile_args=[] if sys.platform == "win32" else FLAGS,
                define_macros=macros,
                py_limited_api=True,
            )
            for name in KERNELS
        ]
        modules = cythonize(extensions, compiler_directives=DIRECTIVES, quiet=True)
        build = Distribution({"ext_modules": modules}).get_command_obj("build_ext")
        build.build_lib, build.build_temp = str(folder / "out"), str(folder / "temp")
        build.ensure_finalized()
        build.run()
        return {str(Path(path).relative_to(folder / "out")): Path(path) for path in build.get_outputs()}
    finally:
        os.chdir(before)


def _platform() -> str:
    from packaging.tags import platform_tags

    return next(platform_tags())
