"""Readers of the traces and profiles that research artifacts publish: Sia, AdaptDL."""
