"""Declarative models as programs: their rows read from Pyomo, solved by HiGHS, and what is known of their answers."""
