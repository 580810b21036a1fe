"""Logs as CSV: columns, separators, zones, run tables of W&B and MLflow, and every complaint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from optplan.errors import DataError, UsageError
from optplan.instances.job_logs.records import RULES, Rule

if TYPE_CHECKING:
    from tests.instances.job_logs.conftest import Read

PLAIN = "name,submit,start,end,gpus\na,2026-03-02T00:00,2026-03-02T01:00,2026-03-02T03:00,4\n"
#: Midnight of 2 March 2026 in Greenwich.
MIDNIGHT = 1772409600.0


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace("\n", "\r\n"),
        b"\xef\xbb\xbf" + PLAIN.encode(),
        PLAIN.replace("name,", "Job Name,").replace("submit", "Submit_Time"),
        PLAIN.replace("T00:00", " 00:00:00+00:00"),
        PLAIN.replace("T00:00", "T00:00:00.000Z"),
        PLAIN.replace("2026-03-02T00:00", str(int(MIDNIGHT))),
        PLAIN.replace("2026-03-02T00:00", str(int(MIDNIGHT) * 1000)),
        PLAIN.replace("T00:00", " 00:00:00 UTC"),
    ],
)
def test_one_job_in_many_guises(read: Read, text: str | bytes) -> None:
    """Separators, ends of lines, a byte order mark, other usual names, and ways to write a time change nothing."""
    (job,), left_out = read(text)
    assert (job.name, job.submit_s, job.wait_s, job.run_s, job.gpus) == ("a", MIDNIGHT, 3600.0, 7200.0, 4)
    assert str(left_out) == ""


def test_times_without_a_zone(read: Read) -> None:
    """Are in the one that is named; those that say theirs are not."""
    (job,), _ = read(PLAIN, timezone="America/New_York")
    assert job.submit_s == MIDNIGHT + 5 * 3600.0
    (job,), _ = read(PLAIN.replace("T00:00", "T00:00Z"), timezone="America/New_York")
    assert job.submit_s == MIDNIGHT


def test_times_in_another_form(read: Read) -> None:
    """As strptime has it."""
    text = "submit,hours,gpus\n02.03.2026 00:00,1.5,2\n"
    (job,), _ = read(text, time_format="%d.%m.%Y %H:%M")
    assert (job.submit_s, job.run_s) == (MIDNIGHT, 5400.0)
    with pytest.raises(DataError, match=r"'02\.03\.2026 00:00' is no time in the form ISO 8601.*--time-format"):
        read(text)


def test_columns_can_be_named(read: Read) -> None:
    """What the user names goes before what is usual, and every job can be given a number of GPUs."""
    text = "Queued,Run,job,kind\n2026-03-02T00:00,90,x1,vision\n"
    (job,), _ = read(text, columns={"submit": "Queued", "minutes": "Run"}, gpus=2, class_column="kind")
    assert (job.name, job.label, job.run_s, job.gpus) == ("x1", "vision", 5400.0, 2)


def test_a_run_table_of_weights_and_biases(read: Read) -> None:
    """Runtime is in seconds, Created is the submission, a crashed run failed."""
    text = (
        '"Name","State","Created","Runtime","GPU Count","GPU Type","lr"\n'
        '"sunny-lake-1","finished","2026-03-02T00:00:00.000Z","3600","8","NVIDIA A100","0.1"\n'
        '"bold-sun-2","crashed","2026-03-02T02:00:00.000Z","60","8","NVIDIA A100","0.1"\n'
        '"late-sky-3","running","2026-03-02T03:00:00.000Z","60","8","NVIDIA A100","0.1"\n'
    )
    jobs, _ = read(text)
    assert [(job.run_s, job.gpus, job.gpu_type) for job in jobs] == [
        (3600.0, 8, "NVIDIA A100"),
        (60.0, 8, "NVIDIA A100"),
        (None, 8, "NVIDIA A100"),
    ]


def test_run_tables_of_mlflow(read: Read) -> None:
    """What its pages download has durations with units; what its API gives, start and end."""
    page = (
        "Start Time,Duration,Run ID,Name,Source Type,Source Name,User,Status,num_gpus\n"
        "2026-03-02 00:00:00,1.5min,r1,bert,LOCAL,t.py,ann,FINISHED,4\n"
        "2026-03-02 01:00:00,0ms,r2,bert,LOCAL,t.py,ann,FAILED,4\n"
    )
    jobs, _ = read(page)
    assert [(job.name, job.run_s, job.gpus) for job in jobs] == [("bert", 90.0, 4), ("bert", 0.0, 4)]
    api = (
        "run_id,status,start_time,end_time,params.gpus,tags.mlflow.runName\n"
        "r1,FINISHED,2026-03-02 00:00:00.5+00:00,2026-03-02 00:01:00.5+00:00,4,bert\n"
        "r2,SCHEDULED,,,4,bert\n"
    )
    (job,), left_out = read(api)
    assert (job.name, job.run_s, job.gpus, job.wait_s) == ("bert", 60.0, 4, None)
    assert left_out.count("jobs without a time") == 1


def test_the_same_id_twice(read: Read) -> None:
    """One after the other they are attempts of one job; at once, two jobs."""
    header = "id,submit,start,end,gpus\n"
    first = "7,2026-03-02T00:00,2026-03-02T00:00,2026-03-02T02:00,1\n"
    after = "7,2026-03-02T00:00,2026-03-02T05:00,2026-03-02T06:00,1\n"
    during = "7,2026-03-02T00:00,2026-03-02T01:00,2026-03-02T03:00,1\n"
    (job,), _ = read(header + first + after)
    assert job.run_s == 3 * 3600.0
    jobs, left_out = read(header + first + during)
    assert len(jobs) == 2
    assert "ids that come twice at overlapping times" in str(left_out)


def test_times_that_cannot_be(read: Read) -> None:
    """A run of ten years and more is a wrong date; one that starts before it was submitted has not waited."""
    header, good = "submit,start,end,gpus\n", "2026-03-02T00:00,2026-03-02T00:00,2026-03-02T02:00,1\n"
    jobs, left_out = read(header + good + good.replace("2026-03-02T02:00", "9026-03-02T02:00"))
    assert [job.run_s for job in jobs] == [7200.0]
    assert left_out.count("jobs that waited or ran for more than ten years") == 1
    jobs, left_out = read(header + good + good.replace("2026-03-02T00:00", "1969-03-02T00:00", 1))
    assert left_out.count("jobs that waited or ran for more than ten years") == 1
    late = good.replace("2026-03-02T00:00", "2026-03-02T00:30", 1)
    jobs, left_out = read(header + good + late)
    assert [job.wait_s for job in jobs] == [0.0, 0.0]
    assert left_out.count("waits of jobs that start before they were submitted, taken for none") == 1
    _, left_out = read(header + late.replace("00:30", "00:01"))  # clocks of two machines differ by so much
    assert str(left_out) == ""


def test_only_jobs_of_a_span_and_of_a_type(read: Read) -> None:
    """What was submitted before it, at its end or later, and on another type, is left out."""
    text = "submit,hours,gpus,gpu_type\n"
    for day, kind in ((1, "t4"), (2, "t4"), (3, "a100"), (4, "t4")):
        text += f"2026-03-0{day},1,1,{kind}\n"
    (job,), left_out = read(text, since="2026-03-02", until="2026-03-04", gpu_type="t4")
    assert job.submit_s == MIDNIGHT
    assert left_out.count("jobs submitted outside the span") == 2
    assert left_out.count("jobs on a100") == 1


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("name,gpus,hours\na,1,1\n", {}, r"no column says when jobs were submitted.*as in --columns submit=NAME"),
        ("submit,gpus\n2026-03-02,1\n", {}, r"no column says for how long jobs ran.*--columns elapsed=NAME"),
        ("submit,hours\n2026-03-02,1\n", {}, r"how many GPUs jobs had \(or give --gpus N for all\); found submit, ho"),
        ("submit,hours,gpus\n2026-03-02,1,1\n", {"columns": {"sbmit": "x"}}, r"columns: 'sbmit' is not known; did"),
        ("submit,hours,gpus\n2026-03-02,1,1\n", {"columns": {"name": "nme"}}, r"no column 'nme'; known: submit, hours"),
        ("submit,hours,gpus\n2026-03-02,1,0\n", {}, r"no job that can be used; 1 jobs without GPUs \(first: line 2\)"),
        ('submit,hours,gpus\n2026-03-02,"5,62",1\n', {}, r"'5,62' is no duration; .*with a decimal point"),
        ("submit,hours,gpus\n2026-03-02,1,2.5\n", {}, r"gpus is '2\.5'; a whole number from 0 to 1,000,000 is needed"),
        ("", {}, r"no column says when jobs were submitted .*; found nothing"),
        (b"\xff\xfes\x00u\x00", {}, r"log\.txt: is not UTF-8 text .*save it as a CSV file in UTF-8"),
        (
            "submit,start,end,gpus\n2026-03-02,2026-03-03,2026-03-02,1\n",
            {},
            r"1 of 1 rows cannot be used: 1 jobs that end before they start \(first: line 2\); check --from, --columns",
        ),
    ],
)
def test_tables_that_are_refused(read: Read, text: str | bytes, options: dict[str, object], message: str) -> None:
    """Each with what was found and what to do."""
    with pytest.raises(DataError, match=message):
        read(text, **options)


def test_a_time_zone_that_there_is_not(read: Read) -> None:
    """It is the call's fault."""
    with pytest.raises(UsageError, match=r"timezone: got 'Berlin', which is no time zone of this system; write it as"):
        read(PLAIN, timezone="Berlin")


def test_which_jobs_completed(read: Read) -> None:
    """Those that ended well, without a break; a state of the user's own that is kept is taken for an end, too."""
    head = "id,submit,start,hours,gpus,state\n"
    rows = {
        "1": ("finished",),
        "2": ("failed",),
        "3": ("timeout",),
        "4": ("preempted", "finished"),
        "5": ("finished", "finished"),
        "6": ("archived",),
    }
    text = head + "".join(
        f"{name},2026-03-02T{name.zfill(2)}:00,2026-03-02T{int(name) + 6 * at:02d}:00,1,2,{state}\n"
        for name, states in rows.items()
        for at, state in enumerate(states)
    )
    jobs, _ = read(text, rules=RULES | {"archived": Rule.KEEP})
    assert [job.completed for job in jobs] == [True, False, False, False, True, True]
    assert [job.run_s for job in jobs] == [3600.0, 3600.0, 3600.0, 7200.0, 7200.0, 3600.0]
