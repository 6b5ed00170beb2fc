"""PNG images with a palette of at most 256 colours, from those of Chromium (8 bits, RGB or RGBA, opaque)."""

import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_CHANNELS: Final = {2: 3, 6: 4}
_MAX_COLOURS: Final = 256
_Colour = tuple[int, int, int]


def with_palette(image: bytes) -> bytes:
    """Return an image with a palette: the most frequent of similar colours, others as the nearest of them.

    Raise ValueError for another kind of PNG.
    """
    width, height, pixels = _decode(image)
    counts = Counter(pixels)
    palette = _palette(counts)
    index = {colour: at for at, colour in enumerate(palette)}
    for colour in counts:
        if colour not in index:
            index[colour] = min(range(len(palette)), key=lambda at: _distance(palette[at], colour))
    mapped = bytes(index[colour] for colour in pixels)
    rows = b"".join(b"\0" + mapped[at * width : (at + 1) * width] for at in range(height))
    return _SIGNATURE + b"".join(
        (
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", bytes(channel for colour in palette for channel in colour)),
            _chunk(b"IDAT", zlib.compress(rows, 9)),
            _chunk(b"IEND", b""),
        )
    )


def _palette(counts: Counter[_Colour]) -> list[_Colour]:
    """Return the most frequent colour of each of the most frequent cubes of similar ones."""
    cubes: dict[_Colour, Counter[_Colour]] = {}
    for colour, count in counts.items():
        red, green, blue = colour
        cubes.setdefault((red >> 3, green >> 3, blue >> 3), Counter())[colour] = count
    largest = sorted(cubes.values(), key=lambda cube: -cube.total())[:_MAX_COLOURS]
    return [cube.most_common(1)[0][0] for cube in largest]


def _distance(one: _Colour, other: _Colour) -> int:
    return sum((first - second) ** 2 for first, second in zip(one, other, strict=True))


def _decode(image: bytes) -> tuple[int, int, list[_Colour]]:
    chunks = list(_chunks(image))
    width, height, depth, kind, *_, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth != 8 or kind not in _CHANNELS or interlaced:
        raise ValueError("only images of 8 bits, RGB or RGBA, are read")
    step = _CHANNELS[kind]
    raw = zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT"))
    length = width * step
    row = bytearray(length)
    pixels: list[_Colour] = []
    for at in range(height):
        start = at * (length + 1)
        row = _unfiltered(raw[start], bytearray(raw[start + 1 : start + 1 + length]), row, step)
        pixels += zip(row[0::step], row[1::step], row[2::step], strict=True)
    return width, height, pixels


def _unfiltered(kind: int, row: bytearray, above: bytearray, step: int) -> bytearray:
    """Return a row whose filter (PNG section 9) is undone."""
    for at in range(len(row) if kind else 0):
        left = row[at - step] if at >= step else 0
        up = above[at]
        corner = above[at - step] if at >= step else 0
        if kind == 1:
            added = left
        elif kind == 2:
            added = up
        elif kind == 3:
            added = (left + up) // 2
        else:
            added = _paeth(left, up, corner)
        row[at] = (row[at] + added) & 255
    return row


def _paeth(left: int, up: int, corner: int) -> int:
    estimate = left + up - corner
    return min((left, up, corner), key=lambda one: abs(estimate - one))


def _chunks(image: bytes) -> Iterator[tuple[bytes, bytes]]:
    if not image.startswith(_SIGNATURE):
        raise ValueError("not a PNG image")
    at = len(_SIGNATURE)
    while at < len(image):
        (length,) = struct.unpack(">I", image[at : at + 4])
        yield image[at + 4 : at + 8], image[at + 8 : at + 8 + length]
        at += length + 12


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
