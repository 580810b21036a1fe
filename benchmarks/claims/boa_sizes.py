"""How large each measurement for the claims of the paper on BOA is, by slowdowns and trace."""

from __future__ import annotations

from collections.abc import Mapping

#: Budgets where the widths of a plan hold, in GPUs, by what is on and the trace; about as many as the paper's charts
#: have. The least are just above what the trace needs.
BUDGETS: Mapping[tuple[str, str], tuple[float, ...]] = {
    ("off", "few"): (19, 20, 22, 25, 28, 30, 35, 40, 45, 50, 55, 60, 70, 80, 100, 120),
    ("on", "few"): (28, 30, 32, 35, 40, 45, 50, 55, 60, 70, 80, 100, 120),
    ("off", "filtertrace"): (52, 66, 85, 115, 160),
    ("on", "filtertrace"): (68, 80, 100, 140),
    ("off", "newtrace"): (78, 92, 108, 125, 165),
    ("on", "newtrace"): (102, 108, 120, 140, 180),
}
TARGETS: Mapping[tuple[str, str], tuple[float, ...]] = {
    ("off", "few"): (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
    ("on", "few"): (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
    ("off", "filtertrace"): (0.5, 0.6, 0.7, 0.8),
    ("on", "filtertrace"): (0.8,),
    ("off", "newtrace"): (0.5, 0.6, 0.7, 0.8, 0.9),
    ("on", "newtrace"): (0.6, 0.7, 0.8, 0.9, 0.95),
}
NODES: Mapping[tuple[str, str], tuple[int, ...]] = {
    ("off", "few"): (5, 7, 10, 14, 20),
    ("on", "few"): (7, 10, 14, 20),
    ("off", "filtertrace"): (20, 24),
    ("off", "newtrace"): (24,),
}
#: Budgets of BOA that learns, a replay of which takes 20 s, and targets of Pollux that learns, which takes minutes.
LEARNING_GPUS: Mapping[tuple[str, str], tuple[float, ...]] = {
    ("off", "few"): (20, 28, 40, 60),
    ("off", "filtertrace"): (75,),
    ("off", "newtrace"): (105,),
}
LEARNED_TARGET = 0.7
#: Figure 8: budgets of widths that are calculated again from what ran.
AGAIN: Mapping[str, tuple[float, ...]] = {"off": (100,), "on": (130, 160)}
#: Figure 9: the target at which autoscaling rents about 120 GPUs, C^2 asked for, and seeds.
BURSTS: Mapping[str, tuple[float, tuple[float, ...], tuple[int, ...]]] = {
    "off": (0.65, (1.0, 30.0), (1,)),
    "on": (0.8, (1.0, 30.0), (1,)),
}
BURST_BUDGETS: Mapping[str, tuple[float, ...]] = {
    "off": (105, 125),
    "on": (108, 125),
}
