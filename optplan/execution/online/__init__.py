"""Decisions that follow reality: widths that are calculated again as jobs are seen, and who holds how many GPUs."""
