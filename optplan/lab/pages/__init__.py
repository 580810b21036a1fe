"""Simulated clusters, spot VMs and starts for readers."""
