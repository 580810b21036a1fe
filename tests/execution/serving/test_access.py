"""Who may ask a service: its folder's token."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest

from optplan.errors import DataError, UsageError
from optplan.execution.serving import store


def test_a_token_is_made_once_and_for_the_user_alone(tmp_path: Path) -> None:
    """It is long, stays the same, and has mode 0600."""
    token = store.read_token(tmp_path)
    assert len(token) >= 40
    assert store.read_token(tmp_path) == token
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """A token with mode 0644 may be known already."""
    store.read_token(tmp_path)
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(UsageError, match="others can read it"):
        store.read_token(tmp_path)


def test_a_short_token_is_refused(tmp_path: Path) -> None:
    """An empty file would let everybody in."""
    store.read_token(tmp_path)
    (tmp_path / "token").write_text("\n", "utf-8")
    with pytest.raises(DataError, match="0 characters are no token"):
        store.read_token(tmp_path)


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("Basic " + base64.b64encode(b"any:abc").decode(), ""),
        ("Digest abc", ""),
        ("abc", ""),
    ],
)
def test_tokens_come_as_bearer(header: str, token: str) -> None:
    """No password does, which a browser would go on sending by itself."""
    assert store.find_token({"Authorization": header}) == token


def test_no_token_is_not_the_token() -> None:
    """Nothing and a beginning are wrong."""
    assert not store.is_right("abcdef", "")
    assert not store.is_right("abcdef", "abc")
    assert store.is_right("abcdef", "abcdef")


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1:8420", True),
        ("LOCALHOST", True),
        ("[::1]:8420", True),
        ("rebound.example:8420", False),
        ("127.0.0.1.example", False),
        ("", False),
    ],
)
def test_requests_name_the_service(host: str, own: bool) -> None:
    """A name that a stranger points to this machine is not the service's."""
    assert store.is_own({"Host": host}, frozenset({"127.0.0.1", "localhost", "[::1]"})) is own


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({}, True),
        ({"Origin": "http://localhost:1"}, True),
        ({"Origin": "http://localhost:2"}, False),
        ({"Origin": "null"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:1"}, True),
    ],
)
def test_pages_of_strangers_are_told_nothing(headers: dict[str, str], own: bool) -> None:
    """A browser says which page asks; what says nothing is no page."""
    assert store.is_from_own_page({"Host": "localhost:1", **headers}) is own
