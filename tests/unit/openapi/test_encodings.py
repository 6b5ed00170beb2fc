"""Encodings and compression of documents."""

import gzip
import random
import zlib

import pytest

from app.core.errors import InvalidDocument, TooLarge
from app.openapi.reading.encodings import gunzip, is_gzip, to_utf8, transcode
from tests.harness.cases import for_each

TEXT = '{"openapi":"3.0.0","x":"ø"}'


@for_each("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_unicode_becomes_utf_8_without_a_byte_order_mark(encoding: str) -> None:
    written = TEXT.encode(encoding)
    if encoding == "utf-32-be":
        written = b"\x00\x00\xfe\xff" + written
    assert transcode(written) == TEXT.encode()
    assert to_utf8(written) == (TEXT.encode(), None)


@for_each("content", [b"", b"x", b"PK\x03\x04\x14\x00", b"\x1f\x8b\x08\x00", b"caf\xe9"])
def test_other_bytes_are_not_changed(content: bytes) -> None:
    assert transcode(content) is content


def test_a_gzip_file_of_several_members_is_decompressed() -> None:
    packed = gzip.compress(b"open") + gzip.compress(b"api") + b"\x00" * 10
    assert is_gzip(packed)
    assert gunzip(packed, max_bytes=7) == b"openapi"


def test_members_and_blocks_of_any_size_are_decompressed() -> None:
    noise = random.Random(1).randbytes(100_000)
    members = [b"", b"x", noise, b"", b"\x00" * 3_000_000, noise[:8192]]
    packed = b"".join(map(gzip.compress, members)) + gzip.compress(b"") * 5_000 + gzip.compress(b"end")
    assert gunzip(packed, max_bytes=4_000_000) == b"".join(members) + b"end"


def test_a_bomb_is_rejected_at_the_limit() -> None:
    with pytest.raises(TooLarge):
        gunzip(gzip.compress(b"\x00" * 10_000_000), max_bytes=1_000_000)
    with pytest.raises(TooLarge):
        gunzip(gzip.compress(b"x") * 1_000, max_bytes=999)


@pytest.mark.parametrize(
    "damaged",
    [
        gzip.compress(b"openapi")[:-9],
        b"\x1f\x8b\x08" + b"\x00" * 100,
        b"\x1f\x8b" + zlib.compress(b"x"),
        b"\x1f\x8b",
    ],
    ids=["cut off", "no deflate data", "zlib data", "two bytes"],
)
def test_a_damaged_gzip_file_is_rejected(damaged: bytes) -> None:
    with pytest.raises(InvalidDocument):
        gunzip(damaged, max_bytes=1_000)
