"""Simulators: fleets in which VMs come and go, from traces or drawn at random, and clusters to which jobs come."""
