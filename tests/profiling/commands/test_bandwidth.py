"""``optplan bandwidth``, ``optplan import nccl-tests``, and prices of VMs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.instances.files import read_instance
from optplan.profiling.allreduce_data import AllreduceData, format_csv, read_measurements

if TYPE_CHECKING:
    from tests.conftest import Runner

needs_xgboost = pytest.mark.skipif(find_spec("xgboost") is None, reason="the extra learn is not installed")

TABLE = """\
# size count type redop root time algbw busbw #wrong time algbw busbw #wrong
# (B) (elements) (us) (GB/s) (GB/s) (us) (GB/s) (GB/s)
    33554432       8388608     float     sum      -1    14059    2.39    2.39      0    14100    2.38    2.38      0
"""

#: Those of the page on bandwidth.
EXAMPLE = Path(__file__).resolve().parents[3] / "docs" / "examples" / "all-reduces.csv"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for what several tests use."""
    return tmp_path_factory.mktemp("bandwidth")


@pytest.fixture
def made_up(folder: Path) -> Path:
    """Return synthetic measurements on two ranks."""
    path = folder / "made-up.csv"
    rows = tuple(row for row in read_measurements(EXAMPLE).rows if row.ranks == 2)
    path.write_text(format_csv(AllreduceData(rows)), encoding="utf-8")
    return path


@pytest.fixture
def model(run: Runner, folder: Path, made_up: Path) -> Path:
    """Return a model of them."""
    path = folder / "model.json"
    if not path.exists():
        told = run("measure", "bandwidth", made_up, "--folds", "2", "-o", path)
        assert told.code == 0, told.err
        assert "learned from  SYNTHETIC all-reduces, fingerprint" in told.out
        for shown in ("up to 9,000 B", "larger", "MAPE", "pseudo-Huber", "squared error", "log of bandwidth"):
            assert shown in told.out
    return path


def test_results_of_nccl_tests_become_a_table(run: Runner, tmp_path: Path) -> None:
    """Two rows for a size, with the features that the options say."""
    results, output = tmp_path / "out.txt", tmp_path / "measured.csv"
    results.write_text(TABLE, encoding="utf-8")
    features = ("--region", "us-west-2", "--gpu", "T4", "--cpu-cores", "8", "--rated-gbit-per-s", "25")
    told = run("import", "nccl-tests", results, "--vm-type", "g4dn.4xlarge", "--ranks", "2", *features, "-o", output)
    assert told.code == 0, told.err
    assert "2 measured all-reduces, fingerprint" in told.out
    rows = read_measurements(output).rows
    assert [round(row.bus_gbit_per_s, 2) for row in rows] == [19.09, 19.04]
    place = rows[0].place
    assert (place.vm_type, place.region, place.gpu) == ("g4dn.4xlarge", "us-west-2", "T4")
    assert (place.cpu_cores, place.memory_gib, place.rated_gbit_per_s) == (8, None, 25)
    one = run("import", "nccl-tests", results, "--vm-type", "a", "--ranks", "2", "--column", "in-place", "--json")
    assert [round(row["bus_gbit_per_s"], 2) for row in one.data] == [19.04]


@pytest.mark.slow
@needs_xgboost
def test_a_model_becomes_a_table(run: Runner, model: Path, tmp_path: Path) -> None:
    """For an instance's field bandwidth; the source says that it is synthetic."""
    output = tmp_path / "table.json"
    options = (
        "--vm-type",
        "p3.8xlarge",
        "--vm-type",
        "mine=g3.8xlarge",
        "--sizes",
        "1MiB,4B",
        "-o",
        output,
    )
    told = run("import", "bandwidth", model, *options)
    assert told.code == 0, told.err
    assert "boosted trees learned from SYNTHETIC all-reduces" in told.out
    shown = run("import", "bandwidth", model, "--vm-type", "p3.8xlarge", "--vm-type", "mine=g3.8xlarge", "--json").data
    assert list(shown["tables"]) == ["p3.8xlarge", "mine"]
    assert shown["form"] == "table"


@needs_xgboost
def test_a_model_goes_into_an_instance(run: Runner, model: Path, tmp_path: Path) -> None:
    """Which then shows where its bandwidth comes from, and is solved with it."""
    output = tmp_path / "mine.json"
    into = ("--into", "srift-case3", "--vm-type", "g4dn.8xlarge=g4dn.4xlarge", "--name", "learned")
    told = run("import", "bandwidth", model, *into, "-o", output)
    assert told.code == 0, told.err
    assert "SYNTHETIC" in told.out
    assert read_instance(output).name == "learned"
    assert run("solve", output).code == 0


@needs_xgboost
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--vm-type", "p3"), 1, "--vm-type: 'p3' was not measured; known: g3.8xlarge, g4dn.4xlarge, p3.8xlarge"),
        (("--name", "x"), 2, "--name: has a meaning with --into INSTANCE only"),
        (("--ranks", "two"), 2, "--ranks: got 'two'; whole numbers with commas between them are needed"),
        (("--sizes", "4"), 2, "--sizes: '4' has no known unit of size"),
        (("--into", "boa-one-table"), 2, "boa-one-table is a BoaInstance; a SriftInstance is needed"),
        (("--into", "srift-case3"), 1, "--vm-type: 'g4dn.8xlarge' was not measured; did you mean 'g4dn.4xlarge'"),
    ],
)
def test_wrong_calls_of_tabulate_are_explained(
    run: Runner, model: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    """One line on stderr, nothing on stdout."""
    told = run("import", "bandwidth", model, *arguments)
    assert (told.code, told.out) == (code, "")
    assert message in told.err


def test_measurements_are_tabulated_as_they_are(run: Runner, made_up: Path) -> None:
    """Medians, without a model; whether they are synthetic is said here, too."""
    told = run("import", "bandwidth", made_up, "--vm-type", "g3.8xlarge")
    assert told.code == 0, told.err
    assert "medians of SYNTHETIC all-reduces" in told.out


def test_measurements_without_units_are_refused(run: Runner, tmp_path: Path) -> None:
    """Gbit/s and GB/s are told apart by name."""
    path = tmp_path / "measured.csv"
    path.write_text("vm_type,ranks,size_bytes,busbw\na,2,8,50\n", encoding="utf-8")
    told = run("measure", "bandwidth", path)
    assert told.code == 1
    assert "no column bus_gbit_per_s; found vm_type, ranks, size_bytes, busbw; add it, or name so what" in told.err


CATALOG = "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\nquad,V100,4,12.0,3.0,east\n"


def test_prices_of_vms_are_filled_in(run: Runner, tmp_path: Path) -> None:
    """The types of case 3 are spot ones: 3 dollars for the whole VM."""
    catalog = tmp_path / "cloud-2026-05.csv"
    catalog.write_text(CATALOG, encoding="utf-8")
    command = ("import", "prices", "srift-case3", "--catalog", catalog, "--vm-type")
    told = run(*command, "p3.8xlarge=quad", "--name", "priced", "--json")
    assert told.code == 0, told.err
    vm = told.data["types"]["p3.8xlarge"]
    assert (told.data["name"], vm["price_usd_per_hour"], vm["region"], vm["spot"]) == ("priced", 3.0, "east", True)
    assert "a spot price is taken and nothing said of interruptions" in told.err
    wrong = run(*command, "p3=quad", "--json")
    assert wrong.code == 2
    assert "--vm-type: no type of VM 'p3'; " in wrong.error["message"]
