"""SEER as published, its rivals (random, grid, Hyperband, ASHA, HyperSched, BOHB), and the clock that they run on."""
