"""Streams of jobs on real or virtual machines: who arrives gets what a table of widths says, as long as it lasts."""
