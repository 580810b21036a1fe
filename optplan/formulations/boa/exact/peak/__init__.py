"""A limit on the GPUs in use at once: what all plans within it have in common, and the best one found."""
