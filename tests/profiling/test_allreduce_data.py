"""Measured all-reduces and their CSV: units are read from names, and nothing impossible comes in."""

from __future__ import annotations

from pathlib import Path

import pytest

from optplan.errors import DataError, DataWarning
from optplan.profiling.allreduce_data import (
    AllreduceData,
    Measurement,
    Origin,
    Place,
    bandwidth_of,
    format_csv,
    read_measurements,
    time_of,
)

PLACE = Place("p3.8xlarge", "ec2", "us-west-2", "us-west-2a", "V100", "Xeon", 16, 244, 10)


def _write(folder: Path, text: str) -> Path:
    path = folder / "measured.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_bandwidth_and_time_are_two_ways_to_say_one_thing() -> None:
    """1 MB among 4 ranks: each sends 1.5 MB, 12 Mbit; in 1 ms that is 12 Gbit/s."""
    assert bandwidth_of(1_000_000, 4, 1e-3) == pytest.approx(12.0)
    assert time_of(1_000_000, 4, 12.0) == pytest.approx(1e-3)
    assert Measurement(PLACE, 1_000_000, 4, 12.0).time_s == pytest.approx(1e-3)


def test_tables_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    """Every digit, and which rows are synthetic."""
    rows = (
        Measurement(PLACE, 4, 2, 0.1 + 0.2, transfers=3),
        Measurement(Place("bare"), 2**29, 64, 11.9, synthetic=True),
    )
    data = AllreduceData(rows)
    again = read_measurements(_write(tmp_path, format_csv(data)))
    assert again.rows == rows
    assert again.fingerprint == data.fingerprint
    assert data.origin is Origin.MIXED
    assert data.label.startswith("PARTLY SYNTHETIC all-reduces, fingerprint ")


def test_the_fingerprint_is_that_of_the_content(tmp_path: Path) -> None:
    """Neither the order of rows nor that of columns, nor 16 for 16.0, matters; one figure does."""
    one, two = Measurement(PLACE, 8000, 2, 1.0), Measurement(PLACE, 8000, 2, 2.0)
    data = AllreduceData((one, two))
    assert AllreduceData((two, one)).fingerprint == data.fingerprint
    text = "ranks,bus_gbit_per_s,cpu_cores,size_bytes,vm_type\n2,1,16,8000,a\n"
    turned = "vm_type,size_bytes,ranks,cpu_cores,bus_gbit_per_s\na,8000,2,16.0,1.0\n"
    prints = {read_measurements(_write(tmp_path, each)).fingerprint for each in (text, turned)}
    assert len(prints) == 1
    assert AllreduceData((one, Measurement(PLACE, 8000, 2, 2.5))).fingerprint != data.fingerprint


def test_what_a_row_does_not_say_is_taken_from_the_caller(tmp_path: Path) -> None:
    """The row's own GPU counts; its type of VM and cores come from outside."""
    path = _write(tmp_path, "gpu,cpu_cores,ranks,size_bytes,bus_gbit_per_s\nT4,,2,1000,50\n")
    place = read_measurements(path, unless_said=Place("g4dn", gpu="V100", cpu_cores=8)).rows[0].place
    assert place == Place("g4dn", gpu="T4", cpu_cores=8)


def test_columns_that_are_not_read_are_named(tmp_path: Path) -> None:
    """Not dropped in silence."""
    path = _write(tmp_path, "vm_type,ranks,size_bytes,bus_gbit_per_s,operator,memory\na,2,8,.1,Ann,4\n")
    with pytest.warns(DataWarning, match=r"measured\.csv: columns that are not read: 'operator', 'memory'"):
        read_measurements(path)


HEADER = "vm_type,ranks,size_bytes,bus_gbit_per_s\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "vm_type,ranks,size_bytes,busbw\na,2,8,1\n",
            r"measured\.csv: no column bus_gbit_per_s; found vm_type, ranks, size_bytes, busbw; add it, or name so "
            "what is in that unit: GB/s of bus bandwidth, as nccl-tests writes, are eight Gbit/s",
        ),
        (
            "vm_type,ranks,size_bytes,Gbps\na,2,8,1\n",
            "no column bus_gbit_per_s; found vm_type, ranks, size_bytes, Gbps",
        ),
        (
            "vm_type,ranks,size_bytes,time\na,2,8,1\n",
            "no column bus_gbit_per_s; found vm_type, ranks, size_bytes, time",
        ),
        (
            "vm_type,ranks,size,bus_gbit_per_s\na,2,8,1\n",
            "no column size_bytes; found vm_type, ranks, size, bus_gbit_per_s",
        ),
        ("vm_type,ranks,size_bytes\na,2,8\n", "no column bus_gbit_per_s; found vm_type, ranks, size_bytes; add it"),
        (
            "vm_type,size_bytes,bus_gbit_per_s\na,2,8\n",
            "no column ranks; found vm_type, size_bytes, bus_gbit_per_s; add it",
        ),
        (
            "ranks,size_bytes,bus_gbit_per_s\n2,8,50\n",
            r"measured\.csv: no column vm_type; add it, or say which type of VM",
        ),
        (HEADER, r"measured\.csv: has a header and no rows"),
        (
            HEADER + "a,2,8,.1\na,2,8,0\n",
            r"measured\.csv:3: bus_gbit_per_s is 0\.0; a bandwidth above zero is needed; leave out all-reduces that",
        ),
        (HEADER + "a,2,8,1e400\n", r"measured\.csv:2: bus_gbit_per_s is '1e400'; a number of at least 0 is needed"),
        (HEADER + "a,2,8,0e999\n", r"measured\.csv:2: bus_gbit_per_s is 0\.0; a bandwidth above zero is needed"),
        (HEADER + "a,2,8,-1\n", r"measured\.csv:2: bus_gbit_per_s is '-1'; a number of at least 0 is needed"),
        (HEADER + "a,2,8,\n", r"measured\.csv:2: bus_gbit_per_s is ''; a number of at least 0 is needed"),
        (HEADER + "a,2,8,fast\n", r"measured\.csv:2: bus_gbit_per_s is 'fast'; a number of at least 0 is needed"),
        (HEADER + "a,1,8,1\n", r"measured\.csv:2: ranks is 1; an all-reduce has two ranks or more"),
        (HEADER + "a,2,0,1\n", r"measured\.csv:2: size_bytes is '0'; a whole number of at least 1 is needed"),
        (HEADER + ",2,8,1\n", r"measured\.csv:2: vm_type is empty; name the type of VM"),
        # 10 GB/s in bytes instead of Gbit/s.
        (HEADER + "a,2,1000000000,1e10\n", r"measured\.csv:2: .*which no network carries; up to 100000 is believed"),
        # 64 bits at 1.28 Tbit/s.
        (
            HEADER + "a,2,8,1280\n",
            r"measured\.csv:2: .*: 8 bytes in 5e-11 s; no all-reduce takes less than 1e-07 s; check units",
        ),
        (
            "vm_type,ranks,size_bytes,bus_gbit_per_s,origin\na,2,8,.1,invented\n",
            r"measured\.csv:2: origin is 'invented'; known: measured, synthetic",
        ),
        (
            "vm_type,ranks,size_bytes,bus_gbit_per_s,origin\na,2,8,.1,Measured\n",
            r"measured\.csv:2: origin is 'Measured'; did you mean 'measured'",
        ),
        (
            "vm_type,ranks,size_bytes,bus_gbit_per_s,rated_gbit_per_s\na,2,8,.1,0\n",
            r"measured\.csv:2: rated_gbit_per_s is 0\.0; a number above zero is needed; leave it empty if not known",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    """A missing unit, a zero, and figures that no network can have."""
    with pytest.raises(DataError, match=message):
        read_measurements(_write(tmp_path, text))


def test_there_has_to_be_a_row() -> None:
    """Nothing can be learned from nothing."""
    with pytest.raises(DataError, match="measurements: there are none"):
        AllreduceData(())


def test_a_measurement_is_checked_where_it_is_made() -> None:
    """Not only when it is read."""
    with pytest.raises(DataError, match=r"bus_gbit_per_s: is 0\.0; a bandwidth above zero is needed"):
        Measurement(PLACE, 8, 2, 0.0)
    with pytest.raises(DataError, match="transfers: is 0; whole numbers from 1 on are allowed"):
        Measurement(PLACE, 8, 2, 1.0, transfers=0)
