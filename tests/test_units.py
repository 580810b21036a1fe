"""Quantities as users write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.errors import UsageError
from optplan.units import (
    HOURS_PER_MONTH,
    Amount,
    BudgetUnit,
    format_duration,
    parse_bandwidth,
    parse_budget,
    parse_bytes,
    parse_duration,
    round_up_duration,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60s", 60), ("20min", 1200), ("1.5h", 5400), ("2 d", 172800), ("250ms", 0.25), (" 3 hours ", 10800)],
)
def test_durations_become_seconds(text: str, seconds: float) -> None:
    """A number and a unit of time give seconds."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("120gpu", BudgetUnit.GPU),
        ("80gpu-min", BudgetUnit.GPU_MINUTE),
        ("3usd", BudgetUnit.USD),
        ("3 USD", BudgetUnit.USD),
        ("10000usd/month", BudgetUnit.USD_PER_MONTH),
        ("1.5usd/h", BudgetUnit.USD_PER_HOUR),
    ],
)
def test_budgets_keep_their_unit(text: str, unit: BudgetUnit) -> None:
    """A budget is a number and what it counts."""
    assert parse_budget(text).unit is unit


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("$5000/month", "5000usd/month"),
        ("5,000 usd/month", "5000usd/month"),
        ("5k usd/month", "5000usd/month"),
        ("$1.5k/week", "1500usd/week"),
        ("$2M / month", "2000000usd/month"),
        ("$12,345.5", "12345.5usd"),
        ("$ 45 per hour", "45usd/hour"),
        ("3 usd a day", "3usd/day"),
        ("1,200gpu", "1200gpu"),
        ("$5k usd/month", "5000usd/month"),
    ],
)
def test_money_is_read_as_people_write_it(text: str, amount: str) -> None:
    """Dollar signs, commas between thousands, k and M, and words between the amount and its period."""
    assert parse_budget(text) == parse_budget(amount)


@given(st.floats(1e-9, 1e12), st.sampled_from(BudgetUnit))
def test_amounts_survive_being_written(value: float, unit: BudgetUnit) -> None:
    """What is written is read back as the same amount."""
    assert parse_budget(str(Amount(value, unit))) == Amount(value, unit)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("120", "budget: '120' has no known unit; use one of gpu"),
        ("120cpu", "'120cpu' has no known unit"),
        ("gpu", "cannot read 'gpu'; write a number and a unit, as in 120gpu"),
        ("-3usd", "got '-3usd'; a finite number above zero is needed"),
        ("0gpu", "a finite number above zero is needed"),
        ("1e999gpu", "a finite number above zero is needed"),
        ("nangpu", "cannot read 'nangpu'"),
        ("5,5 usd", "'5,5 usd' has no known unit"),
        ("$5/fortnight", "'$5/fortnight' has no known unit"),
        ("5m usd", "'5m usd' has no known unit"),
        ("1" + 400 * "0" + "gpu", r"^budget: got '10{55}\.\.\.; a finite number above zero is needed$"),
        (100 * "x", r"^budget: cannot read 'x{56}\.\.\.; write a number"),
        ("1" + 100 * "x", r"^budget: '1x{55}\.\.\. has no known unit"),
    ],
)
def test_wrong_budgets_say_what_to_write(text: str, message: str) -> None:
    """Every refusal names the text and shows the form."""
    with pytest.raises(UsageError, match=message.replace("(", r"\(").replace("$5", r"\$5")):
        parse_budget(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [("20", "deadline: '20' has no known unit of time"), ("soon", "deadline: cannot read"), ("-1s", "above zero")],
)
def test_wrong_durations_name_the_option(text: str, message: str) -> None:
    """The name of the option stands in the message."""
    with pytest.raises(UsageError, match=message):
        parse_duration(text, what="deadline")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.5, "0.5 s"),
        (48, "48 s"),
        (3214, "53 min 34 s"),
        (7500, "2 h 05 min"),
        (273600, "3 d 04 h"),
        (3895, "1 h 05 min"),
        (3599.6, "1 h 00 min"),
        (86399, "1 d 00 h"),
        (-90, "-1 min 30 s"),
    ],
)
def test_durations_are_written_for_readers(seconds: float, text: str) -> None:
    """Two units at most, the larger first."""
    assert format_duration(seconds) == text


def test_a_month_is_a_twelfth_of_a_year() -> None:
    """365 * 24 / 12 = 730 hours."""
    assert HOURS_PER_MONTH == 730


@pytest.mark.parametrize(
    ("text", "size"), [("4B", 4), ("9kB", 9000), ("1.5 MB", 1_500_000), ("16MiB", 2**24), ("0.5GiB", 2**29)]
)
def test_sizes_become_bytes(text: str, size: int) -> None:
    """Powers of a thousand and of 1024 are told apart by their names."""
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("16Mb", r"size: '16Mb' has no known unit of size; use one of B, kB, MB, GB, KiB, MiB, GiB, as in 16MiB"),
        ("16", "size: '16' has no known unit of size"),
        ("0.3B", "size: got '0.3B', which is 0.3 bytes; a whole number of bytes is needed"),
        ("-4B", "size: got '-4B'; a finite number above zero is needed"),
        ("big", "size: cannot read 'big'; write a number and a unit, as in 16MiB, 9kB or 4B"),
    ],
)
def test_sizes_that_cannot_be_read_are_explained(text: str, message: str) -> None:
    """Bits are not taken for bytes, and no unit is guessed."""
    with pytest.raises(UsageError, match=message):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "gbit_per_s"), [("400gbit", 400), ("12.5 Gbit/s", 12.5), ("50GB/s", 400), ("125 MB/s", 1)]
)
def test_bandwidths_become_gbit_per_s(text: str, gbit_per_s: float) -> None:
    """Eight bits to a byte."""
    assert parse_bandwidth(text) == pytest.approx(gbit_per_s)


@pytest.mark.parametrize("text", ["400", "400Gb/s", "50GB", "50 GB/min"])
def test_bandwidths_that_cannot_be_read_are_explained(text: str) -> None:
    """Sizes are no bandwidths, and a b may be a bit or a byte."""
    with pytest.raises(UsageError, match=f"bandwidth: '{text}' has no known unit of bandwidth; use gbit or GB/s"):
        parse_bandwidth(text)


@pytest.mark.parametrize(
    ("seconds", "rounded"), [(0.2, 1.0), (59.0, 59.0), (599.01, 600.0), (3601.0, 3660.0), (86401.0, 90000.0)]
)
def test_durations_are_rounded_up_to_what_is_shown(seconds: float, rounded: float) -> None:
    """To seconds below an hour, to minutes below a day, else to hours: what is shown is never less than needed."""
    assert round_up_duration(seconds) == rounded
