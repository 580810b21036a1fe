"""Explaining, sensitivity and frontiers: what stands above the solvers."""
