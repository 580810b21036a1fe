"""Srift's monitor: a fleet of VMs that train one job is followed by heartbeats, and planned anew when VMs are lost."""
