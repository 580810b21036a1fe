"""BOA Constrictor's evaluation on the simulator: its figures, and what the paper does not show.

``python -m paper --data DIR --cells DIR --docs DIR`` runs what is not in the folder of cells
yet and writes the page; ``make bench-paper`` calls it.
"""
