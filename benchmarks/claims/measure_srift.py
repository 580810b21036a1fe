"""What is measured for the claims of the paper on Srift."""

from __future__ import annotations

from collections.abc import Mapping

from claims.record import Part

PARTS: Mapping[str, Part] = {}
