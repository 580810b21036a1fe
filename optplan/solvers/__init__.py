"""Algorithms and engines that know no paper: they take arrays and return arrays."""
