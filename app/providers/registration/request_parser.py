"""The content of a request -> a RegistrationBatch: JSON, YAML, or the files and fields of a form.

Every form that can be registered is told apart by its keys alone.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from app.core import exact_json
from app.core.errors import (
    BadRequest,
    FieldError,
    InvalidInput,
    TooLarge,
    UnsupportedMediaType,
)
from app.core.media_types import is_json, parse_essence
from app.core.resource_names import PROVIDER_NAME
from app.core.text import pointer
from app.formats.archive import is_archive, may_be_packed, pack_files
from app.formats.toolclad.sources import MEDIA_TYPES as TOML_TYPES
from app.formats.toolclad.sources import (
    PROJECT_FILE,
    SERVER_FILES,
    SUFFIX,
    is_manifest,
    is_manifest_source,
)
from app.formats.utcp.names import make_legal_name
from app.formats.utcp.variables import find_variables, list_candidates
from app.openapi.reading.load import is_convertible, sniff
from app.protocols.manuals import detect_kind
from app.protocols.record import ClientConfiguration
from app.protocols.registry import DEFAULT, PROTOCOLS
from app.providers.credentials.input_models import VARIABLE_NAME
from app.providers.credentials.model import VariableDraft
from app.providers.credentials.origins import origin_of
from app.providers.credentials.validation_errors import validated
from app.providers.registration.input_models import (
    RegistrationFields,
    RegistrationInput,
    SourceInput,
    UrlRegistrationInput,
    VariableInput,
)
from app.providers.registration.json_yaml import (
    MAX_BYTES_ON_LOOP,
    MAX_BYTES_PARSED,
    looks_like_openapi,
    parse_document,
    parse_json,
    parse_manual,
    reject_other_formats,
)
from app.providers.registration.model import (
    FETCHED,
    PLAIN,
    DocumentOptions,
    RegistrationBatch,
    RegistrationRequest,
    RegistrationSource,
    RejectedEntry,
)

MAX_ENTRIES: Final = 1_000
_ACCEPTED_FORMS: Final = (
    "{name, url}, {name, source}, a UTCP call template or provider, a UTCP manual, an OpenAPI document, "
    "a list of providers, {manual_call_templates}, or {mcpServers}"
)
_YAML: Final = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/plain",
                          "application/vnd.yaml", "application/vnd.oai.openapi", ""})  # fmt: skip
_GZIP: Final = frozenset({"application/gzip", "application/x-gzip"})
_ZIP: Final = frozenset({"application/zip", "application/x-zip-compressed"})
_OTHERS: Final = _YAML | _ZIP | _GZIP | TOML_TYPES
FORM_FIELDS: Final = (
    "name",
    "options",
    "credentials",
    "variables",
    "tags",
    "language",
    "limits",
    "description",
)
READING_FIELDS: Final = ("root", "overlay")
_SOURCE_KINDS: Final = ("url", "document", "manual", "call_template", "manifests")
# The first key of a canonical body; no OpenAPI document begins with one of these.
_CANONICAL: Final = re.compile(rb'\s*\{\s*"(?:name|source|credentials|options|variables|limits)"\s*:')


def require_readable(essence: str) -> None:
    """Raise UnsupportedMediaType for a media type, in lower case and without parameters, that no registration
    has.
    """
    if not is_json(essence) and essence not in _OTHERS and not essence.endswith("+yaml"):
        raise UnsupportedMediaType(
            f"Send JSON, YAML, TOML, a zip archive or multipart/form-data, not {essence[:100]!r}."
        )


async def read_content(body: bytes, *, media_type: str, name: str | None) -> RegistrationBatch:
    """Return what a body without a content coding asks for; `name` is that of the query.

    Raises BadRequest, InvalidInput and TooLarge.
    """
    essence = parse_essence(media_type)
    has_json = is_json(essence)
    if essence in _ZIP or is_archive(body):
        return _build_single(name, RegistrationSource("document", body, media_type))
    if not body.strip():
        raise BadRequest("The body is empty.")
    if essence in TOML_TYPES or (not has_json and is_manifest(body)):
        return _build_single(name, RegistrationSource("document", body, media_type))
    if len(body) > MAX_BYTES_PARSED and sniff(body) and not _CANONICAL.match(body):
        return _build_single(name, RegistrationSource("document", body, media_type))
    try:
        raw = await (parse_json_body(body) if has_json else parse_document(body, media_type=essence))
    except (BadRequest, InvalidInput, TooLarge):
        if has_json and body.lstrip()[:1] in {b"{", b"["}:
            raise
        reject_other_formats(None, body)
        if not sniff(body):
            raise
        # The converter has higher limits, and knows the errors of its documents.
        return _build_single(name, RegistrationSource("document", body, media_type))
    if len(body) < MAX_BYTES_ON_LOOP:
        return read_registrations(raw, name=name, body=body, media_type=essence)
    return await asyncio.to_thread(read_registrations, raw, name=name, body=body, media_type=essence)


def _build_single(name: str | None, source: RegistrationSource) -> RegistrationBatch:
    return RegistrationBatch((RegistrationRequest(named(None, name), source),))


async def parse_json_body(body: bytes) -> Any:
    """Return the value of a JSON text, which is parsed in a thread where it is long."""
    if len(body) < MAX_BYTES_ON_LOOP:
        return parse_json(body)
    return await asyncio.to_thread(parse_json, body)


async def read_uploaded_document(
    body: bytes,
    fields: Mapping[str, Any],
    *,
    media_type: str,
    options: DocumentOptions,
    own_name: str | None,
    name: str | None,
) -> RegistrationRequest:
    """Return the registration of a file of a form, with the other fields of the form; `own_name` is that in
    the form, `name` that of the query.
    """
    source = RegistrationSource("document", body, media_type, at="/file", options=options)
    if source.options == PLAIN and is_manifest_source(body):
        pass
    elif source.options == PLAIN and not await looks_like_openapi(body, media_type=media_type):
        value = await parse_manual(body, media_type=media_type, at="/file")
        source = RegistrationSource("manual", value=value, at="/file")
        configuration = PROTOCOLS.configuration(value) if detect_kind(value) == "unknown" else None
        if configuration is not None:
            source, own_name = (
                _build_configured_source(configuration, source_pointer="/file"),
                own_name or name or _name_of(configuration),
            )
    return request_from_fields(
        validated(RegistrationFields, fields), name=named(own_name, name), source=source
    )


def read_uploaded_manifests(
    contents: Mapping[str, bytes], fields: Mapping[str, Any], *, own_name: str | None, name: str | None
) -> RegistrationRequest:
    """Return the registration of several files of a form, by name: ToolClad manifests and what belongs to
    them, as one archive.
    """
    source = RegistrationSource("document", pack_files(contents), "application/zip", at="/file")
    return request_from_fields(
        validated(RegistrationFields, fields), name=named(own_name, name), source=source
    )


def require_member_name(name: str, present: Mapping[str, bytes], *, file_pointer: str) -> str:
    """Return the name of a file in an archive of manifests; raise InvalidInput for any other file."""
    is_known = name.endswith(SUFFIX) or name in (PROJECT_FILE, *SERVER_FILES)
    if not is_known or "/" in name or not may_be_packed(name, b""):
        detail = (
            f"Several files are ToolClad manifests: name each `*{SUFFIX}`, `{PROJECT_FILE}` or `mcp.json`."
        )
        raise InvalidInput("A file does not belong here.", errors=[FieldError(file_pointer, detail)])
    if name in present:
        raise InvalidInput(
            "Two files have one name.", errors=[FieldError(file_pointer, "Name each file once.")]
        )
    return name


def read_registrations(
    raw: Any, *, name: str | None, body: bytes = b"", media_type: str = ""
) -> RegistrationBatch:
    """Return what a parsed body asks for. `name` stands in where the body has none; `body` are its bytes.

    Raises InvalidInput. In a list, an entry that cannot be read becomes a RejectedEntry.
    """
    if isinstance(raw, Mapping) and "source" in raw and not {"openapi", "swagger", "paths"} & raw.keys():
        return RegistrationBatch((read_canonical(raw, name=name),))
    kind = "openapi" if is_convertible(raw) else detect_kind(raw)
    if kind == "unknown" and _is_url_registration(raw):
        return RegistrationBatch((read_url_registration(raw, name=name),))
    configuration = PROTOCOLS.configuration(raw) if kind == "unknown" else None
    if configuration is not None:
        return RegistrationBatch((read_configuration(configuration, raw, name=name),))
    if kind == "providers_list":
        return _read_entries(raw, list_pointer="", variables={})
    if kind == "manual_call_templates":
        return _read_entries(
            raw["manual_call_templates"],
            list_pointer="/manual_call_templates",
            variables=raw.get("variables"),
        )
    if kind in {"provider_v0", "call_template_v1"}:
        return RegistrationBatch((read_template_entry(raw, name=name),))
    if kind == "openapi":
        source = RegistrationSource("document", body=body or exact_json.dumps(raw), media_type=media_type)
        return _build_single(name, source)
    if kind in {"manual_v0", "manual_v1"} or (isinstance(raw, Mapping) and "tools" in raw):
        return _build_single(name, RegistrationSource("manual", value=raw))
    reject_other_formats(raw, body)
    problem = FieldError(
        "", "The body is none of the forms that can be registered.", expected=_ACCEPTED_FORMS
    )
    raise InvalidInput("The kind of registration cannot be determined.", errors=[problem])


def read_canonical(raw: Mapping[str, Any], *, name: str | None, at: str = "") -> RegistrationRequest:
    """Read `{name, source, options?, credentials?, variables?, tags?, limits?, description?}`."""
    body = validated(RegistrationInput, dict(raw), at=at)
    return request_from_fields(
        body,
        name=named(body.name, name, at=pointer(at, "name")),
        source=_read_source(_collect_members(body.source), source_pointer=pointer(at, "source")),
        at=at,
    )


def read_url_registration(raw: Mapping[str, Any], *, name: str | None, at: str = "") -> RegistrationRequest:
    """Read `{name, url, options?, credentials?, variables?, tags?, limits?, description?}`."""
    body = validated(UrlRegistrationInput, dict(raw), at=at)
    return request_from_fields(
        body,
        name=named(body.name, name, at=pointer(at, "name")),
        source=_read_plain_source({"url": body.url}, source_pointer=at),
        at=at,
    )


def read_configuration(
    configuration: ClientConfiguration, raw: Mapping[str, Any], *, name: str | None, at: str = ""
) -> RegistrationRequest:
    """Read the configuration of a client of another protocol, e.g. `{"mcpServers": {...}}`, beside which
    members of a registration may stand; other members of such a file are ignored.
    """
    fields = {key: raw[key] for key in FORM_FIELDS if key in raw and key != "name"}
    own_name = raw.get("name")
    chosen = (own_name if isinstance(own_name, str) else None) or name or _name_of(configuration)
    return request_from_fields(
        validated(RegistrationFields, fields, at=at),
        name=named(chosen, None, at=pointer(at, "name")),
        source=_build_configured_source(configuration, source_pointer=at),
        at=at,
    )


def _name_of(configuration: ClientConfiguration) -> str | None:
    return None if configuration.name is None else make_provider_name(configuration.name)


def _build_configured_source(
    configuration: ClientConfiguration, *, source_pointer: str
) -> RegistrationSource:
    return RegistrationSource(
        "template",
        value=configuration.template,
        at=source_pointer,
        moved=(configuration.pointer_in_template, configuration.pointer_in_document),
    )


def _is_url_registration(raw: Any) -> bool:
    return isinstance(raw, Mapping) and "url" in raw and "tools" not in raw


def request_from_fields(
    body: RegistrationFields, *, name: str, source: RegistrationSource, at: str = ""
) -> RegistrationRequest:
    """Return a registration from its validated parts."""
    return RegistrationRequest(
        name=name,
        source=source,
        description=body.description,
        tags=tuple(dict.fromkeys(body.tags)),
        language=body.language,
        limits=body.limits.stored(),
        options=_read_base_url_option(source) | body.options.stored(),
        option_secrets=body.options.secrets(),
        credentials={
            slot: credential.to_draft(at=pointer("/credentials", slot))
            for slot, credential in body.credentials.items()
        },
        variables={key: variable_draft(value) for key, value in body.variables.items()},
        at=at,
    )


def variable_draft(body: VariableInput) -> VariableDraft:
    """Return a variable from its validated form."""
    origins = body.allowed_origins
    return VariableDraft(
        body.value.get_secret_value(), body.secret, None if origins is None else tuple(origins)
    )


def read_template_entry(
    raw: Mapping[str, Any],
    *,
    name: str | None,
    at: str = "",
    variables: Mapping[str, VariableDraft] | None = None,
) -> RegistrationRequest:
    """Read a UTCP provider (0.x) or call template (1.x), whose own `name` becomes the provider's."""
    raw_name = raw.get("name")
    own_name = make_provider_name(raw_name) if isinstance(raw_name, str) and raw_name.strip() else None
    registered = named(own_name, name, at=pointer(at, "name"))
    source = RegistrationSource("template", value=dict(raw), at=at, options=FETCHED)
    return RegistrationRequest(
        registered, source, options=_read_base_url_option(source), variables=variables or {}, at=at
    )


def _read_base_url_option(source: RegistrationSource) -> dict[str, Any]:
    """Return the option `base_url` of UTCP's `text`: nothing else of that template is stored."""
    if source.kind != "template" or not isinstance(source.value.get("content"), str):
        return {}
    base = source.value.get("base_url")
    return {"base_url": base} if isinstance(base, str) and origin_of(base) else {}


def make_provider_name(raw: str) -> str:
    """Return a legal name as near to that of a UTCP manual as can be: `my.gw` becomes `my_gw`."""
    return make_legal_name(raw.strip())[:50].strip("_-") or "provider"


def named(own_name: str | None, fallback: str | None, *, at: str = "/name") -> str:
    """Return the provider's name: its own, else `?name=`; raise InvalidInput where neither fits."""
    chosen = own_name or fallback
    if chosen is None:
        problem = FieldError(at, "Give a name in the body, or ?name= where the body has no place for one.")
        raise InvalidInput("The provider has no name.", errors=[problem])
    if not re.fullmatch(PROVIDER_NAME, chosen):
        problem = FieldError(at, "The name does not fit.", expected=PROVIDER_NAME)
        raise InvalidInput("The provider's name cannot be used.", errors=[problem])
    return chosen


def _collect_members(source: SourceInput) -> dict[str, Any]:
    # Not model_dump, which copies a document of a million values in seconds.
    members = ((name, getattr(source, name)) for name in SourceInput.model_fields)
    return {name: member for name, member in members if member is not None}


def _read_source(given: dict[str, Any], *, source_pointer: str) -> RegistrationSource:
    options = build_document_options(given)
    source = _read_plain_source(given, source_pointer=source_pointer)
    if options != PLAIN and source.kind == "manual":
        problem = FieldError(
            source_pointer, "root, overlay and follow_references go with an OpenAPI document."
        )
        raise InvalidInput("The source is a manual, which has none of these.", errors=[problem])
    if options.follow_references and source.kind == "document":
        problem = FieldError(
            pointer(source_pointer, "follow_references"), "This goes with a url or a call_template."
        )
        raise InvalidInput("The source holds what it cannot use.", errors=[problem])
    return replace(source, options=options)


def build_document_options(given: Mapping[str, Any]) -> DocumentOptions:
    """Return `root`, `overlay` and, of a URL or call template, `follow_references` of a validated source."""
    overlay = given.get("overlay")
    text = exact_json.dumps(overlay).decode() if isinstance(overlay, Mapping) else overlay
    follows = given.get("follow_references", None if {"url", "call_template"} & given.keys() else False)
    return DocumentOptions(given.get("root"), text, follows)


def _read_plain_source(given: dict[str, Any], *, source_pointer: str) -> RegistrationSource:
    kinds = [key for key in _SOURCE_KINDS if key in given]
    if len(kinds) != 1:
        problem = FieldError(
            source_pointer, "Give exactly one of url, document, manual, call_template and manifests."
        )
        raise InvalidInput("The source is not clear.", errors=[problem])
    kind = kinds[0]
    beside: dict[str, Any] = {key: given[key] for key in ("headers", "auth", "auth_tools") if key in given}
    if kind == "url":
        template = {"call_template_type": DEFAULT, "url": given["url"], **beside}
        return RegistrationSource("template", value=template, at=source_pointer, options=FETCHED)
    if beside:
        member = next(iter(beside))
        problem = FieldError(
            pointer(source_pointer, member), "This goes with a url only; a call_template holds its own."
        )
        raise InvalidInput("The source holds what it cannot use.", errors=[problem])
    if kind == "call_template":
        return RegistrationSource(
            "template", value=given[kind], at=pointer(source_pointer, kind), options=FETCHED
        )
    if kind == "manual":
        return RegistrationSource("manual", value=given[kind], at=pointer(source_pointer, kind))
    if kind == "manifests":
        return _read_manifests(given[kind], source_pointer=pointer(source_pointer, kind))
    document = given[kind]
    if isinstance(document, str):
        return RegistrationSource(
            "document", body=document.encode("utf-8", "replace"), at=pointer(source_pointer, kind)
        )
    if detect_kind(document) in {"manual_v0", "manual_v1"}:
        return RegistrationSource("manual", value=document, at=pointer(source_pointer, kind))
    configuration = PROTOCOLS.configuration(document) if detect_kind(document) == "unknown" else None
    if configuration is not None:
        return _build_configured_source(configuration, source_pointer=pointer(source_pointer, kind))
    return RegistrationSource(
        "document",
        body=exact_json.dumps(document),
        media_type="application/json",
        at=pointer(source_pointer, kind),
    )


def _read_manifests(given: Mapping[str, Any], *, source_pointer: str) -> RegistrationSource:
    """Return ToolClad manifests, and what belongs to them, by the names of their files, as one archive."""
    contents: dict[str, bytes] = {}
    for name, member in given.items():
        text = member if isinstance(member, str) else exact_json.dumps(member).decode()
        contents[require_member_name(name, contents, file_pointer=pointer(source_pointer, name))] = (
            text.encode("utf-8", "replace")
        )
    return RegistrationSource("document", pack_files(contents), "application/zip", at=source_pointer)


def _read_entries(entries: Sequence[Any], *, list_pointer: str, variables: Any) -> RegistrationBatch:
    if not entries or len(entries) > MAX_ENTRIES:
        problem = FieldError(list_pointer, f"Give 1 to {MAX_ENTRIES} entries.", expected="array")
        raise InvalidInput("The list has no entries, or too many.", errors=[problem])
    read: list[RegistrationRequest | RejectedEntry] = []
    for index, entry in enumerate(entries):
        entry_pointer = pointer(list_pointer, index)
        read.append(read_or_reject(partial(_read_entry, entry, entry_pointer, variables), entry))
    return RegistrationBatch(tuple(read), is_list=True)


def read_or_reject(
    read: Callable[[], RegistrationRequest], entry: Any
) -> RegistrationRequest | RejectedEntry:
    """Return the registration, or why it could not be read."""
    try:
        return read()
    except InvalidInput as error:
        name = entry.get("name") if isinstance(entry, Mapping) else None
        legible = name.replace("\x00", "")[:200] if isinstance(name, str) else None
        return RejectedEntry(legible, error)


def _read_entry(entry: Any, entry_pointer: str, variables: Any) -> RegistrationRequest:
    if not isinstance(entry, Mapping):
        problem = FieldError(entry_pointer, "Give an object.", expected="object")
        raise InvalidInput("An entry must be a provider or a call template.", errors=[problem])
    if "source" in entry:
        return read_canonical(entry, name=None, at=entry_pointer)
    is_unknown = detect_kind(entry) == "unknown"
    configuration = PROTOCOLS.configuration(entry) if is_unknown else None
    if configuration is not None:
        return read_configuration(configuration, entry, name=None, at=entry_pointer)
    if is_unknown and _is_url_registration(entry):
        return read_url_registration(entry, name=None, at=entry_pointer)
    registration = read_template_entry(entry, name=None, at=entry_pointer)
    entry_variables = _find_entry_variables(entry, registration.name, variables)
    return read_template_entry(entry, name=None, at=entry_pointer, variables=entry_variables)


def _find_entry_variables(
    entry: Mapping[str, Any], provider: str, variables: Any
) -> dict[str, VariableDraft]:
    """Return the variables of a UTCP client's configuration file that this entry names."""
    if not isinstance(variables, Mapping):
        return {}
    drafts: dict[str, VariableDraft] = {}
    for written in find_variables(dict(entry)):
        for spelling in list_candidates(written, provider):
            value = variables.get(spelling)
            if isinstance(value, str) and re.fullmatch(VARIABLE_NAME, spelling) and "\x00" not in value:
                drafts[spelling] = VariableDraft(value)
                break
    return drafts
