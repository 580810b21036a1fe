"""Files: what is refused and in which words, and what is written and how."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.contracts import Instance, Plan, Result, Solution
from optplan.errors import DataError, OutputError, UsageError
from optplan.formulations import formulations
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import BoaPlan
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.planning import SriftPlan
from optplan.instances import files
from optplan.instances.files import (
    format_json,
    read_instance,
    read_plan,
    read_record,
    read_result,
    write_json,
    write_text,
)
from optplan.instances.library import GENERATED, build_named, names
from optplan.instances.parsing import parse_instance
from optplan.instances.plain_data import read_data
from optplan.schema import FrozenModel
from optplan.solving import build_plan, solve

LIBRARY = Path(files.__file__).parent / "library"
NAMED = [name for name in names() if name not in GENERATED]

YAML = """
formulation: boa
gpu_types: {t4: {price_usd_per_hour: 5.26e-1, price_date: 2025-01-01}}
budget: 120gpu
classes:
  bert:
    arrival_rate_per_hour: 1e-1
    epoch_size_gpu_hours: [1, 2.5]
    speedup: {t4: {form: power, exponent: 0.7}}
    widths: {max: 8}
"""


def written(folder: Path, name: str, text: str | bytes) -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.json",
            '{\n"a": 1,\n"b": {"a": 2},\n"a": 3}',
            r"^a\.json:4: names 'a' twice in one object; rename or remove one$",
        ),
        ("a.json", '[{"a": 1}, {"b": "{\\"a\\":", "c": 1,\n "b": 2}]', r"^a\.json:2: names 'b' twice in one object"),
        ("a.json", '{"a": [{"x": 1, "\\u0078": 2}]}', r"^a\.json:1: names 'x' twice in one object"),
        ("a.yaml", "a: 1\nb:\n  c: 1\n  c: 2\n", r"^a\.yaml:4: names 'c' twice in one object; rename or remove one$"),
        ("a.yml", "{a: 1, b: 2,\n a: 3}", r"^a\.yml:2: names 'a' twice in one object"),
        (
            "a.json",
            '{"a": [1, 2',
            r"^a\.json:1: is not JSON \(Expecting ',' delimiter, column 12\); is the file cut short",
        ),
        (
            "a.json",
            '{\n "a": 1,\n',
            r"^a\.json:3: is not JSON \(Expecting property name .*, column 1\); is the file cut short",
        ),
        ("sacct.txt", "JobID|JobName", r"^sacct\.txt:1: is not JSON .*; give JSON or YAML; `optplan import` makes an"),
        ("a.json", "", r"^a\.json:1: is not JSON \(Expecting value, column 1\); is the file cut short"),
        ("a.json", "[" * 100_000, r"^a\.json: is nested too deeply; .*; is it an optplan file\?"),
        ("a.json", "[" + "9" * 5000 + "]", r"^a\.json: is not JSON that can be read .*; shorten the number"),
        ("a.yaml", "a: [1, 2", r"^a\.yaml:1: is not YAML \(expected ',' or '\]', .*\); is the file cut short"),
        ("a.yaml", "a: b: c", r"^a\.yaml:1: is not YAML \(mapping values are not allowed here\)"),
        ("a.yaml", "? [a, b]\n: 1\n", r"^a\.yaml:1: has the name \['a', 'b'\]; names are text"),
        ("a.yaml", "a: &x [*x]", r"^a\.yaml:1: is not YAML \(found unconstructable recursive node\)"),
        ("a.yaml", "a: !!python/name:os.system", r"^a\.yaml:1: is not YAML \(could not determine a constructor"),
        ("a.yaml", "[" * 1500, r"^a\.yaml: is nested too deeply"),
        ("a.json", b'{"a": "\xff\xfe"}', r"^a\.json: is not UTF-8 \(at byte 7\); save it as UTF-8 text"),
        ("a.yaml", b"a: \xff", r"^a\.yaml: is not UTF-8 \(at byte 3\)"),
    ],
)
def test_files_that_are_not_understood_are_refused(tmp_path: Path, name: str, text: str | bytes, message: str) -> None:
    """With the file, the line where there is one, and what to do."""
    with pytest.raises(DataError, match=message):
        read_data(written(tmp_path, name, text))


def test_files_that_cannot_be_opened_are_refused(tmp_path: Path) -> None:
    """A missing file, and a folder."""
    with pytest.raises(DataError, match=r"none\.json: no such file; check the path, or see `optplan list`"):
        read_instance(tmp_path / "none.json")
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory\); a file that you may read is needed"):
        read_data(tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"formulation": "bao"}, r"^x\.json: formulation: got 'bao'; did you mean 'boa'\?$"),
        ({"formulation": "zzz"}, r"^x\.json: formulation: got 'zzz'; known: boa"),
        ({"formulation": 3}, r"^x\.json: formulation: got 3; known: boa"),
        ({"classes": {}}, r"^x\.json: formulation: is missing; an instance names one of: boa"),
        ([1, 2], r"^x\.json: holds a list, not an instance; an object with named fields is needed"),
        (None, r"^x\.json: holds nothing, not an instance"),
        ({"formulation": "boa", "version": 2, "jobs": {}}, r"^x\.json: version: got 2; understood: 1; use the release"),
        ({"formulation": "boa", "version": "1"}, r"^x\.json: version: got '1'; understood: 1"),
        ({"formulation": "boa", "version": True}, r"^x\.json: version: got True; understood: 1"),
    ],
)
def test_instances_of_unknown_kinds_are_refused(tmp_path: Path, data: object, message: str) -> None:
    """Formulation and version come before the fields, which depend on them."""
    with pytest.raises(DataError, match=message):
        read_instance(written(tmp_path, "x.json", json.dumps(data)))
    with pytest.raises(DataError, match=message):
        parse_instance(data, path="x.json")


@pytest.mark.parametrize("reader", [read_plan, read_record])
def test_a_plan_without_its_id_is_refused(tmp_path: Path, reader: Callable[[Path], object]) -> None:
    """Edited by hand and its id left out, or emptied: nobody could tell, so it is no plan."""
    instance = build_named("boa-two-classes")
    data = build_plan(instance, solve(instance)).to_json_data()
    assert reader(written(tmp_path, "p.json", json.dumps(data)))
    edited = data | {"objective": 1.0}
    with pytest.raises(DataError, match=r"plan_id: is .*: the plan was changed by hand; change the instance instead"):
        reader(written(tmp_path, "p.json", json.dumps(edited)))
    del edited["plan_id"]
    for forged in (edited, edited | {"plan_id": ""}):
        with pytest.raises(DataError, match=r"plan_id: is missing, so that nobody can tell .*; make it anew: `optplan"):
            reader(written(tmp_path, "p.json", json.dumps(forged)))


def test_unknown_names_get_the_nearest_one() -> None:
    """A name without an ending is one of the library's."""
    with pytest.raises(
        DataError, match=r"no instance named 'boa-one-tabel' in the library; did you mean 'boa-one-table'\?"
    ):
        read_instance("boa-one-tabel")


def test_what_has_an_ending_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log in the folder where the user stands is no name of the library, so the message leads to its importer."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "sacct.txt", "JobID|JobName")
    with pytest.raises(DataError, match=r"^sacct\.txt:1: .*`optplan import`"):
        read_instance("sacct.txt")
    with pytest.raises(DataError, match=r"^gone\.csv: no such file"):
        read_instance("gone.csv")


@pytest.mark.parametrize("reader", [read_result, read_plan])
def test_results_and_plans_are_told_from_other_files(tmp_path: Path, reader: Any) -> None:  # noqa: ANN401 - a function
    """Not an object, another formulation, another version, or an instance."""
    for text, message in [
        ("[]", r"x\.json: holds a list, not a (result|plan)"),
        ('{"formulation": "bao"}', r"x\.json: formulation: got 'bao'; did you mean 'boa'"),
        ('{"formulation": "boa", "version": 7}', r"x\.json: version: got 7; understood: (3|2); use"),
        (
            (LIBRARY / "boa-one-table.json").read_text(),
            r"x\.json: is an instance, not a (result|plan); give a (result$|plan; `optplan solve INSTANCE --plan )",
        ),
    ]:
        with pytest.raises(DataError, match=message):
            reader(written(tmp_path, "x.json", text))


def test_files_are_called_what_they_are(tmp_path: Path) -> None:
    """A result for an instance, or a plan for a result, is named as such, with the instance that it was made for."""
    instance = read_instance("boa-one-table")
    result = solve(instance)
    write_json(result, tmp_path / "r.json")
    write_json(build_plan(instance, result), tmp_path / "p.json")
    for_it = "such as the one it was made for, 'boa-one-table'"
    with pytest.raises(DataError, match=rf"r\.json: is a result, not an instance; give an instance, {for_it}"):
        read_instance(tmp_path / "r.json")
    with pytest.raises(DataError, match=rf"p\.json: is a plan, not an instance; give an instance, {for_it}"):
        read_instance(tmp_path / "p.json")
    with pytest.raises(DataError, match=r"p\.json: is a plan, not a result; give a result$"):
        read_result(tmp_path / "p.json")
    assert isinstance(read_record(tmp_path / "p.json"), Plan)


def test_yaml_says_the_same_as_json(tmp_path: Path) -> None:
    """1e-1 is a number and a date is text, as in JSON; the content hash is the same."""
    instance = read_instance(written(tmp_path, "x.yaml", YAML))
    write_json(instance, tmp_path / "x.json")
    again = read_instance(tmp_path / "x.json")
    assert again == instance
    assert again.content_hash() == instance.content_hash()
    data = instance.to_json_data()
    assert data["classes"]["bert"]["arrival_rate_per_hour"] == 0.1
    assert data["gpu_types"]["t4"] == {"price_usd_per_hour": 0.526, "price_source": "", "price_date": "2025-01-01"}


def test_yaml_may_share_parts(tmp_path: Path) -> None:
    """Anchors and merge keys; a field of its own goes before a merged one, which is no repetition."""
    text = "base: &base {x: 1, y: 2}\nother:\n  <<: *base\n  x: 3\n"
    assert read_data(written(tmp_path, "x.yaml", text))["other"] == {"x": 3, "y": 2}


def test_a_byte_order_mark_is_no_obstacle(tmp_path: Path) -> None:
    """Some editors write one."""
    assert read_data(written(tmp_path, "x.json", b'\xef\xbb\xbf{"a": 1}')) == {"a": 1}
    assert read_data(written(tmp_path, "x.YAML", b"\xef\xbb\xbfa: 1")) == {"a": 1}


def test_names_in_yaml_are_text(tmp_path: Path) -> None:
    """A class called 1 has to be written '1'."""
    with pytest.raises(DataError, match=r"x\.yaml: classes\.1.*: got 1; input should be a valid string"):
        read_instance(written(tmp_path, "x.yaml", YAML.replace("bert", "1")))


@pytest.mark.parametrize("call", [read_instance, read_result, read_plan, lambda path: files.write_text("text", path)])
@pytest.mark.parametrize("nothing", [None, 3, b"bytes.json"])
def test_paths_are_text_or_paths(call: Callable[[Any], object], nothing: object) -> None:
    """Nothing else is opened."""
    with pytest.raises(
        UsageError, match=f"^path: got {nothing!r}; the path of a file is needed, such as 'result.json'$"
    ):
        call(nothing)


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    """Unless told to."""
    path = written(tmp_path, "x.json", "old")
    with pytest.raises(OutputError, match=r"x\.json exists; give another path, or --force to replace it"):
        write_json(build_named("boa-one-table"), path)
    assert path.read_text() == "old"
    write_json(build_named("boa-one-table"), path, overwrite=True)
    assert read_instance(path) == build_named("boa-one-table")
    assert [each.name for each in tmp_path.iterdir()] == ["x.json"]


@pytest.fixture(params=[0o022, 0o077, 0o002])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """Set what the user's files may not be."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_missing_folders_are_made(tmp_path: Path, umask: int) -> None:
    """And new files are open to whom the umask allows."""
    write_text("text", tmp_path / "a" / "b" / "x.txt")
    assert (tmp_path / "a" / "b" / "x.txt").read_text() == "text"
    assert stat.S_IMODE((tmp_path / "a" / "b" / "x.txt").stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path, mode: int, umask: int) -> None:
    """Whatever the umask says of new files."""
    path = written(tmp_path, "x.json", "old")
    path.chmod(mode)
    write_text("new", path, overwrite=True)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", mode)
    assert umask == os.umask(umask)


def test_links_are_followed(tmp_path: Path) -> None:
    """A link, to a link, to a file in another folder: the file is replaced and the links stay; or made."""
    (tmp_path / "there").mkdir()
    path = written(tmp_path / "there", "x.json", "old")
    (tmp_path / "near.json").symlink_to(path)
    (tmp_path / "far.json").symlink_to("near.json")
    with pytest.raises(OutputError, match=r"far\.json exists; give another path"):
        write_text("new", tmp_path / "far.json")
    write_text("new", tmp_path / "far.json", overwrite=True)
    assert path.read_text() == "new"
    path.unlink()
    write_text("anew", tmp_path / "far.json")
    assert path.read_text() == "anew"
    assert (tmp_path / "near.json").is_symlink()
    assert (tmp_path / "far.json").is_symlink()
    assert [each.name for each in (tmp_path / "there").iterdir()] == ["x.json"]


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    """A pipe and a device stay what they are, also behind a link, and links in a circle lead nowhere."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to(os.devnull)
    for name in ("pipe", "null"):
        with pytest.raises(OutputError, match=rf"{name} is a device, a pipe or a socket, and only regular files are"):
            write_text("text", tmp_path / name, overwrite=True)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OutputError, match=r"a cannot be written \(.*\); give another path"):
        write_text("text", tmp_path / "a", overwrite=True)
    with pytest.raises(OutputError, match=r"cannot be written \(embedded null byte\)"):
        write_text("text", tmp_path / "a\0b", overwrite=True)


def test_a_path_that_cannot_be_written_is_an_output_error(tmp_path: Path) -> None:
    """A file where a folder should be; a folder where the file should be; text that no file can hold."""
    written(tmp_path, "file", "")
    with pytest.raises(OutputError, match=r"x\.json cannot be written \(.*\); give another path"):
        write_text("text", tmp_path / "file" / "x.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match=r"folder cannot be written \(Is a directory\)"):
        write_text("text", tmp_path / "folder", overwrite=True)
    with pytest.raises(OutputError, match=r"x\.json cannot be written \('utf-8' codec can't encode"):
        write_text("\ud800", tmp_path / "x.json")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full half-way: the file that stood there is untouched, and no scratch file stays."""
    path = written(tmp_path, "x.json", "old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", _failing_file(os.fdopen))
    with pytest.raises(OutputError, match=r"x\.json cannot be written \(No space left on device\); give another path"):
        write_text("new", path, overwrite=True)
    monkeypatch.undo()
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OutputError, match="No space left on device"):
        write_text("new", path, overwrite=True)
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["x.json"]


def _failing_file(opening: Any) -> Any:  # noqa: ANN401 - wraps os.fdopen
    """Return an ``fdopen`` whose files take half of the text and fail."""

    def open_failing(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as os.fdopen
        file = opening(*arguments, **options)
        write = file.write

        def write_half(text: str) -> int:
            write(text[: len(text) // 2])
            raise OSError(28, "No space left on device")

        file.write = write_half
        return file

    return open_failing


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
)


@given(JSON)
def test_formatted_json_reads_back(data: object) -> None:
    """Whatever plain data there is, and always the same text for it."""
    text = format_json(data)
    assert json.loads(text) == data
    assert format_json(json.loads(text)) == text


def test_formatted_json_has_a_field_on_each_line_and_a_row_on_one() -> None:
    """Readable by people, and lines to compare in a review."""
    assert format_json({"a": [1.0, 2.5], "b": {"c": [[1], [2]]}, "d": {}, "é": "ü"}) == (
        '{\n "a": [1.0, 2.5],\n "b": {\n  "c": [\n   [1],\n   [2]\n  ]\n },\n "d": {},\n "é": "ü"\n}'
    )


def test_formatted_json_has_no_nan() -> None:
    """It would not be JSON."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        format_json({"a": float("nan")})


@pytest.mark.parametrize("name", NAMED)
def test_instances_results_and_plans_survive_files(
    tmp_path: Path, name: str, solve_once: Callable[[Instance], Result[Solution]]
) -> None:
    """What was written is what is read."""
    instance = read_instance(name)
    result = solve_once(instance)
    plan = build_plan(instance, result)
    for record, reader in ((instance, read_instance), (result, read_result), (plan, read_plan)):
        path = tmp_path / f"{type(record).__name__}.json"
        write_json(record, path)
        assert reader(path) == record


@cache
def validator_of(model: type[FrozenModel]) -> jsonschema.Draft202012Validator:
    """Return what validates by the JSON Schema of a record, which is checked against the standard itself.

    What a definition has accepted it accepts again: the library's files share their classes, which are large.
    """
    schema = model.model_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    refer, accepted = jsonschema.Draft202012Validator.VALIDATORS["$ref"], set()

    def look_once(validator: Any, name: str, part: object, within: object) -> Iterator[Any]:  # noqa: ANN401 - its own
        key = name, hashlib.sha256(json.dumps(part).encode()).digest()
        if key not in accepted:
            faults = list(refer(validator, name, part, within))
            yield from faults
            accepted.update([] if faults else [key])

    extend: Callable[..., Any] = jsonschema.validators.extend
    made: jsonschema.Draft202012Validator = extend(jsonschema.Draft202012Validator, {"$ref": look_once})(schema)
    return made


@pytest.mark.parametrize("name", list(formulations()))
def test_json_schemas_are_valid(name: str) -> None:
    """Of instances, results and plans, and strict: an unknown field is an error for other readers, too."""
    formulation = formulations()[name]
    for model in (formulation.instance_type, formulation.result_type(), formulation.plan_type):
        assert isinstance(model, type)
        assert issubclass(model, FrozenModel)
        schema = validator_of(model).schema
        assert isinstance(schema, Mapping)
        assert schema["additionalProperties"] is False


@pytest.mark.parametrize("name", NAMED)
def test_the_library_s_files_follow_the_schema(name: str, solve_once: Callable[[Instance], Result[Solution]]) -> None:
    """As they stand in their files, where they have one; and the results and plans made of them follow theirs."""
    instance, file = read_instance(name), LIBRARY / f"{name}.json"
    data = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else instance.to_json_data()
    validator_of(type(instance)).validate(data)
    result = solve_once(instance)
    plan = build_plan(instance, result)
    for record in (instance, result, plan):
        validator_of(type(record)).validate(record.to_json_data())
    with pytest.raises(jsonschema.ValidationError, match="'buget' was unexpected"):
        validator_of(type(instance)).validate(data | {"buget": "1gpu"})


def test_the_kind_of_an_instance_can_be_asked_for(tmp_path: Path) -> None:
    """A type checker knows it then; another kind is refused by name. Plans likewise."""
    assert read_instance("boa-two-epochs", BoaInstance).classes
    with pytest.raises(UsageError, match="boa-two-epochs is a BoaInstance; a SriftInstance is needed"):
        read_instance("boa-two-epochs", SriftInstance)
    instance = read_instance("boa-two-epochs", BoaInstance)
    path = tmp_path / "plan.json"
    write_json(build_plan(instance, solve(instance)), path)
    assert read_plan(path, BoaPlan).width_table
    with pytest.raises(UsageError, match=r"plan\.json is a BoaPlan; a SriftPlan is needed"):
        read_plan(path, SriftPlan)
