"""What nccl-tests prints: hand-made samples, and every way in which they can be wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from optplan.errors import DataError, UsageError
from optplan.profiling.allreduce_data import Place
from optplan.profiling.nccl_tests import read_nccl_tests

PLACE = Place("g4dn.4xlarge", region="us-west-2")

#: Two ranks, so that bus and algorithm bandwidth are the same. 33,554,432 B in 14,059 us are 2.3867 GB/s.
TABLE = """\
some words of the launcher
# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 33554432 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1
#
# Using devices
#  Rank  0 Group  0 Pid   6899 on ip-10-0-0-1 device  0 [0000:00:1e] Tesla T4
#  Rank  1 Group  0 Pid   6900 on ip-10-0-0-2 device  0 [0000:00:1e] Tesla T4
NCCL version 2.28.7+cuda12.9
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    60.10    0.00    0.00      0    59.20    0.00    0.00    N/A
    33554432       8388608     float     sum      -1    14059    2.39    2.39      0    14100    2.38    2.38      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 1.19
#
"""

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write what nccl-tests would."""

    def save(content: str, name: str = "out.txt") -> Path:
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return path

    return save


def test_both_columns_of_the_table_are_read(write: Write) -> None:
    """The bandwidth comes from the time: where the table rounds to 0.00, it is 8 B in 60.1 us."""
    data = read_nccl_tests([write(TABLE)], PLACE)
    assert [row.size_bytes for row in data.rows] == [8, 8, 33554432, 33554432]
    gbit_per_s = [row.bus_gbit_per_s for row in data.rows]
    times_s = (60.1e-6, 59.2e-6, 14059e-6, 14100e-6)
    sizes = (8, 8, 33554432, 33554432)
    assert gbit_per_s == pytest.approx([8 * size / time / 1e9 for size, time in zip(sizes, times_s, strict=True)])
    assert {row.ranks for row in data.rows} == {2}
    assert data.rows[0].place == Place("g4dn.4xlarge", region="us-west-2", gpu="Tesla T4")
    assert not any(row.synthetic for row in data.rows)


def test_one_column_may_be_chosen(write: Write) -> None:
    """Frameworks reduce in place."""
    both = read_nccl_tests([write(TABLE)], PLACE).rows
    paths = [write(TABLE), write(TABLE, "again.txt")]
    assert read_nccl_tests(paths, PLACE, which="in-place").rows == 2 * both[1::2]
    assert read_nccl_tests(paths, PLACE, which="out-of-place").rows == 2 * both[::2]


def test_several_runs_in_one_file_keep_their_ranks(write: Write) -> None:
    """A second run on three ranks: 4/3 of the size is sent; tags of mpirun are taken off."""
    third = TABLE.replace(
        "NCCL version", "#  Rank  2 Group  0 Pid 1 on c device  0 [0000:00:1e] Tesla M60\nNCCL version"
    ).replace("    2.39    2.39 ", "    2.39    3.18 ")
    third = third.replace("    2.38    2.38 ", "    2.38    3.17 ")
    tagged = "".join(f"[1,0]<stdout>:{line}\n" for line in (TABLE + third).splitlines())
    rows = read_nccl_tests([write(tagged)], PLACE).rows
    assert [row.ranks for row in rows] == [2] * 4 + [3] * 4
    assert rows[-1].place.gpu == "Tesla M60 + Tesla T4"
    assert rows[-1].bus_gbit_per_s == pytest.approx(8 * 33554432 * 4 / 3 / 14100e-6 / 1e9)


def test_old_tables_and_times_of_day(write: Write) -> None:
    """Without the column root, with errors instead of #wrong, without devices; and with a timestamp at the end."""
    old = (
        "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
        "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
        "     1048576        262144   float     sum    500.0    2.10    2.10  0e+00    500.0    2.10    2.10  0e+00\n"
    )
    assert {row.ranks for row in read_nccl_tests([write(old)], PLACE, ranks=2).rows} == {2}
    stamped = "\n".join(
        line + ("  2026-11-02 10:00:00" if line[:12].strip().isdecimal() else " timestamp" if "count" in line else "")
        for line in TABLE.splitlines()
    )
    assert len(read_nccl_tests([write(stamped)], PLACE).rows) == 4


def test_switches_have_another_factor(write: Write) -> None:
    """With NVLS nccl-tests counts (n - 1) / (n + 1): a third for two ranks; the ring's counts all the same."""
    switched = TABLE.replace("    2.39    2.39 ", "    2.39    0.80 ").replace("    2.38    2.38 ", "    2.38    0.79 ")
    rows = read_nccl_tests([write(switched)], PLACE).rows
    assert rows[2].bus_gbit_per_s == pytest.approx(8 * 33554432 / 14059e-6 / 1e9)


def test_empty_buffers_are_no_all_reduces(write: Write) -> None:
    """nccl-tests times sizes from 0 on where it is asked to."""
    row = "0  0  float  sum  -1  5.10  0.00  0.00  0  5.20  0.00  0.00  0\n"
    assert len(read_nccl_tests([write(TABLE.replace("# Out of bounds", row + "# Out of bounds"))], PLACE).rows) == 4


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("all_reduce_perf", "/opt/all_gather_perf", r"out\.txt:3: is a run of all_gather_perf; all-reduces are needed"),
        ("    time", " cputime", r"out\.txt:12: has CPU times; measure without the option -C"),
        ("(us)", "(ms)", r"out\.txt:13: has the units .*; microseconds and GB/s are understood"),
        ("(GB/s)", "(Gb/s)", r"out\.txt:13: has the units .*; microseconds and GB/s are understood"),
        (
            " #wrong     time   algbw   busbw #wrong",
            " #wrong",
            r"out\.txt:12: has the columns .*; time and busbw are needed",
        ),
        ("0    59.20", "x    59.20", r"out\.txt:14: #wrong is 'x'; a number is needed"),
        (
            "    2.39    2.39 ",
            "    2.39    4.78 ",
            r"out\.txt:15: time 14059 means 19\.09 Gbit/s among 2 ranks, and so does",
        ),
        (
            "    2.39    2.39      0",
            "    2.39    2.39      7",
            r"out\.txt:15: sums are wrong \(out-of-place\); mend the",
        ),
        ("    14059 ", "     0.00 ", r"out\.txt:15: time 0\.00 is no time; measure again, or leave the row out"),
        ("    14059 ", "      nan ", r"out\.txt:15: time is 'nan'; a number above zero is needed"),
        (
            "  2.38    2.38      0\n",
            "  2.38\n",
            r"out\.txt:15: has 11 fields where the header has 13; the line may be cut",
        ),
        (
            "    33554432  ",
            f"    {'9' * 9_000}  ",
            r"out\.txt:15: has a size of .*; whole bytes up to 2\^53 are understood",
        ),
        (
            "#  Rank  1 Group  0",
            "#  Rank  1 Group  1",
            r"out\.txt: has 2 groups of ranks, whose all-reduces ran at once",
        ),
    ],
)
def test_wrong_tables_are_refused_with_their_line(write: Write, old: str, new: str, message: str) -> None:
    """Another collective, other units, figures that do not fit, lines that are cut off."""
    assert old in TABLE
    with pytest.raises(DataError, match=message):
        read_nccl_tests([write(TABLE.replace(old, new))], PLACE)


def test_other_files_are_told_apart(write: Write) -> None:
    """By what they lack."""
    with pytest.raises(DataError, match=r"out\.txt: has no table of nccl-tests; give what all_reduce_perf wrote"):
        read_nccl_tests([write("hello\n")], PLACE)
    with pytest.raises(DataError, match=r"out\.txt: has no row of nccl-tests' table"):
        read_nccl_tests([write("".join(TABLE.splitlines(keepends=True)[:13]))], PLACE)
    with pytest.raises(DataError, match=r"nowhere\.txt: no such file"):
        read_nccl_tests([Path("nowhere.txt")], PLACE)
    with pytest.raises(UsageError, match=r"paths: give at least one file"):
        read_nccl_tests([], PLACE)


def test_ranks_have_to_be_known_and_to_agree(write: Write) -> None:
    """From the devices or from the caller, who may not contradict them."""
    with pytest.raises(DataError, match=r"out\.txt: has 2 ranks, and 4 are said; leave the number out, or correct it"):
        read_nccl_tests([write(TABLE)], PLACE, ranks=4)
    nameless = "".join(line for line in TABLE.splitlines(keepends=True) if "Rank" not in line)
    with pytest.raises(DataError, match=r"out\.txt: does not say how many ranks took part; say it"):
        read_nccl_tests([write(nameless)], PLACE)
    alone = "".join(line for line in TABLE.splitlines(keepends=True) if "Rank  1" not in line)
    with pytest.raises(DataError, match=r"out\.txt: has 1 rank; an all-reduce has two ranks or more"):
        read_nccl_tests([write(alone)], PLACE)
