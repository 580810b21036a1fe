"""Without Ray: what is said, and that nothing else needs it."""

from __future__ import annotations

import importlib
import sys

import pytest

from optplan.errors import MissingExtraError


def test_which_extra_brings_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler for Ray Tune names the extra where Ray is not installed."""
    for name in [name for name in sys.modules if name.split(".")[0] == "ray"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "optplan.runtime.ray_tune", raising=False)
    with pytest.raises(MissingExtraError, match=r'ray is not installed; run: pip install "optplan\[ray\]"'):
        importlib.import_module("optplan.runtime.ray_tune")
