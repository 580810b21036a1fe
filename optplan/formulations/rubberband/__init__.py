"""RubberBand: the cheapest elastic cluster for an early-stopping search, stage by stage, within a deadline."""
