"""Content of MCP servers as a model reads it."""

import base64

import orjson
import pytest

from app.agents.mcp.results import call_result
from app.calls.results import Media, ModelResult, ResultBudget
from app.calls.results.bodies import MAX_MEDIA_BYTES
from app.calls.results.budget import apply_budget
from app.calls.results.content_blocks import read_blocks

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
WAV = b"RIFF\x24\x00\x00\x00WAVE"


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


IMAGE = {"type": "image", "data": encoded(PNG), "mimeType": "image/png"}
SOUND = {"type": "audio", "data": encoded(WAV), "mimeType": "audio/wav"}
TEXT_RESOURCE = {"type": "resource", "resource": {"uri": "a:b", "mimeType": "text/plain", "text": "inner"}}
BLOB = {
    "type": "resource",
    "resource": {"uri": "a:c", "mimeType": "application/pdf", "blob": encoded(b"%PDF-")},
}
PICTURE = {"type": "resource", "resource": {"uri": "a:d", "mimeType": "image/png", "blob": encoded(PNG)}}


def content(result: ModelResult, *, embedded_max: int = 1000) -> list[dict[str, object]]:
    url = "https://gateway.example/calls/1"
    raw = call_result(
        result, None, is_modern=True, structured_max=1000, embedded_max=embedded_max, resource_url=url
    )
    found: list[dict[str, object]] = orjson.loads(raw)["content"]
    return found


def test_blocks_pass_through_mcp_as_they_are_and_in_their_order() -> None:
    result = read_blocks(orjson.dumps([IMAGE, "text", SOUND, TEXT_RESOURCE, BLOB, PICTURE]))
    assert content(result) == [IMAGE, {"type": "text", "text": "text"}, SOUND, TEXT_RESOURCE, BLOB, PICTURE]
    assert result.media == (
        Media("image/png", PNG),
        Media("audio/wav", WAV),
        Media("application/pdf", b"%PDF-", "a:c"),
        Media("image/png", PNG, "a:d"),
    )
    assert result.body is None
    lines = result.text.split("\n\n")
    assert lines[0].startswith("(image/png, 28 bytes, SHA-256 ")
    assert lines[1] == "text"
    assert lines[3] == "inner"


def test_one_block_is_the_value() -> None:
    assert content(read_blocks(orjson.dumps(IMAGE))) == [IMAGE]


def test_binary_resources_that_are_not_embedded_are_described() -> None:
    [text, image] = content(read_blocks(orjson.dumps([BLOB, IMAGE])), embedded_max=4)
    assert str(text["text"]).startswith("(application/pdf, 5 bytes, SHA-256 ")
    assert str(text["text"]).endswith("It is not included: results over MCP have files of at most 4 bytes.")
    assert image == IMAGE


@pytest.mark.parametrize(
    "block",
    [
        pytest.param({"type": "image", "data": "no base64!", "mimeType": "image/png"}, id="not-base64"),
        pytest.param({"type": "image"}, id="no-data"),
        pytest.param({"type": "resource", "resource": {"text": "a"}}, id="no-uri"),
        pytest.param({"type": "resource_link", "uri": "a:b", "name": "n"}, id="another-type"),
    ],
)
def test_what_is_no_known_block_is_text(block: dict[str, object]) -> None:
    result = read_blocks(orjson.dumps([block, IMAGE]))
    assert content(result) == [{"type": "text", "text": orjson.dumps(block).decode()}, IMAGE]


def test_an_image_that_is_too_large_is_described_only() -> None:
    large = {**IMAGE, "data": encoded(PNG + bytes(MAX_MEDIA_BYTES))}
    result = read_blocks(orjson.dumps([large, "text"]))
    assert result.media == ()
    assert "It is not included" in str(content(result)[0]["text"])


def test_notes_follow_the_blocks() -> None:
    result = read_blocks(orjson.dumps(["text", IMAGE]))
    result.add_notes(["Something was repaired."])
    assert content(result)[-1] == {"type": "text", "text": "Note: Something was repaired."}


def test_text_beyond_the_budget_is_cut_and_images_stay() -> None:
    result = read_blocks(orjson.dumps(["x" * 10_000, IMAGE]))
    _, rest = apply_budget(result, ResultBudget(max_bytes=1_000))
    assert rest is not None
    [image, text] = content(result)
    assert len(str(text["text"])) <= 1_000
    assert image == IMAGE
