from __future__ import annotations

from optplan.instances.library import build_named
from optplan.reporting.comparison import compare
from optplan.reporting.differences import Difference, write_values


def _row(a: str, b: str) -> Difference:
    return Difference("job", "layers", "job.layers", "", a, b)


def test_long_lists_show_the_first_entry_that_differs() -> None:
    """Of 30 entries only no. 17 is shown, and how many there are; short lists stand as they are."""
    one = [str(number) for number in range(30)]
    other = [*one[:16], "x", *one[17:]]
    texts = write_values(_row(", ".join(one), ", ".join(other)))
    assert texts == ("no. 17: 16 (30 in all)", "no. 17: x (30 in all)")
    assert write_values(_row("1, 2", "1, 3")) == ("1, 2", "1, 3")


def test_lists_of_other_lengths_and_things_without_a_list() -> None:
    """Where one list ends the other goes on, that is said; what is no list stands as it is."""
    one = ", ".join(str(number) for number in range(30))
    assert write_values(_row(one, f"{one}, 30")) == ("30 in all", "no. 31: 30 (31 in all)")
    assert write_values(_row(one, "none")) == ("no. 1: 0 (30 in all)", "none")


def test_rates_by_the_second_are_no_durations() -> None:
    """A network's Gbit/s is a number, a deadline a time."""
    rows = {row.path: row for row in compare(build_named("srift-case3"), build_named("srift-case2")).rows}
    assert rows["types.g3.8xlarge.network_gbit_per_s"].unit == rows["global_batch"].unit
    row = rows["types.g3.8xlarge.network_gbit_per_s"]
    assert (row.of, row.what) == ("g3.8xlarge", "network gbit per s")
    assert rows["deadline_s"].unit == "s"
