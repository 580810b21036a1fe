from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.errors import DataError
from optplan.lab.traces.sia_profiles import (
    consolidated_placement,
    passes_to_fit,
    read_learning_curves,
    read_profile_tables,
    smallest_rotation,
)
from optplan.lab.traces.sia_workloads import APPLICATIONS, GPU_NODES, Application, application_named

TOY = Application("toy", "linear", "none", 2, 8, 64, rescale_s=10.0, slowdown=1.5)

PLACEMENTS = """placement,local_bsz,step_time,sync_time
1,4,0.4,0
1,8,0.8,0
2,8,1.0,0.2
2,4,0.5,0.1
21,4,0.7,0.3
12,4,0.9,0.3
"""
SCALABILITY = """num_nodes,num_replicas,local_bsz,step_time,sync_time
2,3,4,1.1,0.6
3,5,4,1.0,0.6
3,5,4,1.2,0.6
"""
RUNS = {
    8: "progress,iteration,metric,grad_sqr,grad_var\n10,10,0.1,2,4\n30,30,0.2,1,4\n",
    64: "progress,iteration,metric,grad_sqr,grad_var\n11,2,0.1,2,4\n29,5,0.2,1,8\n",
}

Edit = Callable[[Path], object]


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    """Return a folder with the profile of one small application."""
    folder = tmp_path / "profiles" / "toy"
    folder.mkdir(parents=True)
    (folder / "placements-duo.csv").write_text(PLACEMENTS, encoding="utf-8")
    (folder / "scalability-duo.csv").write_text(SCALABILITY, encoding="utf-8")
    for size, text in RUNS.items():
        (folder / f"validation-{size}.csv").write_text(text, encoding="utf-8")
    return folder.parent


@given(st.text("123456789", min_size=1, max_size=8))
def test_the_smallest_rotation_is_one_and_is_smallest(placement: str) -> None:
    """Rotating further never makes it smaller, and any rotation leads to the same key."""
    rotations = [placement[i:] + placement[:i] for i in range(len(placement))]
    assert smallest_rotation(placement) == sorted(rotations)[0]
    assert {smallest_rotation(rotation) for rotation in rotations} == {smallest_rotation(placement)}


@pytest.mark.parametrize(
    ("gpus", "per_node", "placement"),
    [(1, 4, "1"), (4, 4, "4"), (5, 4, "14"), (6, 4, "24"), (8, 4, "44"), (13, 4, "1444"), (15, 8, "78"), (3, 1, "111")],
)
def test_consolidated_placements(gpus: int, per_node: int, placement: str) -> None:
    """Full nodes first, the rest on one more, smallest rotation: 4 + 2 is looked up as 24."""
    assert consolidated_placement(gpus, per_node) == placement


def test_tables_are_read_by_placement(profiles: Path) -> None:
    """Rows sorted by local batch, rotations of one placement together and averaged, bounds of the whole file."""
    tables = read_profile_tables(profiles, TOY, "duo")
    assert tables.gpus_per_node == 2  # the largest digit, for a suffix that is not known
    assert sorted(tables.placements) == ["1", "12", "2"]
    assert tables.placements["2"].points.tolist() == [[1, 2, 4], [1, 2, 8]]
    assert tables.placements["2"].times_s.tolist() == [[0.5, 0.1], [1.0, 0.2]]
    assert tables.placements["12"].times_s == pytest.approx(np.array([[0.8, 0.3]]), rel=1e-15)
    assert tables.scalability[3, 5].times_s == pytest.approx(np.array([[1.1, 0.6]]), rel=1e-15)
    assert (tables.min_local_batch, tables.max_local_batch) == (4, 8)


def test_where_step_times_come_from(profiles: Path) -> None:
    """Placements first, then numbers of nodes and GPUs, then interpolation up to the widest row, then the model."""
    tables = read_profile_tables(profiles, TOY, "duo")
    assert [tables.look_up(consolidated_placement(k, 2))[0] for k in range(1, 7)] == [
        "measured",
        "measured",
        "measured",
        "interpolated",
        "measured-scalability",
        "fitted",
    ]
    assert tables.look_up("12")[1] is tables.placements["12"]


def test_the_largest_local_batch_of_a_width(profiles: Path) -> None:
    """Of its own rows, else of rows at least as large, else of the whole profile."""
    tables = read_profile_tables(profiles, TOY, "duo")
    # k = 4 is on two nodes: of the rows with at least 2 nodes and 4 GPUs only (3, 5, 4) is left.
    assert [tables.largest_local_batch(consolidated_placement(k, 2)) for k in (1, 2, 3, 4, 5, 6)] == [8, 8, 4, 4, 4, 8]


def test_a_fit_takes_placements_first(profiles: Path) -> None:
    """All six rows of the placements, and the two of the scalability whose point is new, (3, 5, 4)."""
    tables = read_profile_tables(profiles, TOY, "duo")
    passes = passes_to_fit(tables.placement_passes, tables.scalability_passes)
    assert passes.points.tolist()[6:] == [[3, 5, 4], [3, 5, 4]]
    assert len(passes.times_s) == 8


def test_interpolation_reproduces_a_linear_table(profiles: Path) -> None:
    """Step times 0.1 b + 0.05 N + 0.01 k are met between the points, and NaN is returned outside their hull."""
    rows = [(n, k, b) for n, k in ((1, 1), (1, 2), (2, 2), (2, 4), (4, 8)) for b in (4, 8)]
    in_placements = "".join(
        f"{'1' * (2 * n - k) + '2' * (k - n)},{b},{0.1 * b + 0.05 * n + 0.01 * k},{0.001 * b}\n" for n, k, b in rows
    )
    header = PLACEMENTS.splitlines()[0]
    (profiles / "toy" / "placements-duo.csv").write_text(f"{header}\n{in_placements}", encoding="utf-8")
    (profiles / "toy" / "scalability-duo.csv").write_text(SCALABILITY.splitlines()[0] + "\n", encoding="utf-8")
    tables = read_profile_tables(profiles, TOY, "duo")
    found = tables.interpolate(np.array([[2, 3, 5], [3, 6, 7], [3, 6, 9], [5, 8, 4]]))
    assert found[:2] == pytest.approx(np.array([[0.5 + 0.13, 0.005], [0.7 + 0.21, 0.007]]), rel=1e-12)
    assert np.isnan(found[2:]).all()


def test_repeats_are_averaged_within_tables_and_then_between(profiles: Path) -> None:
    """At (2, 3, 4) the placements say 0.7 and 0.9, mean 0.8, the scalability 1.1: the point counts as 0.95."""
    rows = "\n4,7,4,2,1\n4,8,8,2,1\n1,2,12,2,1\n"
    (profiles / "toy" / "scalability-duo.csv").write_text(SCALABILITY.strip() + rows, encoding="utf-8")
    found = read_profile_tables(profiles, TOY, "duo").interpolate(np.array([[2, 3, 4]]))
    assert found[0, 0] == pytest.approx(0.95, rel=1e-12)


def test_points_in_one_plane_have_no_inside(profiles: Path) -> None:
    """On one node only, nothing lies between measurements of one and of two GPUs on several nodes."""
    one_node = "".join(line + "\n" for line in PLACEMENTS.splitlines()[:5])
    (profiles / "toy" / "placements-duo.csv").write_text(one_node, encoding="utf-8")
    (profiles / "toy" / "scalability-duo.csv").write_text(SCALABILITY.splitlines()[0] + "\n", encoding="utf-8")
    found = read_profile_tables(profiles, TOY, "duo").interpolate(np.array([[1, 1, 4]]))
    assert np.isnan(found).all()


def test_learning_curves_are_read(profiles: Path) -> None:
    """Epochs end at the least progress of all files; iterations are counted for each epoch."""
    curves = read_learning_curves(profiles, TOY)
    assert curves.batch_sizes.tolist() == [8, 64]
    assert curves.progress.tolist() == [0.0, 10.0, 29.0]
    assert curves.iterations.tolist() == [[10.0, 2.0], [20.0, 3.0]]
    assert curves.gradients.grad_sqr.tolist() == [[2.0, 2.0], [1.0, 1.0]]
    assert curves.gradients.grad_var.tolist() == [[4.0, 4.0], [4.0, 8.0]]


def test_epochs_beyond_the_last_are_not_read(profiles: Path) -> None:
    """An application with one epoch takes the first row."""
    assert read_learning_curves(profiles, replace(TOY, epochs=1)).progress.tolist() == [0.0, 10.0]


def test_known_nodes_have_their_number_of_gpus(profiles: Path) -> None:
    """A known suffix takes the number of its machine."""
    for kind in ("placements", "scalability"):
        (profiles / "toy" / f"{kind}-duo.csv").rename(profiles / "toy" / f"{kind}-aws.csv")
    assert read_profile_tables(profiles, TOY, "aws").gpus_per_node == 4


@pytest.mark.parametrize(
    ("name", "gpu", "message"),
    [
        ("tox", "duo", r"profiles: has no folder 'tox' with profiles; did you mean 'toy'\?$"),
        ("toy", "trio", r"^gpu: .*toy has no profile for GPU type 'trio'; it has profiles for: duo$"),
    ],
)
def test_what_is_missing_is_said_with_what_there_is(profiles: Path, name: str, gpu: str, message: str) -> None:
    """A wrong name is answered with the names that exist."""
    with pytest.raises(DataError, match=message):
        read_profile_tables(profiles, replace(TOY, name=name), gpu)


def test_missing_folders_and_files_are_named(profiles: Path) -> None:
    """The folder of profiles, an empty folder, the second file of a profile."""
    with pytest.raises(DataError, match=r"elsewhere: there is no such folder; give the folder with one folder per"):
        read_profile_tables(profiles / "elsewhere", TOY, "duo")
    (profiles / "toy" / "scalability-duo.csv").unlink()
    with pytest.raises(DataError, match=r"scalability-duo.csv: there is no such file"):
        read_profile_tables(profiles, TOY, "duo")
    (profiles / "bare").mkdir()
    with pytest.raises(DataError, match=r"has no profile for GPU type 'duo'; fetch the profiles$"):
        read_profile_tables(profiles, replace(TOY, name="bare"), "duo")


HEAD = PLACEMENTS.splitlines()[0]
SCALABILITY_HEAD = SCALABILITY.splitlines()[0]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("placements", "", r"placements-duo.csv: the file is empty"),
        ("placements", HEAD, r"placements-duo.csv: the file names its columns and holds no measurement"),
        ("placements", f"{HEAD}\n1,4,0.4", r"placements-duo.csv:2: 3 fields where the header has 4"),
        ("placements", f"{HEAD}\n1,4,0.4s,0", r"placements-duo.csv:2: step_time is '0.4s'; a number of at least 0"),
        ("placements", f"{HEAD}\n1,4,0.4,-1", r"placements-duo.csv:2: sync_time is '-1'; a number of at least 0"),
        ("placements", f"{HEAD}\n1,4.5,0.4,0", r"placements-duo.csv:2: local_bsz is '4.5'; a whole number of at"),
        ("placements", f"{HEAD}\n1,4,0.4,0.4", r"placements-duo.csv:2: sync_time is 0.4 and step_time 0.4; the first"),
        ("placements", f"{HEAD}\n102,4,1,0", r"placements-duo.csv:2: placement is '102'; one digit from 1 to 9 per"),
        ("placements", f"{HEAD}\n,4,1,0", r"placements-duo.csv:2: placement is ''; one digit from 1 to 9 per node"),
        (
            "placements",
            "placement,local_bsz,step\n1,4,1\n",
            r"placements-duo.csv: no column step_time, sync_time; found placement, local_bsz, step; needed placement,",
        ),
        (
            "scalability",
            f"{SCALABILITY_HEAD}\n3,2,4,1,0",
            r"scalability-duo.csv:2: num_replicas is 2 on 3 nodes; at least one GPU per node is needed",
        ),
    ],
)
def test_what_is_wrong_with_a_table_is_said(profiles: Path, file: str, text: str, message: str) -> None:
    """The message names file, line, column and value."""
    (profiles / "toy" / f"{file}-duo.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_profile_tables(profiles, TOY, "duo")


RUN_HEAD = RUNS[8].splitlines()[0]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda folder: (folder / "validation-64.csv").unlink(),
            r"toy: toy trains at batch sizes 8 to 64; there are learning curves \(validation-<batch size>.csv\) for: 8",
        ),
        (
            lambda folder: [path.unlink() for path in folder.glob("validation-*")],
            r"learning curves \(validation-<batch size>.csv\) for: none; fetch the missing files$",
        ),
        (
            lambda folder: (folder / "validation-big.csv").write_text(RUNS[8], encoding="utf-8"),
            r"validation-big.csv: 'big' is not a batch size; name the file validation-<batch size>.csv$",
        ),
        (
            lambda folder: (folder / "validation-64.csv").write_text(f"{RUN_HEAD}\n11,2,0.1,2,4\n", encoding="utf-8"),
            r"validation-64.csv: 1 rows; one for each of the 2 epochs is needed; fetch the file again",
        ),
        (
            lambda folder: (folder / "validation-8.csv").write_text(
                f"{RUN_HEAD}\n10,10,0,2,4\n9,30,0,1,4\n", encoding="utf-8"
            ),
            r"toy: progress goes from 10 to 9 in epoch 1 \(from 0\); correct the file: progress must grow in each",
        ),
        (
            lambda folder: (folder / "validation-8.csv").write_text(
                f"{RUN_HEAD}\n10,10,0,2,4\n30,10,0,1,4\n", encoding="utf-8"
            ),
            r"validation-8.csv: iteration goes from 10 to 10 in epoch 1 \(from 0\)",
        ),
        (
            lambda folder: (folder / "validation-8.csv").write_text(
                f"{RUN_HEAD}\n10,10,0,-2,4\n30,20,0,1,4\n", encoding="utf-8"
            ),
            r"validation-8.csv:2: grad_sqr is '-2'; a number of at least 0 is needed",
        ),
    ],
)
def test_what_is_wrong_with_learning_curves_is_said(profiles: Path, edit: Edit, message: str) -> None:
    """Missing, misnamed, truncated and falling curves."""
    edit(profiles / "toy")
    with pytest.raises(DataError, match=message):
        read_learning_curves(profiles, TOY)


def test_known_applications_are_found_by_name() -> None:
    """A misspelt name is answered with the nearest one."""
    assert application_named("cifar10").max_batch_size == 4096
    with pytest.raises(DataError, match=r"^application: unknown application 'cifar'; did you mean 'cifar10'\?$"):
        application_named("cifar")


def test_public_profiles_have_what_their_facts_say(data_pack: Path) -> None:
    """Batch sizes, epochs, GPUs per node and profiled nodes of the constants are those of the files."""
    traces = data_pack / "sia" / "traces"
    for application in APPLICATIONS.values():
        if application.pipeline:
            continue
        curves = read_learning_curves(traces, application)
        assert curves.batch_sizes[0] == application.init_batch_size
        assert curves.batch_sizes[-1] == application.max_batch_size
        assert len(curves.iterations) == application.epochs
        for node in GPU_NODES.values():
            tables = read_profile_tables(traces, application, node.name)
            passes = passes_to_fit(tables.placement_passes, tables.scalability_passes)
            assert max(int(digit) for key in tables.placements for digit in key) == node.gpus_per_node
            assert passes.points[:, 0].max() == node.profiled_nodes
            assert all(key == smallest_rotation(key) for key in tables.placements)
