"""Checkpoints by URL: sent whole or not taken for it, and those that nobody needs go; needs PyArrow, as Ray does."""

from __future__ import annotations

from pathlib import Path

import pytest

from optplan.errors import OutputError, UsageError
from optplan.execution.records import Checkpoint
from optplan.execution.trial_files import Storage, bring, store

pytestmark = pytest.mark.real
pytest.importorskip("pyarrow", reason='pyarrow is not installed; pip install "optplan[ray]" brings it')


def send(here: Path, url: str, trial: str, number: int) -> Checkpoint:
    """Store a checkpoint of ten bytes and send it."""

    def write(folder: Path) -> None:
        (folder / "deep").mkdir()
        (folder / "deep" / "state").write_text("0123456789", encoding="utf-8")

    return store(here, f"trials/{trial}/checkpoint-{number}", write, url)


def test_what_was_sent_comes_back(tmp_path: Path) -> None:
    """On another machine the folder has the same files; what was not sent to its end is not whole."""
    here, there, url = tmp_path / "here", tmp_path / "there", f"file://{tmp_path}/bucket"
    storage = Storage(url)
    assert storage.is_empty()
    sent = send(here, url, "a", 1)
    assert storage.is_whole(sent)
    assert not storage.is_empty()
    operation = {"checkpoint": {"path": sent.path, "sha256": sent.sha256}, "root": str(there), "storage": url}
    assert bring(operation) == there / sent.path
    assert (there / sent.path / "deep" / "state").read_text(encoding="utf-8") == "0123456789"
    (tmp_path / "bucket" / f"{sent.path}.sha256").unlink()
    assert not storage.is_whole(sent)
    assert bring({**operation, "checkpoint": None}) is None


def test_old_ones_go(tmp_path: Path) -> None:
    """Those that nobody needs at once, but of trials that run; those of trials that are out where there is no room."""
    here, url = tmp_path / "here", f"file://{tmp_path}/bucket"
    sent = [send(here, url, trial, number) for trial, number in (("a", 1), ("a", 2), ("b", 1), ("c", 1), ("d", 1))]
    storage = Storage(url)
    storage.prune(sent[1:2], sent[2:4], most_bytes=25, busy=["d"])
    assert [storage.is_whole(each) for each in sent] == [False, True, False, True, True]
    assert not (tmp_path / "bucket" / sent[0].path).exists()


def test_what_is_wrong_with_a_url_is_said(tmp_path: Path) -> None:
    """A path that is none, a system that nobody knows, a password, and a place that cannot be written."""
    for url in ("runs/first", "carrier-pigeon://nest"):
        with pytest.raises(UsageError, match=rf"storage: got '{url}' \(.*\); give a URL, as in s3://bucket/runs/first"):
            Storage(url)
    with pytest.raises(UsageError, match="storage: the URL has a password, and is written down; give credentials by"):
        Storage("s3://key:secret@bucket/runs/first")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"storage: file:///.* cannot be used \(.*\); is it there"):
        Storage(f"file://{tmp_path}/file/below").write("operations/a/outcome.json", "{}")
