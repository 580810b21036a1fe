from __future__ import annotations

from pathlib import Path

import pytest

from optplan.contracts import Verification
from optplan.contracts.judgement import Check
from optplan.errors import VerificationError
from optplan.instances.library import build_named
from optplan.reporting.pages import Page, ReportWriter
from optplan.solving import solve


def test_no_report_is_written_of_what_does_not_hold(tmp_path: Path) -> None:
    """A failed verification stops before any page is gathered."""
    instance = build_named("srift-case2")
    broken = Check(family="budget", left=2.0, right=1.0, tolerance=0.0, holds=False, message="too dear")

    def build_page(*_: object, **__: object) -> Page:
        pytest.fail("a page was gathered")

    writer = ReportWriter("fleets", build_page)
    with pytest.raises(VerificationError, match="budget: too dear"):
        writer(
            tmp_path / "page.html",
            instance,
            solve(instance),
            rivals=[],
            explanation=None,
            verification=Verification(checks=(broken,)),
            verify_command="optplan verify",
            overwrite=False,
        )
    assert not list(tmp_path.iterdir())
