"""Searches and jobs that run here for a moment, so that instances get their times and speedups."""
