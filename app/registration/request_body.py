"""An HTTP request -> registrations: JSON, YAML or multipart, bounded while it is read."""

import asyncio
import re
from typing import Any, Final

import orjson
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from app.credentials.validation_errors import validated
from app.errors import BadRequest, Fault, InvalidInput, TooLarge, UnsupportedMediaType
from app.openapi.load import decoded, sniff
from app.registration.input_models import Described, ReadingInput
from app.registration.json_yaml import BY_THE_WAY, PARSED_AT_ONCE, looks_like_openapi, parsed, parsed_json
from app.registration.request_model import PLAIN, DocumentOptions, Registration, Registrations, Source
from app.registration.request_parser import described, document_options, named, read_registrations

_YAML: Final = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/plain",
                          "application/vnd.yaml", "application/vnd.oai.openapi", ""})  # fmt: skip
_ZIP: Final = frozenset({"application/zip", "application/x-zip-compressed"})
_FIELDS: Final = ("name", "options", "credentials", "variables", "tags", "limits", "description")
_READING: Final = ("root", "overlay")
_TEXT_FIELDS: Final = frozenset({"name", "description"})
# The first key of a canonical body; no OpenAPI document begins with one of these.
_CANONICAL: Final = re.compile(rb'\s*\{\s*"(?:name|source|credentials|options|variables|limits)"\s*:')


async def read_request(request: Request, *, name: str | None, largest: int) -> Registrations:
    """What a request asks for; `name` is that of the query, `largest` the most bytes of its body.

    Raises BadRequest, InvalidInput, TooLarge and UnsupportedMediaType.
    """
    media_type = request.headers.get("content-type", "")
    essence = media_type.partition(";")[0].strip().lower()
    if essence == "multipart/form-data":
        return Registrations((await _multipart(request, name=name, largest=largest),))
    if essence in _ZIP:
        body = await read_body(request, largest=largest)
        return Registrations((Registration(named(None, name), Source("document", body, media_type)),))
    is_json = essence == "application/json" or essence.endswith("+json")
    if not is_json and essence not in _YAML and not essence.endswith("+yaml"):
        raise UnsupportedMediaType(
            f"Send JSON, YAML, a zip archive or multipart/form-data, not {essence[:100]!r}."
        )
    body = await read_body(request, largest=largest)
    if not body.strip():
        raise BadRequest("The body is empty.")
    if len(body) > PARSED_AT_ONCE and sniff(body) and not _CANONICAL.match(body):
        return Registrations((Registration(named(None, name), Source("document", body, media_type)),))
    raw = await _value(body, is_json=is_json, media_type=essence)
    if len(body) < BY_THE_WAY:
        return read_registrations(raw, name=name, body=body, media_type=essence)
    return await asyncio.to_thread(read_registrations, raw, name=name, body=body, media_type=essence)


async def read_body(request: Request, *, largest: int) -> bytes:
    """The whole body; raises TooLarge as soon as it is."""
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > largest:
            raise TooLarge(
                f"The request body may have at most {largest} bytes here.", extra={"limit": largest}
            )
        pieces.append(piece)
    return b"".join(pieces)


async def read_json(request: Request, *, largest: int) -> Any:
    """A JSON body of another kind than a registration."""
    essence = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if essence != "application/json" and not essence.endswith("+json"):
        raise UnsupportedMediaType(f"Send JSON, not {essence[:100]!r}.")
    return await _value(await read_body(request, largest=largest), is_json=True, media_type=essence)


async def _value(body: bytes, *, is_json: bool, media_type: str) -> Any:
    if not is_json:
        return await parsed(body, media_type=media_type)
    if len(body) < BY_THE_WAY:
        return parsed_json(body)
    return await asyncio.to_thread(parsed_json, body)


async def _multipart(request: Request, *, name: str | None, largest: int) -> Registration:
    try:
        form = await request.form(max_files=2, max_fields=200, max_part_size=1 << 20)
    except MultiPartException:
        raise BadRequest("The multipart body cannot be read.") from None
    try:
        return await _from_form(form, name=name, largest=largest)
    finally:
        await form.close()


async def _from_form(form: FormData, *, name: str | None, largest: int) -> Registration:
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise InvalidInput("There is no file.", errors=[Fault("/file", "Give the document as a file part.")])
    unknown = sorted(set(form) - {"file", *_READING, *_FIELDS})
    if unknown:
        faults = [Fault(f"/{field[:100]}", "This field is not known.") for field in unknown]
        raise InvalidInput("The form has unknown fields.", errors=faults)
    body = await file.read()
    if len(body) > largest:
        raise TooLarge(f"A document may have at most {largest} bytes.", extra={"limit": largest})
    fields = {field: _field(field, form.getlist(field)) for field in _FIELDS if field in form}
    own = fields.pop("name", None)
    if own is not None and not isinstance(own, str):
        raise InvalidInput("The name is not text.", errors=[Fault("/name", "Give text.")])
    media_type = file.content_type or ""
    source = Source("document", body, media_type, at="/file", how=await _how(form))
    if source.how == PLAIN and not await looks_like_openapi(body, media_type=media_type):
        source = Source("manual", value=await parsed(body, media_type=media_type), at="/file")
    return described(validated(Described, fields), name=named(own, name), source=source)


async def _how(form: FormData) -> DocumentOptions:
    """`root` as text, `overlay` as text or as a file."""
    given: dict[str, Any] = {}
    for field in _READING:
        parts = form.getlist(field)
        if len(parts) > 1:
            fault = Fault(f"/{field}", "Give it once.")
            raise InvalidInput("A field stands twice in the form.", errors=[fault])
        for part in parts:
            text = part if isinstance(part, str) else decoded(await part.read())
            if isinstance(part, UploadFile) and field != "overlay":
                raise InvalidInput("A field is a file.", errors=[Fault(f"/{field}", "Give text.")])
            given[field] = text
    read = validated(ReadingInput, given)
    return document_options(read.model_dump(exclude_none=True))


def _field(field: str, parts: list[Any]) -> Any:
    """A field's value: JSON, but for texts; tags may also come as one part each."""
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) < len(parts):
        raise InvalidInput("A field is a file.", errors=[Fault(f"/{field}", "Give text.")])
    if field == "tags" and not (len(texts) == 1 and texts[0].lstrip().startswith("[")):
        return texts
    if len(texts) > 1:
        raise InvalidInput("A field stands twice in the form.", errors=[Fault(f"/{field}", "Give it once.")])
    if field in _TEXT_FIELDS:
        return texts[0]
    try:
        return orjson.loads(texts[0])
    except orjson.JSONDecodeError:
        raise InvalidInput("A field is not JSON.", errors=[Fault(f"/{field}", "Give JSON.")]) from None
