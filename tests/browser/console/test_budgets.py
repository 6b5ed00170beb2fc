"""What the console ships is small, and browsers keep it."""

import gzip
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from app.console.static_files import StaticFiles

ROOT = Path(__file__).parents[3]
STATIC = ROOT / "app" / "console" / "static"
SCRIPTS = sorted((STATIC / "js").glob("*.js"))
MAX_SCRIPT_BYTES = 30 * 1024
MAX_SCRIPT_LINES = 1_500
MAX_STYLE_BYTES = 20 * 1024
MAX_WHEEL_BYTES = 500_000


def test_all_scripts_together_are_small():
    assert sum(len(gzip.compress(path.read_bytes(), 9)) for path in SCRIPTS) <= MAX_SCRIPT_BYTES
    assert sum(len(path.read_text().splitlines()) for path in SCRIPTS) <= MAX_SCRIPT_LINES


def test_the_style_sheet_is_small():
    styles = b"".join(path.read_bytes() for path in sorted((STATIC / "css").glob("*.css")))
    assert len(gzip.compress(styles, 9)) <= MAX_STYLE_BYTES


def test_scripts_are_modules_that_load_nothing_from_elsewhere():
    for path in SCRIPTS:
        text = path.read_text()
        assert re.findall(r"(?:from|import\()\s*[\"'](?!\./)[^\"']*", text) == [], path.name
        assert (
            re.findall(r"\beval\(|new Function|https?://(?!www\.w3\.org)|localStorage|document\.cookie", text)
            == []
        ), path.name


@pytest.mark.time_limit(120)
def test_the_wheel_grows_little_by_the_console(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        members = [one for one in archive.infolist() if one.filename.startswith("app/console/")]
    names = {one.filename for one in members}
    assert {f"app/console/static/js/{path.name}" for path in SCRIPTS} <= names
    assert "app/console/templates/base.html" in names
    assert sum(one.compress_size for one in members) <= MAX_WHEEL_BYTES


@pytest.mark.parametrize("name", sorted(StaticFiles.shared().files))
@pytest.mark.parametrize("coding", ["br", "gzip"])
def test_static_files_are_compressed_and_stay_in_the_browser(name, coding, empty):
    with empty.client("") as client:
        response = client.get(StaticFiles.shared().url(name), headers={"Accept-Encoding": coding})
        assert response.status_code == 200
        assert response.headers["content-encoding"] == coding
        assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert response.content == StaticFiles.shared().files[name].body
        plain = client.get(StaticFiles.shared().url(name), headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers


def test_pages_are_stored_nowhere_and_name_their_policy(empty, sign_in):
    with sign_in.client(empty, empty.key) as client:
        headers = client.get("/console/no-such-page").headers
    assert headers["cache-control"] == "no-store"
    policy = dict(one.strip().partition(" ")[::2] for one in headers["content-security-policy"].split(";"))
    assert policy == {
        "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self' data:",
        "font-src": "'self'", "connect-src": "'self'", "form-action": "'self'", "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }  # fmt: skip
