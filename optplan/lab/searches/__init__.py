"""SEER and its rivals, searched on a clock of their own: trials as curves that were measured once."""
