"""Simulators: what happens to fleets in which VMs come and go, replayed from traces or drawn at random."""
