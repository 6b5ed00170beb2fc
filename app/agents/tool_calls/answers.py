"""Writers of the dialects: the messages that a client appends to its conversation, one result for each call.

The forms are those that the APIs of the providers take; binary content is Base64, as in their JSON.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from app.agents.tool_calls.model import CallAnswer, Dialect, JsonObject
from app.calls.results import Media

_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_PDF: Final = "application/pdf"
_BEDROCK_DOCUMENTS: Final[Mapping[str, str]] = {
    _PDF: "pdf",
    "text/csv": "csv",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}
_NOT_SHOWN: Final = "The content is not included: this form of results takes no {kind}."


@dataclass(frozen=True, slots=True)
class _Writer:
    """`part` returns what is written of one result; `wrap` the messages of all of them."""

    part: Callable[[CallAnswer], JsonObject]
    wrap: Callable[[list[JsonObject]], list[JsonObject]] = list


def result_part(dialect: Dialect, answer: CallAnswer) -> JsonObject:
    """Return the message of one result, or its block where one message has the results of all calls."""
    return _WRITERS[dialect].part(answer)


def result_messages(dialect: Dialect, answers: Sequence[CallAnswer]) -> list[JsonObject]:
    """Return the messages with the results of all calls, in their order; none where there was no call."""
    writer = _WRITERS[dialect]
    parts = [writer.part(answer) for answer in answers if not answer.repeats]
    return writer.wrap(parts) if parts else []


def _text(answer: CallAnswer, *, shown: Sequence[Media] = (), flag: bool = False) -> str:
    """Return the text of a result. Without a flag of the dialect, that of an error begins with `Error: `.

    `shown` are the media that are passed on beside the text.
    """
    result = answer.result
    lines = [result.text if flag or not result.is_error else f"Error: {result.text}"]
    hidden = sorted({media.media_type for media in result.media if media not in shown})
    lines += [_NOT_SHOWN.format(kind=kind) for kind in hidden]
    return "\n".join(lines)


def _encoded(media: Media) -> str:
    return base64.b64encode(media.data).decode("ascii")


def _data_url(media: Media) -> str:
    return f"data:{media.media_type};base64,{_encoded(media)}"


def _shown(answer: CallAnswer, kinds: frozenset[str]) -> list[Media]:
    return [media for media in answer.result.media if media.media_type in kinds]


def _json(answer: CallAnswer) -> orjson.Fragment | None:
    """Return the JSON of a successful result with its digits; None where it is no JSON."""
    body = answer.result.body
    return None if body is None or answer.result.is_error else orjson.Fragment(body)


def _chat(answer: CallAnswer) -> JsonObject:
    if answer.call.shape == "legacy":
        return {"role": "function", "name": answer.call.name, "content": _text(answer)}
    return {"role": "tool", "tool_call_id": answer.call.id, "content": _text(answer)}


def _mistral(answer: CallAnswer) -> JsonObject:
    return {**_chat(answer), "name": answer.call.name}


def _ollama(answer: CallAnswer) -> JsonObject:
    return {"role": "tool", "tool_name": answer.call.name, "content": _text(answer)}


def _responses(answer: CallAnswer) -> JsonObject:
    shown = _shown(answer, _IMAGES | {_PDF})
    text = _text(answer, shown=shown)
    output: str | list[JsonObject] = text
    if shown:
        output = [{"type": "input_text", "text": text}, *map(_response_media, shown)]
    kind = "custom_tool_call_output" if answer.call.shape == "custom" else "function_call_output"
    return {"type": kind, "call_id": answer.call.id, "output": output}


def _response_media(media: Media) -> JsonObject:
    if media.media_type == _PDF:
        return {"type": "input_file", "filename": "result.pdf", "file_data": _data_url(media)}
    return {"type": "input_image", "image_url": _data_url(media), "detail": "auto"}


def _anthropic(answer: CallAnswer) -> JsonObject:
    shown = _shown(answer, _IMAGES | {_PDF})
    text = _text(answer, shown=shown, flag=True)
    block: JsonObject = {"type": "tool_result", "tool_use_id": answer.call.id, "content": text}
    if shown:
        media = [
            {
                "type": "document" if one.media_type == _PDF else "image",
                "source": {"type": "base64", "media_type": one.media_type, "data": _encoded(one)},
            }
            for one in shown
        ]
        block["content"] = [{"type": "text", "text": text}, *media]
    return block | ({"is_error": True} if answer.result.is_error else {})


def _as_user_message(parts: list[JsonObject]) -> list[JsonObject]:
    return [{"role": "user", "content": parts}]


def _gemini(answer: CallAnswer) -> JsonObject:
    shown = _shown(answer, _IMAGES | {_PDF})
    text = _text(answer, shown=shown, flag=True)
    found = _json(answer)
    response: JsonObject = {"error": text} if answer.result.is_error else {"output": found or text}
    if found is not None and answer.result.notes:
        response["notes"] = list(answer.result.notes)
    function: JsonObject = {"name": answer.call.name, "response": response}
    if answer.call.has_id:
        function["id"] = answer.call.id
    if shown:
        function["parts"] = [
            {"inlineData": {"mimeType": media.media_type, "data": _encoded(media)}} for media in shown
        ]
    return {"functionResponse": function}


def _as_content(parts: list[JsonObject]) -> list[JsonObject]:
    return [{"role": "user", "parts": parts}]


def _bedrock(answer: CallAnswer) -> JsonObject:
    shown = _shown(answer, _IMAGES | _BEDROCK_DOCUMENTS.keys())
    body = answer.result.body
    content: list[JsonObject]
    if _json(answer) is not None and body is not None and body.lstrip()[:1] == b"{":
        content = [{"json": _json(answer)}, *({"text": note} for note in answer.result.notes)]
    else:
        content = [{"text": _text(answer, shown=shown, flag=True)}]
    for index, media in enumerate(shown):
        source = {"bytes": _encoded(media)}
        if media.media_type in _IMAGES:
            content.append({"image": {"format": media.media_type.partition("/")[2], "source": source}})
        else:
            form = _BEDROCK_DOCUMENTS[media.media_type]
            content.append({"document": {"format": form, "name": f"result-{index + 1}", "source": source}})
    status = "error" if answer.result.is_error else "success"
    return {"toolResult": {"toolUseId": answer.call.id, "content": content, "status": status}}


def _ai_sdk(answer: CallAnswer) -> JsonObject:
    result = answer.result
    text = _text(answer, shown=result.media, flag=True)
    output: JsonObject
    if result.is_error:
        output = {"type": "error-text", "value": text}
    elif result.media:
        media = [
            {
                "type": "image-data" if one.media_type.startswith("image/") else "file-data",
                "data": _encoded(one),
                "mediaType": one.media_type,
            }
            for one in result.media
        ]
        output = {"type": "content", "value": [{"type": "text", "text": text}, *media]}
    elif _json(answer) is not None and not answer.result.notes:
        output = {"type": "json", "value": _json(answer)}
    else:
        output = {"type": "text", "value": text}
    return {
        "type": "tool-result",
        "toolCallId": answer.call.id,
        "toolName": answer.call.name,
        "output": output,
    }


def _as_tool_message(parts: list[JsonObject]) -> list[JsonObject]:
    return [{"role": "tool", "content": parts}]


def _langchain(answer: CallAnswer) -> JsonObject:
    shown = _shown(answer, _IMAGES)
    text = _text(answer, shown=shown, flag=True)
    content: str | list[JsonObject] = text
    if shown:
        images = [{"type": "image", "base64": _encoded(one), "mime_type": one.media_type} for one in shown]
        content = [{"type": "text", "text": text}, *images]
    return {
        "role": "tool",
        "content": content,
        "tool_call_id": answer.call.id,
        "name": answer.call.name,
        "status": "error" if answer.result.is_error else "success",
    }


def _mcp(answer: CallAnswer) -> JsonObject:
    content: list[JsonObject] = [
        {"type": "text", "text": _text(answer, shown=answer.result.media, flag=True)}
    ]
    for media in answer.result.media:
        kind = media.media_type.partition("/")[0]
        if kind in ("image", "audio"):
            content.append({"type": kind, "data": _encoded(media), "mimeType": media.media_type})
        else:
            resource = {
                "uri": f"urn:uuid:{answer.result.call_id}",
                "mimeType": media.media_type,
                "blob": _encoded(media),
            }
            content.append({"type": "resource", "resource": resource})
    result = {"content": content, "isError": answer.result.is_error}
    return {"jsonrpc": "2.0", "id": answer.call.id, "result": result}


def _utcp(answer: CallAnswer) -> JsonObject:
    found: JsonObject = {"tool_name": answer.call.name}
    if answer.call.has_id:
        found["id"] = answer.call.id
    if answer.result.is_error:
        return {**found, "error": _text(answer, flag=True)}
    notes = {"notes": list(answer.result.notes)} if answer.result.notes else {}
    return {**found, "result": _json(answer) or _text(answer), **notes}


def _prompt(answer: CallAnswer) -> JsonObject:
    kind = "failed" if answer.result.is_error else "returned"
    text = _text(answer, flag=True)
    return {"role": "user", "content": f"The tool {answer.call.name} {kind}:\n{text}"}


_WRITERS: Final[Mapping[Dialect, _Writer]] = {
    "openai-chat": _Writer(_chat),
    "openai-responses": _Writer(_responses),
    "anthropic": _Writer(_anthropic, _as_user_message),
    "gemini": _Writer(_gemini, _as_content),
    "bedrock": _Writer(_bedrock, _as_user_message),
    "mistral": _Writer(_mistral),
    "cohere": _Writer(_chat),
    "ollama": _Writer(_ollama),
    "ai-sdk": _Writer(_ai_sdk, _as_tool_message),
    "langchain": _Writer(_langchain),
    "mcp": _Writer(_mcp),
    "utcp": _Writer(_utcp),
    "json-prompt": _Writer(_prompt),
}
