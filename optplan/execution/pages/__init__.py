"""Runs and streams for readers: what was planned beside what happened."""
