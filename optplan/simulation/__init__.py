"""Simulators: what happens when plans and policies meet recorded behaviour."""
