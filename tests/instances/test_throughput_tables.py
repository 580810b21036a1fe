"""Tables of measured speeds become instances, and wrong ones are complained of by line and column."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from optplan.errors import DataError, UsageError
from optplan.instances.throughput_tables import build_throughputs_instance

_HEADER = "type,vms,samples_per_s,price_usd_per_hour\n"


def _write(folder: Path, text: str) -> Path:
    path = folder / "speeds.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_in_any_order_become_measurements(tmp_path: Path) -> None:
    """GPUs are counted in VMs of the type's size, whichever row says it; a price is said once for a type."""
    text = (
        "gpus,samples_per_s,type,configuration,price_usd_per_hour,gpus_per_vm\n"
        "8,250,large,dp8,12,\n16,560,large,tp8 pp2,,8\n2,190,small,,0.75,\n"
    )
    made = build_throughputs_instance(_write(tmp_path, text), samples=1e6, interpolate=True)
    rows = [(row.type, row.vms, row.configuration, row.samples_per_s) for row in made.measurements]
    assert rows == [("large", 1, "dp8", 250.0), ("large", 2, "tp8 pp2", 560.0), ("small", 2, "", 190.0)]
    assert [(vm.price_usd_per_hour, vm.gpus) for vm in made.types.values()] == [(12.0, 8), (0.75, 1)]
    assert (made.name, made.samples, made.interpolate) == ("speeds", 1e6, True)
    assert made.source["speeds"] == "measured or planned elsewhere, from speeds.csv"


def test_given_prices_come_before_the_column(tmp_path: Path) -> None:
    """A number is that of a VM; one that ships also says how many GPUs a VM has, and where the price comes from."""
    path = _write(tmp_path, "type,gpus,samples_per_s,price_usd_per_hour\nt4,4,350,9\nt4,8,600,9\n")
    (vm,) = build_throughputs_instance(path, samples=1, prices={"": 2.0}).types.values()
    assert (vm.price_usd_per_hour, vm.gpus, vm.price_source) == (2.0, 1, "given by the user")
    made = build_throughputs_instance(path, samples=1, prices={"t4": "aws:g4dn.12xlarge"})
    assert [row.vms for row in made.measurements] == [1, 2]
    (vm,) = made.types.values()
    assert (vm.gpus, vm.gpu, vm.instance_type) == (4, "T4", "g4dn.12xlarge")
    assert vm.price_usd_per_hour == pytest.approx(3.912)
    assert "g4dn.12xlarge" in vm.price_source


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "type,vms,samples_per_s,config\n",
            "speeds.csv: column 'config' is not known; did you mean 'configuration'?, or",
        ),
        ("type,vms,gpus,samples_per_s\n", "speeds.csv: has both columns vms and gpus; keep one of them"),
        ("type,samples_per_s\n", "speeds.csv: has no column vms; say how many VMs each row is about, or in gpus how"),
        (
            "vms,samples_per_s\n",
            "speeds.csv: no column type; found vms, samples_per_s; needed type, samples_per_s, vms",
        ),
        (_HEADER, "speeds.csv: has no rows; give a row for each measured speed"),
        (_HEADER + ",1,5,1\n", "speeds.csv:2: type is empty; name the type of VM"),
        (_HEADER + "a,1.5,5,1\n", "speeds.csv:2: vms is '1.5'; a whole number of at least 1 is needed"),
        (_HEADER + "a,1,5,1\na,2,fast,1\n", "speeds.csv:3: samples_per_s is 'fast'; a number of at least"),
        (_HEADER + "a,1,0,1\n", "speeds.csv:2: samples_per_s is '0'; a number of at least"),
        (_HEADER + "a,1,5,free\n", "speeds.csv:2: price_usd_per_hour is 'free'; a number of at least"),
        (
            _HEADER + "a,1,5,1\na,2,9,2\n",
            "speeds.csv:3: price_usd_per_hour of a is 2, and 1 in an earlier row; give all",
        ),
        (
            _HEADER + "a,1,5,1\nb,1,5,\na,1,6,1\n",
            "speeds.csv:4: type, number and configuration are those of line 2; keep",
        ),
        (
            _HEADER + "a,1,5,1\nb,1,5,\n",
            "has no price of b; add a column price_usd_per_hour, of one VM, or give --price b",
        ),
        (_HEADER + "a,1,5\n", "speeds.csv:2: 3 fields where the header has 4"),
        (
            "type,gpus,samples_per_s,price_usd_per_hour,gpus_per_vm\na,6,5,1,4\n",
            "speeds.csv:2: gpus is 6, which is no whole number of VMs with 4 GPUs; leave the row out, or call smaller",
        ),
    ],
)
def test_wrong_tables(text: str, message: str, tmp_path: Path) -> None:
    """Each mistake is named with the line and the column, what is allowed and what to do."""
    with pytest.raises(DataError, match=re.escape(message)):
        build_throughputs_instance(_write(tmp_path, text), samples=1e6)


def test_wrong_prices(tmp_path: Path) -> None:
    """A price is of a type of the table, and says of which where there are several."""
    path = _write(tmp_path, "type,vms,samples_per_s\nt4,1,5\nv100,1,9\n")
    with pytest.raises(
        UsageError, match=r"--price: there are several types; say of which one, as in t4=0\.978usd/hour"
    ):
        build_throughputs_instance(path, samples=1, prices={"": 1.0})
    with pytest.raises(UsageError, match="--price: no type 't5'; known: t4, v100"):
        build_throughputs_instance(path, samples=1, prices={"t5": 1.0})
    with pytest.raises(DataError, match=r"no\.csv: there is no such file"):
        build_throughputs_instance(tmp_path / "no.csv", samples=1)
