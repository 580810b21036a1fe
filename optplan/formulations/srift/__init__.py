"""Srift: which VMs, how many, what batch on each, for one training job within a deadline or a budget."""
