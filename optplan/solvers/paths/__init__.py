"""Budgeted paths: a path through each of some graphs, at least total value within limits on what all consume, proven.

Knows no paper. The Lagrangian bound comes by secants for one limit (:mod:`~optplan.solvers.paths.single`) and by column
generation for several (:mod:`~optplan.solvers.paths.linked_dual`); the paths within an allowance above it are
enumerated and merged, and the allowance grows until the best plan lies within it. The graphs are of two kinds: in
:mod:`~optplan.solvers.paths.switching` staying is free and switching costs, by the group left where that matters, under
one limit or several; in :mod:`~optplan.solvers.paths.held_graphs` only growing costs, under one limit.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Every number that tunes a search of this package; none decides what is proven, only how soon."""

    #: One limit: the first allowance as a fraction of the gap, divided by the number of graphs (many graphs have many
    #: alternatives); as a fraction of the gap that is wanted, if that is more; and by how much it grows.
    first_of_gap: float = 1.0 / 16.0
    first_of_wanted: float = 1.0 / 8.0
    growth: float = 4.0
    #: With so many graphs that have alternatives, a choice is sought among some totals of each merge before exhaustion:
    #: at first among so many, and where that does not close the gap among more.
    many_graphs: int = 24
    some_totals: tuple[int, ...] = (512, 2048)
    #: Labels of an enumeration, for each graph, after which the paths of one graph are looked at apart, how much less
    #: listing these may take, and parts of all plans that are made.
    labels_undivided: int = 1_000
    labels_of_sides: float = 0.25
    most_sides: int = 100
    #: Multiples of a multiplier that is given at which paths are looked for.
    around: tuple[float, ...] = (0.6, 0.8, 1.0, 1.25, 1.6)

    #: Several limits: the first allowance as a fraction of the bound, divided by the number of graphs, and its growth.
    first_of_bound: float = 1e-3
    slow_growth: float = 2.0
    #: Labels that one enumeration may keep before branch and price is the better way, and parts that this may look at.
    few_labels: int = 5_000
    most_parts: int = 200_000
    #: Paths among which a choice is looked for by an integer program, besides two per graph: those of least excess; and
    #: nodes of its search tree, so that the outcome does not depend on the machine's speed.
    known_paths: int = 2_000
    choice_nodes: int = 500

    #: Mixed plans: a bound and a master agree when they differ by at most this fraction.
    agreement: float = 1e-10
    #: By what fraction a limit is changed to see what the change is worth; by less where the worth itself changes
    #: sooner; and how much worse than the best bound that of an end of a price may be, relative to what is weighed.
    small_changes: tuple[float, ...] = (1e-7, 1e-9, 1e-11)
    same_bound: float = 1e-7

    #: Held graphs: the first allowance as a fraction of the gap, and candidates that are charged exactly before the
    #: next are compared with the best of them.
    first_of_held_gap: float = 1.0 / 4.0
    offered_at_once: int = 1 << 4
    #: Multiples of the best multiplier whose shortest paths bound what a label can reach, too: labels that have spent
    #: more of the budget than the best paths, or less, are cut by the greater and the lesser ones.
    cut_factors: tuple[float, ...] = (1.0, 0.0, 0.25, 0.5, 2.0, 4.0)
    #: Up to so many nodes costs of growing are looked up.
    few_nodes: int = 512
    #: Pairs of a label and a node, under each cut, that are looked at in one go, which bounds the memory; labels that
    #: are charged in one go, and whole paths that are charged exactly; targets that share what comes from above.
    pairs_at_once: int = 1 << 20
    charged_at_once: int = 1 << 14
    settled_at_once: int = 1 << 5
    targets_at_once: int = 1 << 6

    #: Pairs of totals formed at once: bounds the memory of a merge, and how long it does not look at the clock.
    chunk_pairs: int = 1 << 20
    #: Sets up to this size are filtered all at once, one champion of each per round; champions of a large one that are
    #: compared with the rest at once; and comparisons of two vectors that it may take.
    small_set: int = 64
    champions: int = 32
    comparisons: int = 60_000_000
    #: Steps of label setting between two looks at the limits: about 1 ms where the kernel is compiled.
    label_steps: int = 100_000

    #: Branch and price: graphs and limits, and steps of one pass over all graphs, for which a part is still quick.
    most_rows: int = 150
    most_steps: int = 30_000_000
    #: Divisions that are thought of for each part: from so many parts on, so many of them by numbers of runs, of which
    #: so many at most are bounded at once; and how many are tried in a row that are no better; stretches of
    #: layers in which what a division gains is averaged.
    divisions_considered: int = 16
    parts_by_masks: int = 70
    counts_considered: int = 8
    most_counts: int = 40
    divisions_in_vain: int = 3
    gain_stages: int = 4
    #: How far from the least bound to the incumbent a part may be for the search to go on with it.
    plunge: float = 0.2
    #: What an artificial column costs, as a multiple of the value looked for.
    artificial_cost: float = 10.0
    #: After so many masks, those of tried sides included, a path that was in no basis is left out.
    column_memory: int = 300
    #: Parts between two reports; by how much more paths are known when a choice is looked for among them again, steps
    #: of one such search, and paths of one graph that it looks at.
    parts_between_reports: int = 20
    pool_growth: float = 1.02
    choice_steps: int = 30_000
    choice_paths: int = 300
    #: Parts of the first searches near the incumbent, and the share of all such searches beside the other parts.
    parts_near: int = 20
    share_near: float = 0.4
    #: Passes between two looks at the clock.
    passes_between_looks: int = 4
    #: Rounds of closing nodes by their reduced costs, and the share of open nodes that makes another one worth while.
    fixing_rounds: int = 3
    fixing_worth: float = 0.05
    #: By how much limits, as fractions of themselves in all, are exceeded where no mixture is said to keep them; and
    #: levels of columns that are none.
    lacking: float = 1e-6
    level: float = 1e-7
    #: What limits may be worth by multipliers, relative to a plan: with more, rounding could pass for a proof.
    most_worth: float = 5e5
    #: Significant digits of multipliers: in turn, until they close a part, and of those that do not.
    digits: tuple[int, ...] = (3, 5, 8)
    usual_digits: int = 5
    #: Bounds this much of the gap below the incumbent are as good, up to the usual gap: ties, but for rounding.
    tie: float = 1e-6
    usual_gap: float = 1e-6


TUNING = Tuning()
