from pathlib import Path

import numpy as np
import pytest

from optplan.errors import DataError
from optplan.lab.traces.sia_workloads import APPLICATIONS, read_workload, repeat_workload

HEADER = "name,time,application,num_replicas,batch_size\n"


def write(folder: Path, text: str, name: str = "jobs.csv") -> Path:
    """Write a file and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_jobs_are_read_in_order(tmp_path: Path) -> None:
    """Three jobs of two applications; the last arrives at 3700 s, so the trace is taken to last two hours."""
    path = write(tmp_path, HEADER + "bert-0,5,bert,2,24\ncifar10-1,5,cifar10,4,512\nbert-2,3700.5,bert,1,12\n")
    workload = read_workload(path)
    assert workload.applications == ("bert", "cifar10")
    assert workload.application_index.tolist() == [0, 1, 0]
    assert workload.submission_s.tolist() == [5.0, 5.0, 3700.5]
    assert workload.job_names == ("bert-0", "cifar10-1", "bert-2")
    assert workload.requested_gpus is not None
    assert workload.requested_gpus.tolist() == [2, 4, 1]
    assert workload.requested_batch_sizes is not None
    assert workload.requested_batch_sizes.tolist() == [24, 512, 12]
    assert workload.submission_s.size == 3
    assert workload.jobs_per_application == {"bert": 2, "cifar10": 1}
    assert (workload.span_s, workload.span_source) == (7200.0, "last arrival, rounded up to a full hour")


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    """Another order, further columns, a byte order mark, empty lines and other line ends change nothing."""
    rows = (
        "\ufeffapplication,extra,time,name,batch_size,num_replicas\r\n\r\nbert,x,1.5,a,24,2\r\nbert,y,2,b,12,1\r\n\r\n"
    )
    workload = read_workload(write(tmp_path, rows))
    assert workload.job_names == ("a", "b")
    assert workload.submission_s.tolist() == [1.5, 2.0]
    assert workload.requested_gpus is not None
    assert workload.requested_gpus.tolist() == [2, 1]


def test_columns_that_are_not_used_are_not_needed(tmp_path: Path) -> None:
    """Names, times and applications are enough; what a rigid scheduler would be asked for is not decided here."""
    workload = read_workload(write(tmp_path, "name,time,application\na,0,bert\nb,1,cifar10\n"))
    assert workload.jobs_per_application == {"bert": 1, "cifar10": 1}
    assert workload.requested_gpus is None
    assert workload.requested_batch_sizes is None


@pytest.mark.parametrize(
    ("folder", "span_h", "hours", "source"),
    [
        ("newtrace", None, 48.0, "nominal span of newtrace"),
        ("philly", None, 8.0, "nominal span of philly"),
        ("workloads-2.0", None, 8.0, "nominal span of workloads-2.0"),
        ("philly", 12.5, 12.5, "given by the caller"),
        ("mine", None, 1.0, "last arrival, rounded up to a full hour"),
    ],
)
def test_the_span_and_where_it_comes_from(
    tmp_path: Path, folder: str, span_h: float | None, hours: float, source: str
) -> None:
    """The caller's word comes first, then the family's nominal span, then the last arrival (one hour at least)."""
    workload = read_workload(write(tmp_path / folder, HEADER + "a,0,bert,1,12\n"), span_h=span_h)
    assert (workload.span_s, workload.span_source) == (3600.0 * hours, source)


def test_a_last_arrival_at_a_full_hour_is_not_rounded_up(tmp_path: Path) -> None:
    """7200 s are two hours."""
    assert read_workload(write(tmp_path, HEADER + "a,7200,bert,1,12\n")).span_s == 7200.0


def test_records_cannot_be_changed(tmp_path: Path) -> None:
    """Arrays are read-only."""
    workload = read_workload(write(tmp_path, HEADER + "a,0,bert,1,12\n"))
    with pytest.raises(ValueError, match="read-only"):
        workload.submission_s[0] = 1.0


JOB = "a,0,bert,1,12\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"jobs.csv: the file is empty; its first line must name the columns"),
        ("\n\n", r"jobs.csv: the file is empty"),
        (HEADER, r"jobs.csv: the file names its columns and holds no job; add one row per job$"),
        (
            "name,time,app\na,0,bert\n",
            r"jobs.csv: no column application; found name, time, app; needed name, time, "
            r"application; rename or add the columns in the first line$",
        ),
        ("time," + HEADER, r"jobs.csv: two columns are named time; keep one of them$"),
        (
            HEADER + JOB + "b,1,bert,1",
            r"jobs.csv:3: 4 fields where the header has 5; complete the row; the file may be",
        ),
        (HEADER + JOB + "b,1,bert,1,12,9", r"jobs.csv:3: 6 fields where the header has 5"),
        (HEADER + JOB + "b,1x,bert,1,12", r"jobs.csv:3: time is '1x'; a number of at least 0 is needed; correct the"),
        (HEADER + JOB + "b,,bert,1,12", r"jobs.csv:3: time is ''; a number of at least 0"),
        (HEADER + JOB + "b,nan,bert,1,12", r"jobs.csv:3: time is 'nan'; a number of at least 0"),
        (HEADER + JOB + "b,inf,bert,1,12", r"jobs.csv:3: time is 'inf'; a number of at least 0"),
        (HEADER + "b,-1,bert,1,12\n", r"jobs.csv:2: time is '-1'; a number of at least 0"),
        (
            HEADER + "a,7.5,bert,1,12\nb,7,bert,1,12\n",
            r"jobs.csv:3: time is 7, after 7.5 in the row before; sort the jobs by time$",
        ),
        (HEADER + JOB + "b,1,brt,1,12", r"jobs.csv:3: unknown application 'brt'; did you mean 'bert'\?$"),
        (HEADER + JOB + "a,1,bert,1,12", r"jobs.csv:3: a second job is named 'a'; the first is in line 2; give each"),
        (HEADER + "a,0,bert,0,12", r"jobs.csv:2: num_replicas is '0'; a whole number of at least 1 is needed"),
        (HEADER + "a,0,bert,1,1.5", r"jobs.csv:2: batch_size is '1.5'; a whole number of at least 1 is needed"),
        (HEADER + "a,0,bert,1,x", r"jobs.csv:2: batch_size is 'x'; a whole number of at least 1 is needed"),
        (
            HEADER + 'a,0,"bert,1,12\n',
            r"jobs.csv: line 2 is not valid CSV \(unexpected end of data\); correct the line",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, message: str) -> None:
    """The message names file, line, column and value, and what to do."""
    with pytest.raises(DataError, match=message):
        read_workload(write(tmp_path, text))


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    """A missing file, a folder and a file that is no text."""
    with pytest.raises(DataError, match=r"none.csv: there is no such file; correct the path, or fetch the file$"):
        read_workload(tmp_path / "none.csv")
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory\)"):
        read_workload(tmp_path)
    (tmp_path / "binary.csv").write_bytes(b"name,\xff\n")
    with pytest.raises(DataError, match=r"binary.csv: is not UTF-8 text \(invalid start byte\); save it as a CSV file"):
        read_workload(tmp_path / "binary.csv")


@pytest.mark.parametrize(
    ("span_h", "message"),
    [
        (1.0, r"jobs.csv: the last job arrives at 1.5 h, after the span of 1 h \(given by the caller\); give a longer"),
        (0.0, r"^span_h: got 0.0; hours above zero are allowed; give the length of the trace$"),
        (float("nan"), r"^span_h: got nan; hours above zero are allowed"),
    ],
)
def test_an_impossible_span_is_refused(tmp_path: Path, span_h: float, message: str) -> None:
    """No job arrives after the end of the trace."""
    path = write(tmp_path, HEADER + "a,5400,bert,1,12\n")
    with pytest.raises(DataError, match=message):
        read_workload(path, span_h=span_h)


def test_a_file_that_outgrew_its_family_is_refused(tmp_path: Path) -> None:
    """A trace in a folder named philly does not last longer than eight hours unless the caller says so."""
    path = write(tmp_path / "philly", HEADER + "a,30000,bert,1,12\n")
    with pytest.raises(DataError, match=r"at 8.33333 h, after the span of 8 h \(nominal span of philly\); give"):
        read_workload(path)
    assert read_workload(path, span_h=9.0).span_s == 32400.0


def test_repeating_turns_arrivals_within_the_span(tmp_path: Path) -> None:
    """Three times two jobs over two hours each: the gap between a pair stays, around the end of its span or not."""
    once = read_workload(write(tmp_path, HEADER + "a,600,bert,2,24\nb,4200,cifar10,4,512\n"))
    thrice = repeat_workload(once, 3, seed=4)
    assert thrice.span_s == 3 * once.span_s == 6 * 3600.0
    assert thrice.job_names[:2] == ("a", "b")
    assert (np.diff(thrice.submission_s) >= 0).all()
    at = dict(zip(thrice.job_names, thrice.submission_s.tolist(), strict=True))
    for number in (2, 3):
        assert (at[f"b/{number}"] - at[f"a/{number}"]) % once.span_s == pytest.approx(3600.0)
        assert once.span_s * (number - 1) <= min(at[f"a/{number}"], at[f"b/{number}"]) < once.span_s * number
    asked = dict(zip(thrice.job_names, thrice.requested_gpus.tolist(), strict=True))  # type: ignore[union-attr]
    assert asked == {"a": 2, "b": 4, "a/2": 2, "b/2": 4, "a/3": 2, "b/3": 4}
    assert repeat_workload(once, 3, seed=4).submission_s.tolist() == thrice.submission_s.tolist()
    assert repeat_workload(once, 3, seed=5).submission_s.tolist() != thrice.submission_s.tolist()


def test_large_files_are_read_row_by_row(tmp_path: Path) -> None:
    """Twenty thousand jobs: counts and order are kept."""
    names = ("bert", "cifar10", "yolov3")
    rows = "".join(f"job-{i},{i / 2},{names[i % 3]},4,512\n" for i in range(20_000))
    workload = read_workload(write(tmp_path, HEADER + rows))
    assert workload.jobs_per_application == {"bert": 6667, "cifar10": 6667, "yolov3": 6666}
    assert (np.diff(workload.submission_s) == 0.5).all()


def test_newtrace_workload_1_is_the_papers_trace(data_pack: Path) -> None:
    """Its composition is that of BOA's table 1 (with YOLOv3 at 3.75 %, so that the shares add up), over 48 h."""
    workload = read_workload(data_pack / "sia" / "workloads" / "newtrace" / "workload-1.csv")
    shares = {
        name: round(100 * count / workload.submission_s.size, 2)
        for name, count in workload.jobs_per_application.items()
    }
    assert shares == {"cifar10": 50.42, "bert": 21.67, "deepspeech2": 23.54, "yolov3": 3.75, "imagenet": 0.62}
    assert workload.submission_s.size / workload.span_s * 3600 == pytest.approx(20.0, rel=1e-12)


def test_the_workload_1_of_pollux(data_pack: Path) -> None:
    """66 cifar10, 7 bert and 12 deepspeech2 jobs are the 85 of BOA's experiment on AWS (data README, section 2)."""
    workload = read_workload(data_pack / "adaptdl" / "workloads" / "workload-1.csv")
    assert workload.jobs_per_application == {
        "bert": 7,
        "cifar10": 66,
        "deepspeech2": 12,
        "imagenet": 4,
        "ncf": 68,
        "yolov3": 3,
    }
    assert workload.span_s == 8 * 3600.0


def test_all_public_workloads_are_read(data_pack: Path) -> None:
    """All 30 files of both sources, with the numbers of jobs that the data README states."""
    paths = [*(data_pack / "sia" / "workloads").glob("*/*.csv"), *(data_pack / "adaptdl").glob("workloads*/*.csv")]
    expected = {
        "newtrace": 960,
        "philly": 160,
        "physical": 30,
        "workloads": 160,
        "workloads-0.5": 80,
        "workloads-1.5": 240,
        "workloads-2.0": 320,
        "workloads-realistic": 160,
    }
    assert len(paths) == 30
    for path in paths:
        workload = read_workload(path)
        assert workload.submission_s.size == expected[path.parent.name]
        assert workload.span_source == f"nominal span of {path.parent.name}"
        assert set(workload.applications) <= set(APPLICATIONS)
