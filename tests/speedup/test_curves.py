import numpy as np
import pytest

from optplan.errors import DataError
from optplan.schema import FrozenModel
from optplan.speedup import AmdahlSpeedup, PowerSpeedup, Speedup, SpeedupCurve, TableSpeedup
from optplan.speedup.curves import list_widths

TABLE = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.8, 1.2]}
CURVES = [
    TABLE,
    {**TABLE, "speedup": [[1.0, 1.8, 3.0], [1.0, 2.0, 4.0]]},
    {"form": "amdahl", "serial_fraction": 0.25},
    {"form": "amdahl", "serial_fraction": [0.25, 0.5, 1.0]},
    {"form": "power", "exponent": 0.5},
    {"form": "power", "exponent": [0.0, 1.0]},
]
FORMS: dict[str, type[FrozenModel]] = {"table": TableSpeedup, "amdahl": AmdahlSpeedup, "power": PowerSpeedup}


@pytest.mark.parametrize(("data", "epochs"), list(zip(CURVES, [None, 2, None, 3, None, 2], strict=True)))
def test_every_form_meets_the_common_interface(data: dict[str, object], epochs: int | None) -> None:
    """A curve says how many epochs it tells apart, gives (epochs, widths), and reads back what it wrote."""
    curve = FORMS[str(data["form"])].parse(data)
    assert isinstance(curve, SpeedupCurve)
    assert curve.num_epochs == epochs
    assert curve.at(np.array([1, 4])).shape == (epochs or 1, 2)
    assert curve.at(np.array([4, 4, 1]))[:, 0].tolist() == curve.at(np.array([4]))[:, 0].tolist()
    again = type(curve).parse(curve.to_json_data())
    assert again == curve
    assert again.content_hash() == curve.content_hash()


def test_a_table_gives_its_own_numbers_only() -> None:
    """A table is taken as measured, even where it falls, in any order and as often as asked."""
    curve = TableSpeedup.parse(TABLE)
    known = curve.known_widths()
    assert known is not None
    assert known.tolist() == [1, 2, 4]
    assert curve.at(np.array([4, 1, 4])).tolist() == [[1.2, 1.0, 1.2]]


@pytest.mark.parametrize("width", [0, 3, 8])
def test_a_table_refuses_a_width_it_does_not_have(width: int) -> None:
    """Nothing is interpolated between widths or extended beyond them."""
    message = (
        rf"^widths: {width} GPUs are not in the table of speedups, which has 1, 2, 4 GPUs; "
        r"measure the speedup at that width, or choose one of the table's$"
    )
    with pytest.raises(DataError, match=message):
        TableSpeedup.parse(TABLE).at(np.array([2, width]))


def test_long_lists_of_widths_are_shortened() -> None:
    """A message about a long table shows its beginning, its end and its length."""
    assert list_widths(np.arange(1, 17)).endswith("15, 16 GPUs")
    assert list_widths(np.arange(1, 129)) == "1, 2, 3, 4, 5, 6, 7, 8, ..., 128 GPUs (128 widths)"


def test_provenance_is_one_word_per_width() -> None:
    """The origin of each number travels with the table."""
    curve = TableSpeedup.parse({**TABLE, "provenance": ["measured", "measured", "fitted"]})
    assert curve.provenance == ("measured", "measured", "fitted")
    assert TableSpeedup.parse({**TABLE, "provenance": "measured"}).provenance == ("measured",) * 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gpus": []}, r"^gpus: got an array of shape \(0,\); a list of at least one width is needed"),
        ({"gpus": [[1, 2, 4]]}, r"^gpus: got a table of shape \(1, 3\); a list of numbers is needed"),
        ({"gpus": [0, 2, 4]}, r"^gpus: entry \[0\]: got 0; widths of at least 1 GPU are allowed"),
        ({"gpus": [1, 4, 4]}, r"^gpus: entry \[2\]: got 4 after 4; list each width once, in increasing order"),
        ({"gpus": [1, 4, 2]}, r"^gpus: entry \[2\]: got 2 after 4; list each width once, in increasing order"),
        ({"gpus": [1, 1.5, 2]}, r"^gpus: entry \[1\]: got 1.5; whole numbers are needed"),
        ({"speedup": 2.0}, r"^speedup: got an array of shape \(\); a list, or a list of one row per epoch, is needed"),
        ({"speedup": []}, r"^speedup: got an array of shape \(0,\); a list, or a list of one row per epoch, is needed"),
        ({"speedup": [1, 2]}, r"^speedup: 2 values a row for 3 widths; give one value per width in gpus"),
        ({"speedup": [[1, 2], [1, 2]]}, r"^speedup: 2 values a row for 3 widths; give one value per width in gpus"),
        ({"speedup": [1, 0, 2]}, r"^speedup: entry \[1\]: got 0.0; numbers above zero are allowed"),
        ({"speedup": [[1, 2, 3], [1, 2, -1]]}, r"^speedup: entry \[1\]\[2\]: got -1.0; numbers above zero are allowed"),
        (
            {"provenance": ["measured"]},
            r"^provenance: 1 words for 3 widths; give one per width in gpus, or leave it out",
        ),
        (
            {"provenance": ["measured", "by hand", "fitted"]},
            r"^provenance: entry \[1\]: got 'by hand'; one word such as 'measured' is needed",
        ),
        ({"speedups": [1, 2, 3]}, r"^speedups: unknown field 'speedups'; did you mean 'speedup'\?"),
    ],
)
def test_wrong_tables_are_refused(changes: dict[str, object], message: str) -> None:
    """Each fault is reported at its own field with what is allowed there."""
    with pytest.raises(DataError, match=message):
        TableSpeedup.parse({**TABLE, **changes})


class JobClass(FrozenModel):
    """A record that holds any curve."""

    speedup: Speedup


@pytest.mark.parametrize("data", CURVES)
def test_a_field_takes_any_form(data: dict[str, object]) -> None:
    """The field ``form`` decides which record is built, and it is written out again."""
    record = JobClass.parse({"speedup": data})
    assert type(record.speedup) is FORMS[str(data["form"])]
    assert JobClass.parse(record.to_json_data()) == record


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"form": "amdahl", "serial_fraction": 1.5},
            r"^classes\.bert\.speedup\.serial_fraction: got 1\.5; numbers from 0",
        ),
        (
            {**TABLE, "gpus": [2, 1, 4]},
            r"^classes\.bert\.speedup\.gpus: entry \[1\]: got 1 after 2; list each width once",
        ),
        ({"form": "power"}, r"^classes\.bert\.speedup\.exponent: is missing; add it"),
        ({"form": "power", "exponnet": 1}, r"^classes\.bert\.speedup\.exponnet: unknown field .* mean 'exponent'\?"),
        ({"form": "linear"}, r"^classes\.bert\.speedup\.form: got 'linear'; allowed: table, amdahl, power, goodput"),
    ],
)
def test_errors_carry_the_path_of_the_outer_record(data: dict[str, object], message: str) -> None:
    """A fault of a curve inside another record is named by its full path."""
    with pytest.raises(DataError, match=message):
        JobClass.parse({"speedup": data}, path="classes.bert")


@pytest.mark.parametrize(("form", "field"), [(AmdahlSpeedup, "serial_fraction"), (PowerSpeedup, "exponent")])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-0.1, r"got -0\.1; numbers from 0 to 1 are allowed"),
        ([0.5, 1.01], r"entry \[1\]: got 1\.01; numbers from 0 to 1 are allowed"),
        ([], r"got an array of shape \(0,\); a number, or a list of one number per epoch, is needed"),
        ([[0.5]], r"got an array of shape \(1, 1\); a number, or a list of one number per epoch, is needed"),
    ],
)
def test_laws_refuse_parameters_outside_zero_to_one(
    form: type[FrozenModel], field: str, value: object, message: str
) -> None:
    """A serial fraction and an exponent are shares."""
    with pytest.raises(DataError, match=f"^{field}: {message}$"):
        form.parse({field: value})


def test_laws_give_the_textbook_values() -> None:
    """Amdahl: f = 1/4 on 4 GPUs is 1 / (1/4 + 3/16) = 16/7; power: 4 ** (1/2) = 2."""
    assert AmdahlSpeedup.parse({"serial_fraction": 0.25}).at(np.array([4]))[0, 0] == pytest.approx(16 / 7, rel=1e-15)
    assert PowerSpeedup.parse({"exponent": 0.5}).at(np.array([4]))[0, 0] == pytest.approx(2.0, rel=1e-15)
    # Real-valued widths come from closed-form optima: 2.25 ** (1/2) = 1.5.
    assert PowerSpeedup.parse({"exponent": 0.5}).at(np.array([2.25]))[0, 0] == pytest.approx(1.5, rel=1e-15)


def test_the_extremes_of_the_laws_are_exact() -> None:
    """Perfect scaling is k and no scaling is 1 without rounding, so that k / s(k) has exact ties."""
    k = np.arange(1, 1001)
    for curve in (AmdahlSpeedup.parse({"serial_fraction": [0, 1]}), PowerSpeedup.parse({"exponent": [1, 0]})):
        perfect, none = curve.at(k)
        assert perfect.tolist() == k.tolist()
        assert none.tolist() == [1.0] * 1000
        assert curve.known_widths() is None
    # One GPU is the unit for any fraction.
    assert (AmdahlSpeedup.parse({"serial_fraction": list(np.linspace(0, 1, 77))}).at(np.array([1])) == 1.0).all()


@pytest.mark.parametrize(
    "curve", [AmdahlSpeedup.parse({"serial_fraction": 0.1}), PowerSpeedup.parse({"exponent": 0.9})]
)
@pytest.mark.parametrize(("width", "shown"), [(0, "0"), (-4, "-4"), (0.5, "0.5"), (np.inf, "inf"), (np.nan, "nan")])
def test_laws_refuse_widths_below_one(curve: AmdahlSpeedup | PowerSpeedup, width: float, shown: str) -> None:
    """The laws are defined from one GPU on."""
    message = rf"^widths: entry \[1\]: got {shown}; widths of at least 1 GPU are allowed; choose widths of at least one"
    with pytest.raises(DataError, match=message):
        curve.at(np.array([1.0, width]))
