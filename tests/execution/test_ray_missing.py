"""Without Ray: what is said, and what is refused before Ray is asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from optplan.contracts import Plan
from optplan.errors import MissingExtraError, UsageError
from optplan.execution.running import run
from optplan.execution.trial_files import Storage

TARGET = "nothing.there:Trainable"


@pytest.fixture(autouse=True)
def _without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "ray"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)


def test_which_extra_brings_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler for Ray Tune names the extra where Ray is not installed."""
    monkeypatch.delitem(sys.modules, "optplan.execution.ray_tune", raising=False)
    with pytest.raises(MissingExtraError, match=r'ray is not installed; run: pip install "optplan\[ray\]"'):
        importlib.import_module("optplan.execution.ray_tune")


def test_which_extra_brings_the_executor(plan_of: Callable[..., Plan], tmp_path: Path) -> None:
    """So does the executor."""
    with pytest.raises(MissingExtraError, match=r'ray is not installed; run: pip install "optplan\[ray\]"'):
        run(plan_of("rubberband-two-stages"), TARGET, executor="ray", out=tmp_path / "run", space=[{}] * 4)


def test_which_extra_brings_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where PyArrow is not installed nothing can be stored by URL."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r'pyarrow is not installed; run: pip install "optplan\[ray\]"'):
        Storage("s3://bucket/runs/first")


def test_only_ray_stores_by_url(plan_of: Callable[..., Plan], tmp_path: Path) -> None:
    """Others have a folder that their machines share."""
    with pytest.raises(UsageError, match="storage: got 's3://bucket/first', which means nothing to executor 'local'"):
        run(plan_of("rubberband-two-stages"), TARGET, executor="local", out=tmp_path, storage="s3://bucket/first")


def test_a_process_is_on_one_machine(plan_stages: Callable[..., Plan], tmp_path: Path) -> None:
    """Four GPUs of a trial on nodes of two: its workers have to be processes of their own."""
    plan = plan_stages((4, 2, 4), (1, 2, 4))
    with pytest.raises(UsageError, match=r"launcher: stage 2.* has 4 GPUs for a trial, on nodes of 2; give --launcher"):
        run(plan, TARGET, executor="ray", out=tmp_path / "run", space=[{}] * 4)


def test_only_ray_has_an_address(plan_of: Callable[..., Plan]) -> None:
    """An address is refused elsewhere."""
    with pytest.raises(UsageError, match=r"address: got .* to executor 'virtual'; leave it out, or use ray"):
        run(plan_of("rubberband-two-stages"), address="127.0.0.1:6379")


def test_a_setup_names_resources_of_the_plan(plan_of: Callable[..., Plan], tmp_path: Path) -> None:
    """What Ray reserves for nodes of a resource that the plan has not got is refused."""
    setup = {"nodes": {"gpus": {"GPU": 2.0}}}
    with pytest.raises(UsageError, match=r"setup.nodes: the plan has no resource 'gpus'; did you mean 'gpu'"):
        run(plan_of("rubberband-two-stages"), TARGET, executor="ray", out=tmp_path, space=[{}] * 4, setup=setup)
