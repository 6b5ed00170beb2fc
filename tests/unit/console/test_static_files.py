"""The static files of the console."""

import gzip
from pathlib import Path

import brotli
import pytest
from starlette.requests import Request

from app.console.static_files import StaticFiles


def _request(coding: str) -> Request:
    return Request({"type": "http", "headers": [(b"accept-encoding", coding.encode())]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (
        ("css/20-b.css", "b{}"),
        ("css/10-a.css", "a{}"),
        ("js/one.js", "1;" * 500),
        ("icon.svg", "<svg/>"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_style_sheets_are_one_file_in_the_order_of_their_names(folder: Path) -> None:
    assert StaticFiles(folder).files["console.css"].body == b"a{}b{}"


def test_a_change_changes_every_path(folder: Path) -> None:
    before = StaticFiles(folder)
    (folder / "icon.svg").write_text("<svg></svg>")
    after = StaticFiles(folder)
    assert before.url("one.js") != after.url("one.js")
    assert before.url("one.js").endswith("/one.js")
    with pytest.raises(KeyError):
        before.url("two.js")


@pytest.mark.parametrize(
    ("accepted", "coding", "decode"),
    [
        ("gzip, br", "br", brotli.decompress),
        ("gzip;q=1.0", "gzip", gzip.decompress),
        ("identity", None, bytes),
        ("", None, bytes),
    ],
)
def test_a_file_is_sent_in_a_form_that_is_accepted(
    folder: Path, accepted: str, coding: str | None, decode
) -> None:
    files = StaticFiles(folder)
    response = files.response(_request(accepted), files.digest, "one.js")
    assert response.headers.get("content-encoding") == coding
    assert decode(response.body) == b"1;" * 500
    assert response.headers["content-type"].startswith("text/javascript")
    assert "immutable" in response.headers["cache-control"]
    assert response.headers["vary"] == "Accept-Encoding"


def test_under_another_digest_a_file_is_not_stored(folder: Path) -> None:
    response = StaticFiles(folder).response(_request(""), "0" * 16, "one.js")
    assert (response.status_code, response.headers["cache-control"]) == (200, "no-store")


def test_an_unknown_file_is_not_found(folder: Path) -> None:
    files = StaticFiles(folder)
    assert files.response(_request(""), files.digest, "../secret").status_code == 404


def test_the_files_of_the_console_have_no_address_of_another_origin() -> None:
    for name, file in StaticFiles.shared().files.items():
        text = file.body.decode().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text, name
        assert "https://" not in text, name
