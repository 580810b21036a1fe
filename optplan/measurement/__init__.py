"""Measurements that formulations are fed with: bandwidth of all-reduces, times of a network's passes.

Readers, models that learn from measurements, and tools that measure on the machine at hand.
"""
