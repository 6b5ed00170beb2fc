"""Images of the documentation are written with a palette, and look the same."""

import struct
import zlib

import pytest

from scripts.png_palette import with_palette

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def image(rows: list[tuple[int, bytes]], *, width: int, kind: int = 2) -> bytes:
    """Return a PNG of rows that are filtered already."""
    header = struct.pack(">IIBBBBB", width, len(rows), 8, kind, 0, 0, 0)
    raw = b"".join(bytes([number]) + row for number, row in rows)
    return SIGNATURE + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def decoded(found: bytes) -> list[list[tuple[int, int, int]]]:
    """Return the colours of an image with a palette, row by row."""
    chunks, at = {}, len(SIGNATURE)
    while at < len(found):
        (length,) = struct.unpack(">I", found[at : at + 4])
        chunks[found[at + 4 : at + 8]] = found[at + 8 : at + 8 + length]
        at += length + 12
    width, height, depth, kind, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, kind) == (8, 3)
    raw, palette = zlib.decompress(chunks[b"IDAT"]), chunks[b"PLTE"]
    rows = [raw[row * (width + 1) + 1 : (row + 1) * (width + 1)] for row in range(height)]
    return [[(palette[3 * one], palette[3 * one + 1], palette[3 * one + 2]) for one in row] for row in rows]


RED, GREY = (200, 16, 8), (128, 128, 128)


@pytest.mark.parametrize(
    "rows",
    [
        [(0, bytes(RED + GREY)), (0, bytes(RED + GREY))],
        [(1, bytes(RED + tuple((b - a) % 256 for a, b in zip(RED, GREY, strict=True)))), (2, bytes(6))],
        [(0, bytes(RED + GREY)), (4, bytes(6))],
        [
            (0, bytes(RED + GREY)),
            (3, bytes(a - a // 2 for a in RED) + bytes((b - (a + b) // 2) % 256 for a, b in zip(RED, GREY, strict=True))),
        ],
    ],
    ids=["plain", "left and above", "nearest", "mean"],
)  # fmt: skip
def test_filters_are_undone(rows: list[tuple[int, bytes]]) -> None:
    assert decoded(with_palette(image(rows, width=2))) == [[RED, GREY], [RED, GREY]]


def test_transparency_is_left_out_and_many_colours_become_near_ones() -> None:
    pixels = [(red, green, 7, 255) for red in range(64) for green in range(64)]
    found = decoded(
        with_palette(image([(0, bytes(v for pixel in pixels for v in pixel))], width=len(pixels), kind=6))
    )
    distances = [
        max(abs(a - b) for a, b in zip(colour, pixel, strict=False))
        for colour, pixel in zip(found[0], pixels, strict=True)
    ]
    assert max(distances) < 8
    assert len(set(found[0])) <= 256


def test_other_images_are_rejected() -> None:
    with pytest.raises(ValueError, match="not a PNG"):
        with_palette(b"GIF89a")
    with pytest.raises(ValueError, match="8 bits"):
        with_palette(image([(0, b"\0")], width=1, kind=0))
