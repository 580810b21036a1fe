"""SEER as published: its rounds, the trials that they ask for."""
