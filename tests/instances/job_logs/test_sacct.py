"""What ``sacct --parsable2`` prints: ids, resources, states, and every complaint."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest

from optplan.errors import DataError
from optplan.instances import csv_tables
from optplan.instances.job_logs.records import RULES, Rule
from optplan.instances.job_logs.sacct import read_gpus

if TYPE_CHECKING:
    from tests.instances.job_logs.conftest import Read

HEADER = "JobID|JobName|User|State|Submit|Start|End|Elapsed|AllocTRES|ReqTRES\n"
FOUR = "billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=1"


def _line(
    id_: str, *, state: str = "COMPLETED", start: str = "02T01:00:00", elapsed: str = "01:00:00", tres: str = FOUR
) -> str:
    """Write a job submitted on 2 March at midnight."""
    begun = f"2026-03-{start}" if start[0].isdigit() else start
    return f"{id_}|train|ann|{state}|2026-03-02T00:00:00|{begun}|Unknown|{elapsed}|{tres}|{tres}\n"


@pytest.mark.parametrize(
    ("tres", "gpus", "kind"),
    [
        (FOUR, 4, "a100"),
        ("cpu=4,gres/gpu=2,node=1", 2, ""),
        ("gres/gpu:a100=2,gres/gpu:v100=1", 3, "a100"),
        ("billing=4,cpu=4,mem=8G,node=1", 0, ""),
        ("", 0, ""),
    ],
)
def test_gpus_of_resources(tres: str, gpus: int, kind: str) -> None:
    """The untyped number is the total; typed ones name the type, and add up where there is no total."""
    assert read_gpus(tres) == (gpus, kind)


def test_a_job_and_its_steps(read: Read) -> None:
    """A day, two hours, three minutes and four seconds are 93,784 s; its steps are no jobs."""
    text = HEADER + _line("7", elapsed="1-02:03:04") + _line("7.batch") + _line("7.extern") + _line("7.0")
    (job,), left_out = read(text, "sacct")
    assert (job.name, job.gpus, job.gpu_type, job.run_s, job.wait_s) == ("train", 4, "a100", 93784.0, 3600.0)
    assert str(left_out) == ""


def test_times_are_those_of_the_clusters_zone(read: Read) -> None:
    """Midnight in Berlin is an hour earlier in Greenwich in winter."""
    (there,), _ = read(HEADER + _line("7"), "sacct", timezone="Europe/Berlin")
    (here,), _ = read(HEADER + _line("7"), "sacct")
    assert (here.submit_s or 0.0) - (there.submit_s or 0.0) == 3600.0


def test_tasks_of_an_array_are_jobs(read: Read) -> None:
    """Two that ran, and of those that wait together 5, 7, 9 and 12."""
    waiting = _line("8_[5-9:2,12%2]", state="PENDING", start="Unknown", elapsed="00:00:00")
    jobs, left_out = read(HEADER + _line("8_1") + _line("8_2") + waiting, "sacct")
    assert len(jobs) == 6
    assert [job.run_s for job in jobs].count(None) == 4
    assert left_out.count("sizes of pending jobs") == 4


def test_components_add_their_gpus_up(read: Read) -> None:
    """A heterogeneous job of four GPUs and two runs on six."""
    text = HEADER + _line("9+0") + _line("9+1", tres="gres/gpu=2")
    (job,), _ = read(text, "sacct")
    assert (job.gpus, job.run_s) == (6, 3600.0)


def test_attempts_of_a_requeued_job_add_their_times_up(read: Read) -> None:
    """An hour, requeued, and another hour: one arrival of two hours; or of one where requeued ones are dropped."""
    text = HEADER + _line("9", state="REQUEUED") + _line("9", start="02T05:00:00")
    (job,), _ = read(text, "sacct")
    assert (job.run_s, job.wait_s) == (7200.0, 3600.0)
    (job,), _ = read(text, "sacct", rules={**RULES, "requeued": Rule.DROP})
    assert job.run_s == 3600.0


@pytest.mark.parametrize(
    ("state", "rule", "run_s"),
    [
        ("COMPLETED", None, 3600.0),
        ("FAILED", None, 3600.0),
        ("OUT_OF_MEMORY", None, 3600.0),
        ("TIMEOUT", None, 3600.0),
        ("PREEMPTED", None, 3600.0),
        ("CANCELLED by 1000", None, 3600.0),
        ("CANCELLED+", None, 3600.0),
        ("RUNNING", None, None),
        ("FAILED", Rule.COUNT, None),
    ],
)
def test_how_a_job_ended_says_what_it_stands_for(
    read: Read, state: str, rule: Rule | None, run_s: float | None
) -> None:
    """What held GPUs counts with its time, what runs still as an arrival, unless a rule says otherwise."""
    rules = RULES if rule is None else {**RULES, "failed": rule}
    (job,), _ = read(HEADER + _line("7", state=state), "sacct", rules=rules)
    assert job.run_s == run_s


def test_dropped_jobs_are_told(read: Read) -> None:
    """A rule, GPUs that are missing, a start that never was: each with its number and first line."""
    text = HEADER + _line("1") + _line("2", state="FAILED") + _line("3", tres="cpu=4")
    text += _line("4", state="CANCELLED by 7", start="None", elapsed="00:00:00")
    jobs, left_out = read(text, "sacct", rules={**RULES, "failed": Rule.DROP})
    assert len(jobs) == 1
    assert str(left_out) == (
        "1 failed jobs (first: line 3); 1 jobs without GPUs (first: line 4); "
        "1 cancelled jobs that never began (first: line 5)"
    )


def test_two_clusters_in_one_log(read: Read) -> None:
    """An id that comes twice at overlapping times is two jobs, and that is told; a row twice is one."""
    text = HEADER + _line("1") + _line("1") + _line("1", start="02T01:30:00")
    jobs, left_out = read(text, "sacct")
    assert len(jobs) == 2
    assert left_out.count("ids that come twice at overlapping times, taken for two jobs") == 1
    assert left_out.count("rows that are repeated") == 1


def test_without_elapsed_the_end_counts(read: Read) -> None:
    """From one to three o'clock are two hours; jobs that end before they start are left out."""
    header = "JobID|State|Submit|Start|End|AllocTRES\n"
    first = "1|COMPLETED|2026-03-02T00:00:00|2026-03-02T01:00:00|2026-03-02T03:00:00|gres/gpu=1\n"
    second = first.replace("1|C", "2|C").replace("T03", "T00")
    (job,), left_out = read(header + first + second, "sacct")
    assert job.run_s == 7200.0
    assert str(left_out) == "1 jobs that end before they start (first: line 3)"


def test_a_log_that_is_cut_off(read: Read) -> None:
    """The rest is read, and the line is told."""
    (_, _), left_out = read(HEADER + _line("0") + _line("1") + "2|train|ann|COMPL", "sacct")
    assert str(left_out) == "1 rows with fields missing or too many (first: line 4)"


def test_a_log_in_another_language(read: Read) -> None:
    """Times as people write them are no times; the message says how to get others."""
    text = HEADER + _line("1").replace("2026-03-02T00:00:00", "2 Mär 00:00")
    with pytest.raises(DataError, match=r"1 of 1 rows cannot be used: .*'2 Mär 00:00' is no time.*SLURM_TIME_FORMAT"):
        read(text, "sacct")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"does not begin with the header of `sacct --parsable2`.*make it anew: sacct --allusers --parsable2"),
        ("JobID      State\n------ ------\n7  COMPLETED\n", r"its first line is 'JobID      State'"),
        ("JobID|State|Submit|Elapsed\n", r"no column AllocTRES or ReqTRES; found JobID, State, Submit, Elapsed; ask"),
        ("JobID|State|Submit|End|AllocTRES\n", r"no column Elapsed, and no Start beside End"),
        (HEADER, r"log\.txt: has no job that can be used; it has no rows"),
        (HEADER + _line("1", tres="cpu=1"), r"has no job that can be used; 1 jobs without GPUs \(first: line 2\)"),
        (HEADER + _line("1", state="FERTIG"), r"log\.txt:2: the state 'fertig' is not known; say what it means, as in"),
    ],
)
def test_logs_that_are_refused(read: Read, text: str, message: str) -> None:
    """Each with what was found and what to do."""
    with pytest.raises(DataError, match=message):
        read(text, "sacct")


def test_a_column_that_is_missing(read: Read) -> None:
    """The column that names classes has to be in the log."""
    with pytest.raises(DataError, match=r"no column Account; found JobID, JobName.*name one of these as --class-col"):
        read(HEADER + _line("1"), "sacct", class_column="Account")
    (job,), _ = read(HEADER + _line("1"), "sacct", class_column="User")
    assert job.label == "ann"


def test_long_logs_need_little_memory(read: Read) -> None:
    """A log of a million jobs has to fit into 2 GB: 2 kB a job, of which a file of 5,000 is a fair sample."""
    text = HEADER + "".join(_line(str(number), elapsed=f"0{number % 9 + 1}:00:00") for number in range(5000))
    tracemalloc.start()
    try:
        jobs, _ = read(text, "sacct")
        peak = tracemalloc.get_traced_memory()[1] - len(text)
    finally:
        tracemalloc.stop()
    assert len(jobs) == 5000
    assert peak < 2000 * 5000


def test_more_gpus_than_a_job_has_cannot_be_read() -> None:
    """A number of ten digits is refused, and not taken for a job without GPUs."""
    with pytest.raises(ValueError, match="gpus is '10000000000'; a whole number from 0 to 1,000,000 is needed"):
        read_gpus("billing=8,gres/gpu=10000000000")


def test_blocks_change_nothing(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read 60 characters at once, or all: ends of lines of three kinds, empty lines, attempts and wrong lines alike."""
    lines = [_line(str(number), start=f"02T01:{number:02d}:00") for number in range(9)]
    lines += [_line("3", start="02T09:00:00"), "\n", "cut|off\n", _line("7.batch"), _line("11", start="never")]
    lines += [_line("12", state="RUNNING", elapsed="1-00:00:00"), _line("13").replace("\n", "\r\n"), _line("14")[:-1]]
    text = HEADER + "".join(lines)
    jobs, left_out = read(text, "sacct")
    assert len(jobs) == 12
    assert str(left_out) == (
        "1 rows with fields missing or too many (first: line 13); 1 rows that cannot be read (first: line 15, 'never' "
        "is no time in the form ISO 8601, as in 2026-03-02T00:37:00); 1 sizes of running jobs (first: line 16)"
    )
    monkeypatch.setattr(csv_tables, "_CHARACTERS_AT_ONCE", 60)
    again, also = read(text, "sacct")
    assert again == jobs
    assert str(also) == str(left_out)


def test_a_line_that_does_not_end(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before all of it is read."""
    monkeypatch.setattr(csv_tables, "LONGEST_LINE", 300)
    monkeypatch.setattr(csv_tables, "_CHARACTERS_AT_ONCE", 200)
    with pytest.raises(DataError, match=r"has a line of 300 characters or more; is it a table\?"):
        read(HEADER + "x" * 1000, "sacct")
