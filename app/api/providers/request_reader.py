"""Reads the request bodies of registrations, imports and variables, bounded while they are read."""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from app.core.errors import BadRequest, FieldError, InvalidInput, TooLarge, UnsupportedMediaType
from app.core.media_types import is_json, parse_essence
from app.formats.toolclad.sources import MAX_MANIFESTS
from app.formats.utcp.variables import parse_dotenv
from app.openapi.reading.load import decode_document
from app.providers.credentials.model import VariableDraft
from app.providers.credentials.validation_errors import validated
from app.providers.registration.content_codings import decode_content, document_text
from app.providers.registration.input_models import DocumentOptionsInput, VariableInput, VariablesInput
from app.providers.registration.model import DocumentOptions, RegistrationBatch, RegistrationRequest
from app.providers.registration.request_parser import (
    FORM_FIELDS,
    READING_FIELDS,
    build_document_options,
    parse_json_body,
    read_content,
    read_uploaded_document,
    read_uploaded_manifests,
    require_member_name,
    require_readable,
    variable_draft,
)

_TEXT_FIELDS: Final = frozenset({"name", "description", "language"})
_TEXT: Final = "text/plain"
_MAX_VARIABLE_BYTES: Final = 1 << 20


async def read_request(request: Request, *, name: str | None, max_bytes: int) -> RegistrationBatch:
    """Return what an HTTP request asks for; `name` is that of the query, `max_bytes` bounds its body.

    Raises BadRequest, InvalidInput, TooLarge and UnsupportedMediaType.
    """
    media_type = request.headers.get("content-type", "")
    essence = parse_essence(media_type)
    if essence == "multipart/form-data":
        return RegistrationBatch((await _read_multipart(request, name=name, max_bytes=max_bytes),))
    require_readable(essence)
    body = await document_text(await read_body(request, max_bytes=max_bytes), max_bytes=max_bytes)
    return await read_content(body, media_type=media_type, name=name)


async def read_body(request: Request, *, max_bytes: int) -> bytes:
    """Return the whole body without its content coding.

    Raises TooLarge as soon as more than `max_bytes` have come, or come out of it, and what
    `decode_content` raises.
    """
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > max_bytes:
            raise TooLarge(
                f"The request body may have at most {max_bytes} bytes here.", extra={"limit": max_bytes}
            )
        pieces.append(piece)
    coding = request.headers.get("content-encoding", "")
    return await decode_content(b"".join(pieces), content_encoding=coding, max_bytes=max_bytes)


async def read_json(request: Request, *, max_bytes: int) -> Any:
    """Return a JSON body of another kind than a registration; raise as `read_request` does."""
    essence = parse_essence(request.headers.get("content-type", "application/json"))
    if not is_json(essence):
        raise UnsupportedMediaType(f"Send JSON, not {essence[:100]!r}.")
    body = await document_text(await read_body(request, max_bytes=max_bytes), max_bytes=max_bytes)
    return await parse_json_body(body)


async def read_variable(request: Request, *, max_bytes: int) -> VariableDraft:
    """Return the variable of a body: `{"value", "secret"}`, or the value as text/plain, which is secret.

    Raises BadRequest, InvalidInput, TooLarge and UnsupportedMediaType.
    """
    if _media_type(request) != _TEXT:
        return variable_draft(validated(VariableInput, await read_json(request, max_bytes=max_bytes)))
    text = await _read_text(request, max_bytes=max_bytes)
    try:
        return variable_draft(validated(VariableInput, {"value": text}))
    except InvalidInput as error:
        # The value is the whole body.
        errors = [FieldError("", one.detail) for one in error.errors]
        raise InvalidInput(error.detail, errors=errors) from None


async def read_variables(request: Request, *, max_bytes: int) -> Mapping[str, VariableDraft]:
    """Return the variables of a body, by name: `{"variables": {...}}`, or a .env file as text/plain, whose
    variables are secret.

    Raises BadRequest, InvalidInput, TooLarge and UnsupportedMediaType.
    """
    limit = min(max_bytes, _MAX_VARIABLE_BYTES)
    if _media_type(request) not in {_TEXT, ""}:
        body = validated(VariablesInput, await read_json(request, max_bytes=limit))
        return {name: variable_draft(one) for name, one in body.variables.items()}
    text = await _read_text(request, max_bytes=limit)
    if not text.strip():
        raise BadRequest("The body is empty.")
    return {name: VariableDraft(value) for name, value in parse_dotenv(text).items()}


async def _read_multipart(request: Request, *, name: str | None, max_bytes: int) -> RegistrationRequest:
    coding = request.headers.get("content-encoding", "").strip().lower()
    if coding not in {"", "identity"}:
        raise UnsupportedMediaType(
            "Send multipart/form-data without Content-Encoding; its file may be a gzip file.",
            headers={"Accept-Encoding": "identity"},
        )
    try:
        form = await request.form(max_files=MAX_MANIFESTS + 2, max_fields=200, max_part_size=1 << 20)
    except MultiPartException:
        raise BadRequest("The multipart body cannot be read.") from None
    try:
        return await _read_form(form, name=name, max_bytes=max_bytes)
    finally:
        await form.close()


async def _read_form(form: FormData, *, name: str | None, max_bytes: int) -> RegistrationRequest:
    files = form.getlist("file")
    if len(files) > 1:
        return await _read_files(form, files, name=name, max_bytes=max_bytes)
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise InvalidInput(
            "There is no file.", errors=[FieldError("/file", "Give the document as a file part.")]
        )
    unknown = sorted(set(form) - {"file", *READING_FIELDS, *FORM_FIELDS})
    if unknown:
        problems = [FieldError(f"/{field[:100]}", "This field is not known.") for field in unknown]
        raise InvalidInput("The form has unknown fields.", errors=problems)
    body = await file.read()
    if len(body) > max_bytes:
        raise TooLarge(f"A document may have at most {max_bytes} bytes.", extra={"limit": max_bytes})
    body = await document_text(body, max_bytes=max_bytes)
    fields = {field: _read_field(field, form.getlist(field)) for field in FORM_FIELDS if field in form}
    own_name = fields.pop("name", None)
    if own_name is not None and not isinstance(own_name, str):
        raise InvalidInput("The name is not text.", errors=[FieldError("/name", "Give text.")])
    return await read_uploaded_document(
        body,
        fields,
        media_type=file.content_type or "",
        options=await _read_document_options(form),
        own_name=own_name,
        name=name,
    )


async def _read_files(
    form: FormData, files: list[Any], *, name: str | None, max_bytes: int
) -> RegistrationRequest:
    """Read several files, which are ToolClad manifests and what belongs to them, as one archive."""
    contents: dict[str, bytes] = {}
    size = 0
    for file in files:
        if not isinstance(file, UploadFile):
            raise InvalidInput("A file is text.", errors=[FieldError("/file", "Give each as a file part.")])
        body = await file.read()
        size += len(body)
        if size > max_bytes:
            raise TooLarge(f"The files may have at most {max_bytes} bytes.", extra={"limit": max_bytes})
        contents[require_member_name(file.filename or "", contents, file_pointer="/file")] = body
    fields = {field: _read_field(field, form.getlist(field)) for field in FORM_FIELDS if field in form}
    unknown = sorted(set(form) - {"file", *FORM_FIELDS})
    if unknown:
        problems = [FieldError(f"/{field[:100]}", "This field is not known here.") for field in unknown]
        raise InvalidInput("The form has unknown fields.", errors=problems)
    own_name = fields.pop("name", None)
    return read_uploaded_manifests(contents, fields, own_name=own_name, name=name)


async def _read_document_options(form: FormData) -> DocumentOptions:
    """Read `root`, a text, and `overlay`, a text or a file."""
    given: dict[str, Any] = {}
    for field in READING_FIELDS:
        parts = form.getlist(field)
        if len(parts) > 1:
            problem = FieldError(f"/{field}", "Give it once.")
            raise InvalidInput("A field is twice in the form.", errors=[problem])
        for part in parts:
            text = part if isinstance(part, str) else decode_document(await part.read())
            if isinstance(part, UploadFile) and field != "overlay":
                raise InvalidInput("A field is a file.", errors=[FieldError(f"/{field}", "Give text.")])
            given[field] = text
    read = validated(DocumentOptionsInput, given)
    return build_document_options(read.model_dump(exclude_none=True))


def _read_field(field: str, parts: list[Any]) -> Any:
    """Return a field's value: JSON, but for texts; tags may also come as one part each."""
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) < len(parts):
        raise InvalidInput("A field is a file.", errors=[FieldError(f"/{field}", "Give text.")])
    if field == "tags" and not (len(texts) == 1 and texts[0].lstrip().startswith("[")):
        return texts
    if len(texts) > 1:
        raise InvalidInput("A field is twice in the form.", errors=[FieldError(f"/{field}", "Give it once.")])
    if field in _TEXT_FIELDS:
        return texts[0]
    try:
        return orjson.loads(texts[0])
    except orjson.JSONDecodeError:
        raise InvalidInput("A field is not JSON.", errors=[FieldError(f"/{field}", "Give JSON.")]) from None


async def _read_text(request: Request, *, max_bytes: int) -> str:
    try:
        return (await read_body(request, max_bytes=max_bytes)).decode("utf-8")
    except UnicodeDecodeError:
        raise BadRequest("The body is not UTF-8.") from None


def _media_type(request: Request) -> str:
    return parse_essence(request.headers.get("content-type", ""))
