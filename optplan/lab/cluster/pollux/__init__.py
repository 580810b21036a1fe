"""Pollux: the fitness of a division of a cluster among jobs, and how to find the division that is best by it."""
