"""Policies that decide in rounds."""

#: Seconds of a round, as Pollux and Tiresias are run in the simulators published with Pollux and Sia.
ROUND_S = 60.0
