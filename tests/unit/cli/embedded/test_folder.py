"""The sealing key: made once, readable for its owner only, never replaced."""

import base64
import stat
import threading

import pytest

from app.cli.embedded import EmbeddedFailed, read_sealing_key
from tests.harness.cases import for_each


def test_the_key_is_made_once_and_kept(place):
    key = read_sealing_key(place / "d")
    assert read_sealing_key(place / "d") == key
    assert read_sealing_key(place / "e") != key


def test_the_key_is_32_bytes_in_the_form_of_a_key_ring(place):
    name, _, value = read_sealing_key(place).partition(":")
    assert name == "k1"
    assert len(base64.b64decode(value, validate=True)) == 32


def test_the_file_is_0600_whatever_the_umask_and_nothing_else_is_left(place, monkeypatch):
    read_sealing_key(place / "d")
    assert stat.S_IMODE((place / "d").stat().st_mode) == 0o700
    assert stat.S_IMODE((place / "d" / "sealing.key").stat().st_mode) == 0o600
    assert [p.name for p in (place / "d").iterdir()] == ["sealing.key"]


@for_each("mode", [0o640, 0o604, 0o644, 0o660, 0o666, 0o610, 0o601, 0o700])
def test_a_key_with_wider_permissions_is_rejected_and_left_as_it_is(place, mode):
    path = place / "sealing.key"
    path.unlink(missing_ok=True)
    key = read_sealing_key(place)
    path.chmod(mode)
    with pytest.raises(EmbeddedFailed, match=f"{mode:04o}.*chmod 600") as caught:
        read_sealing_key(place)
    assert key.removeprefix("k1:") not in str(caught.value)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    path.chmod(0o400)
    assert read_sealing_key(place) == key


@for_each("text", ["", "k1:", "k1:AAAA", "no colon", "k1:" + "A" * 43, ":" + "A" * 43 + "="])
def test_a_damaged_key_is_rejected_and_not_replaced(place, text):
    path = place / "sealing.key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(EmbeddedFailed, match="damaged"):
        read_sealing_key(place)
    assert path.read_text() == text


def test_a_rotated_ring_of_several_keys_is_given_as_it_is(place):
    first = read_sealing_key(place)
    ring = first.replace("k1", "k2") + "," + first
    (place / "sealing.key").write_text(ring + "\n")
    assert read_sealing_key(place) == ring


def test_a_link_in_the_place_of_the_key_is_rejected(place):
    (place / "elsewhere").write_text("")
    (place / "sealing.key").symlink_to(place / "elsewhere")
    with pytest.raises(EmbeddedFailed, match="cannot be used"):
        read_sealing_key(place)
    assert (place / "elsewhere").read_text() == ""


def test_a_dangling_link_does_not_make_a_key_elsewhere(place):
    (place / "sealing.key").symlink_to(place / "elsewhere")
    with pytest.raises(EmbeddedFailed, match="cannot be used"):
        read_sealing_key(place)
    assert not (place / "elsewhere").exists()


def test_of_many_that_make_the_key_at_once_all_get_the_same(place):
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(read_sealing_key(place))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert len(set(found)) == 1
