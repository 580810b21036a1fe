"""The frozen types that everything exchanges: instances, results, certificates, frontiers, plans, and their JSON."""

from __future__ import annotations

from optplan.public_names import load_on_use

__getattr__, __all__ = load_on_use(__name__, __file__)
