"""Mathematics of the problem's world that the judge and the solvers both use: no limits, no objective."""
