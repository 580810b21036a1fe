"""Limits that hold with a probability: the deadline alone, and deadline and budget together."""
