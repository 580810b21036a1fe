"""Simulators: fleets in which VMs come and go, clusters to which jobs come, and a job that moves between zones."""
