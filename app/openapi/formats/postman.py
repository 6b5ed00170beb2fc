"""Postman collections (formats 2.0 and 2.1) as OpenAPI documents.

https://schema.postman.com/collection/json/v2.1.0/draft-07/docs/index.html. A folder is a tag; a variable in
the host is a server variable, one in the path, the query or a header an input; authorisation is inherited
from folders and the collection. Scripts are not run, and secrets in a collection are not taken over.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from app.core.secret_names import is_credential_name, is_secret_header
from app.openapi.formats.detection import get_collection
from app.openapi.formats.examples import has_variable, infer_text_schema
from app.openapi.formats.postman_auth import PostmanSchemes
from app.openapi.formats.postman_bodies import (
    convert_request_body,
    convert_responses,
    is_required,
    list_members,
    read_description,
)
from app.openapi.formats.postman_urls import PostmanUrl, build_server, read_url
from app.openapi.formats.translation import OPENAPI, UNREADABLE, UNREADABLE_PART, Translation, Warn
from app.openapi.model import METHODS, Json
from app.openapi.reading.refs import escape_token

_WORDS: Final = re.compile(r"[A-Za-z0-9]+")
_MAX_NAME: Final = 60
# RFC 9110 section 5.6.2: a method is a token. Those without a field in OpenAPI are additional operations.
_METHOD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,40}")
_FIXED: Final = frozenset({*METHODS, "query"})
# Headers that a client sets by itself.
_OWN_HEADERS: Final = frozenset(
    {"accept", "accept-encoding", "cache-control", "connection", "content-length", "content-type", "host"}
    | {"postman-token", "user-agent"}
)
_SCRIPTS: Final = "its scripts are not run"


def translate_postman(raw: Json, *, warn: Warn) -> Translation:
    """Return the OpenAPI document of a collection; what is left out is reported to `warn`."""
    inside = get_collection(raw)
    return _PostmanTranslator(inside, "" if inside is raw else "/collection", warn).translate()


@dataclass(frozen=True, slots=True)
class _Request:
    """A request with what it inherits: the names of its folders, variables and authorisation."""

    item: Mapping[str, Any]
    pointer: str
    folders: tuple[str, ...]
    variables: Mapping[str, str]
    auth: Any
    has_scripts: bool

    @property
    def name(self) -> str:
        name = self.item.get("name")
        return name.strip() if isinstance(name, str) else ""

    @property
    def request(self) -> Mapping[str, Any]:
        """The request; its short form is the URL alone."""
        request = self.item.get("request")
        return request if isinstance(request, Mapping) else {"url": request}


@dataclass(slots=True)
class _PostmanTranslator:
    collection: Mapping[str, Any]
    base_pointer: str
    warn: Warn
    schemes: PostmanSchemes = field(default_factory=PostmanSchemes)
    tags: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    paths: dict[str, Json] = field(default_factory=dict)
    operations: dict[tuple[str, tuple[str, ...]], Json] = field(default_factory=dict)
    numbers: dict[tuple[str, tuple[str, ...]], int] = field(default_factory=dict)
    """The last number of a path that several requests have."""
    servers: dict[str, tuple[Json, int]] = field(default_factory=dict)
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    pointers: dict[str, str] = field(default_factory=dict)

    def translate(self) -> Translation:
        for request in self._list_requests():
            try:
                self._add(request)
            except UNREADABLE:
                self.warn(request.pointer, UNREADABLE_PART)
        info = self.collection.get("info")
        info = info if isinstance(info, Mapping) else {}
        document: Json = {
            "openapi": OPENAPI,
            "info": {
                "title": info.get("name"),
                "version": _read_version(info.get("version")),
                "description": read_description(info.get("description")),
            },
            "servers": self._find_common_servers(),
            "tags": [{"name": name, "description": text} for name, text in self.tags.items()],
            "paths": self.paths,
            "components": {"securitySchemes": self.schemes.schemes},
        }
        return Translation(document, self.notes, self.pointers)

    def _list_requests(self) -> Iterator[_Request]:
        """Yield the requests in their order, folders first to last."""
        whole = self.collection
        first = _Request(
            whole, self.base_pointer, (), _read_variables(whole, {}), whole.get("auth"), _has_scripts(whole)
        )
        stack = [first]
        while stack:
            parent = stack.pop()
            listed = parent.item.get("item")
            if not isinstance(listed, list):
                yield parent
                continue
            inner: list[_Request] = []
            for index, item in enumerate(listed):
                pointer = f"{parent.pointer}/item/{index}"
                if not isinstance(item, Mapping):
                    self.warn(pointer, "an item that is not an object was left out")
                    continue
                inner.append(self._read_child(parent, item, pointer))
            stack.extend(reversed(inner))

    def _read_child(self, parent: _Request, item: Mapping[str, Any], pointer: str) -> _Request:
        folders = parent.folders
        name = item.get("name")
        if isinstance(item.get("item"), list) and isinstance(name, str) and name.strip():
            folders = (*folders, name.strip())
            self.tags.setdefault(name.strip(), read_description(item.get("description")))
        auth = item.get("auth")
        if auth is None and isinstance(item.get("request"), Mapping):
            auth = item["request"].get("auth")
        is_inherited = auth is None or (isinstance(auth, Mapping) and auth.get("type") == "inherit")
        variables = _read_variables(item, parent.variables)
        scripts = parent.has_scripts or _has_scripts(item)
        return _Request(item, pointer, folders, variables, parent.auth if is_inherited else auth, scripts)

    def _add(self, request: _Request) -> None:
        if "request" not in request.item:
            if request.item is not self.collection:
                self.warn(request.pointer, "an item without a request was left out")
            return
        method = request.request.get("method") or "GET"
        method = method.strip() if isinstance(method, str) else ""
        url = read_url(request.request.get("url"))
        if url is None:
            self.warn(request.pointer, "a request without a URL was left out")
            return
        if not _METHOD.fullmatch(method):
            self.warn(request.pointer, "a request whose method HTTP does not allow was left out")
            return
        tokens = (method.lower(),) if method.lower() in _FIXED else ("additionalOperations", method)
        path, operation, notes = self._build_operation(request, url)
        path = self._free_path(path, tokens, request.name)
        holder = self.paths.setdefault(path, {})
        for token in tokens[:-1]:
            holder = holder.setdefault(token, {})
        holder[tokens[-1]] = operation
        self.operations[path, tokens] = operation
        pointer = "".join(f"/{escape_token(token)}" for token in ("paths", path, *tokens))
        self.pointers[pointer] = request.pointer
        self.notes[pointer] = tuple(notes)

    def _free_path(self, path: str, tokens: tuple[str, ...], name: str) -> str:
        """Return the path; of further requests with the same method and path with their name as a fragment,
        which distinguishes operations and is never sent.
        """
        if (path, tokens) not in self.operations:
            return path
        text = "_".join(_WORDS.findall(name))[:_MAX_NAME] or "request"
        chosen = f"{path}#{text}"
        key = (chosen, tokens)
        number = self.numbers.get(key, 1)
        while (chosen, tokens) in self.operations:
            number += 1
            chosen = f"{path}#{text}_{number}"
        self.numbers[key] = number
        return chosen

    def _build_operation(self, request: _Request, url: PostmanUrl) -> tuple[str, Json, list[str]]:
        notes: list[str] = []
        path, placeholders = url.build_path_template()
        required = self.schemes.require_auth(request.auth, request.variables)
        has_auth = bool(required)
        content_type = None
        parameters = _build_path_parameters(url, placeholders, request.variables)
        query = _build_query(url, request.variables)
        for name, value, parameter in query:
            if is_credential_name(name):
                required = {**required, self.schemes.add_parameter_scheme(name, "query", value): []}
                notes.append(
                    f"query parameter `{name}` is a credential: its value in the collection is not used"
                )
            else:
                parameters.append(parameter)
        for name, value, entry in list_members(_list_headers(request.request.get("header"))):
            if name.lower() == "content-type" and not has_variable(value):
                content_type = value
            if name.lower() in _OWN_HEADERS or (name.lower() == "authorization" and has_auth):
                continue
            if is_secret_header(name):
                if entry.get("disabled") is not True:
                    required = {**required, self.schemes.add_parameter_scheme(name, "header", value): []}
                    notes.append(f"header `{name}` is a credential: its value in the collection is not used")
                continue
            parameters.append(_build_header(name, value, entry, request.variables))
        if request.has_scripts:
            notes.append(_SCRIPTS)
        operation: Json = {
            "operationId": self._name(request, path),
            "summary": request.name,
            "description": read_description(request.request.get("description"))
            or read_description(request.item.get("description")),
            "tags": list(request.folders),
            "parameters": parameters,
            "security": [required] if required else [],
            "responses": convert_responses(request.item.get("response")),
        }  # fmt: skip
        body = convert_request_body(request.request.get("body"), content_type=content_type)
        if body is not None:
            operation["requestBody"] = body
        server = build_server(url, request.variables)
        if server is not None:
            operation["servers"] = [server]
            known = self.servers.get(server["url"])
            self.servers[server["url"]] = (server, 1 if known is None else known[1] + 1)
        return path, operation, notes

    def _name(self, request: _Request, path: str) -> str:
        """Return an operation id: the request's name, with its folders if an earlier request has it."""
        name = "_".join(_WORDS.findall(request.name)).lower()[:_MAX_NAME]
        if not name:
            method = str(request.request.get("method") or "get").lower()
            name = "_".join([method, *_WORDS.findall(path)])[:_MAX_NAME]
        folders = "_".join(word for folder in request.folders for word in _WORDS.findall(folder)).lower()
        candidates = (
            name,
            f"{folders[: _MAX_NAME - 20]}_{name}".strip("_"),
            "_".join([name, *_WORDS.findall(path)]),
        )
        chosen = next((one for one in candidates if one not in self.names), name)[:_MAX_NAME]
        self.names.add(chosen)
        return chosen

    def _find_common_servers(self) -> list[Json]:
        """Return the server of most requests as that of the document, and remove it from its operations."""
        if not self.servers:
            return []
        counts = Counter({url: count for url, (_, count) in self.servers.items()})
        common = self.servers[counts.most_common(1)[0][0]][0]
        for operation in self.operations.values():
            if operation.get("servers") == [common]:
                del operation["servers"]
        return [common]


def _read_variables(holder: Mapping[str, Any], inherited: Mapping[str, str]) -> Mapping[str, str]:
    """Return the values of the variables of a collection or folder; "" for those that are secret."""
    listed = holder.get("variable")
    values: dict[str, str] = {}
    for one in listed if isinstance(listed, list) else ():
        if not isinstance(one, Mapping) or one.get("disabled") is True:
            continue
        if isinstance(one.get("value"), str | int | float):
            name = str(one.get("key") or one.get("id"))
            is_secret = one.get("type") == "secret" or is_secret_header(name)
            values[name] = "" if is_secret else str(one["value"])
    return {**inherited, **values} if values else inherited


def _has_scripts(holder: Mapping[str, Any]) -> bool:
    """Return whether it has a script that runs before a request, and may change it."""
    events = holder.get("event")
    for event in events if isinstance(events, list) else ():
        script = event.get("script") if isinstance(event, Mapping) else None
        if not isinstance(script, Mapping) or event.get("listen") != "prerequest":
            continue
        lines = script.get("exec")
        text = (
            lines if isinstance(lines, str) else "".join(map(str, lines)) if isinstance(lines, list) else ""
        )
        if text.strip():
            return True
    return False


def _list_headers(listed: Any) -> Any:
    """Return the headers as a list; in a text, each line is a header."""
    if not isinstance(listed, str):
        return listed
    pairs = (line.partition(":") for line in listed.splitlines())
    return [{"key": name.strip(), "value": value.strip()} for name, _, value in pairs if name.strip()]


def _read_value(written: str, variables: Mapping[str, str]) -> str:
    """Return the value of a text that is a variable, if the collection has it; else the text."""
    text = written.strip()
    if text.startswith("{{") and text.endswith("}}"):
        return variables.get(text[2:-2].strip(), "")
    return written


def _build_path_parameters(
    url: PostmanUrl, placeholders: Mapping[str, str], variables: Mapping[str, str]
) -> list[Json]:
    entries = {str(one.get("key") or one.get("id")): one for one in url.variables}
    parameters: list[Json] = []
    for name, written in placeholders.items():
        entry = entries.get(written[1:], {}) if written.startswith(":") else {}
        value = entry.get("value") if written.startswith(":") else written
        text = _read_value(str(value), variables) if isinstance(value, str | int | float) else ""
        parameters.append(
            {
                "name": name,
                "in": "path",
                "required": True,
                "description": read_description(entry.get("description")),
                "schema": infer_text_schema(text),
            }
        )
    return parameters


def _build_query(url: PostmanUrl, variables: Mapping[str, str]) -> list[tuple[str, str, Json]]:
    """Return name, value and Parameter Object of each name in the query."""
    parameters: dict[str, tuple[str, str, Json]] = {}
    for name, value, entry in list_members(url.query):
        about = read_description(entry.get("description"))
        schema = infer_text_schema(_read_value(value, variables))
        if name in parameters and entry.get("disabled") is not True:
            items = parameters[name][2]["schema"]
            schema = {"type": "array", "items": items.get("items", items)}
            about = about or parameters[name][2]["description"]
        parameter = {"name": name, "in": "query", "required": is_required(about), "description": about,
                     "schema": schema}  # fmt: skip
        parameters[name] = (name, value, parameter)
    return list(parameters.values())


def _build_header(name: str, value: str, entry: Mapping[str, Any], variables: Mapping[str, str]) -> Json:
    """Return a header as an input, required unless it is disabled, as Postman would always send it."""
    about = read_description(entry.get("description"))
    text = _read_value(value, variables)
    schema = infer_text_schema(text)
    if text and not has_variable(text):
        schema = {**{key: one for key, one in schema.items() if key != "examples"}, "default": text}
    required = entry.get("disabled") is not True or is_required(about)
    return {"name": name, "in": "header", "required": required, "description": about, "schema": schema}


def _read_version(version: Any) -> str:
    if isinstance(version, Mapping):
        return ".".join(str(version[key]) for key in ("major", "minor", "patch") if key in version)
    return version if isinstance(version, str) else ""
