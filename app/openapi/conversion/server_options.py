"""The servers that a document declares, and the registrar's choice: `server` and `server_variables`.

OAS Server Object and Server Variable Object; Swagger 2.0 `schemes`, `host` and `basePath`, and the extension
`x-ms-parameterized-host` of Azure's descriptions.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from app.core.errors import FieldError, InvalidDocument
from app.core.suggestions import did_you_mean, find_similar
from app.openapi.conversion.declared_servers import MAX_SERVERS, DeclaredServer, ServerVariable
from app.openapi.model import ConvertOptions, Json
from app.openapi.reading.refs import References, RefProblem, escape_token

_MAX_DECLARED: Final = 1_000
# A value that has one of these would end the host, or put another before it.
_ENDS_HOST: Final = re.compile(r"[/?#@\\\s\x00-\x1f\x7f]")
_NOT_IN_URL: Final = re.compile(r"[\s\x00-\x1f\x7f\\]")


def list_servers_v2(raw: Json, references: References, *, schemes: Sequence[str]) -> list[Json]:
    """Return the servers of a Swagger 2.0 document as Server Objects, one for each scheme.

    Without `host` there is none. Placeholders of the host are variables, described by
    `x-ms-parameterized-host` if it is there.
    """
    path = raw.get("basePath")
    path = "/" + path.strip().lstrip("/") if isinstance(path, str) and path.strip() else "/"
    pattern = raw.get("x-ms-parameterized-host")
    if isinstance(pattern, dict) and isinstance(pattern.get("hostTemplate"), str):
        host = pattern["hostTemplate"].strip()
        variables = dict(_list_host_parameters(pattern.get("parameters"), references))
        if pattern.get("useSchemePrefix") is False:
            return [{"url": host.rstrip("/") + path, "variables": variables}]
    else:
        written = raw.get("host")
        if not isinstance(written, str) or not written.strip():
            return []
        host, variables = re.sub(r"^[a-z]+://", "", written.strip()), {}
    return [{"url": f"{scheme}://{host.rstrip('/')}{path}", "variables": variables} for scheme in schemes]


def _list_host_parameters(listed: Any, references: References) -> Iterator[tuple[str, Json]]:
    for node in listed[:MAX_SERVERS] if isinstance(listed, list) else ():
        try:
            resolved = references.follow(node, location="/x-ms-parameterized-host/parameters").node
        except RefProblem:
            continue
        if isinstance(resolved, dict) and isinstance(resolved.get("name"), str):
            yield resolved["name"], resolved


def declared_servers(raw: Json, references: References, *, version: str) -> tuple[DeclaredServer, ...]:
    """Return the servers of the document, of its paths and of its operations, each once."""
    servers: dict[DeclaredServer, None] = {}
    for node in _list_server_nodes(raw, references, version):
        server = DeclaredServer.of(node)
        if server is not None:
            servers[server] = None
        if len(servers) >= _MAX_DECLARED:
            break
    return tuple(servers)


def _list_server_nodes(raw: Json, references: References, version: str) -> Iterator[Any]:
    if version == "2.0":
        listed = raw.get("schemes")
        schemes = [one for one in listed if one in ("https", "http")] if isinstance(listed, list) else []
        yield from list_servers_v2(raw, references, schemes=schemes or ["https"])
        return
    yield from _read_servers(raw)
    paths = raw.get("paths")
    for item in paths.values() if isinstance(paths, dict) else ():
        yield from _read_servers(item)
        yield from _of_operations(item)


def _of_operations(item: Any) -> Iterator[Any]:
    for key, value in item.items() if isinstance(item, dict) else ():
        further = value.values() if key == "additionalOperations" and isinstance(value, dict) else (value,)
        for operation in further:
            yield from _read_servers(operation)


def _read_servers(holder: Any) -> list[Any]:
    servers = holder.get("servers") if isinstance(holder, dict) else None
    return servers[:MAX_SERVERS] if isinstance(servers, list) else []


def find_chosen_server(choice: str | int | None, listed: Sequence[Any], *, is_root: bool) -> Any:
    """Return the server of a list that the registrar chose; None where it chose none of them.

    A number is the index in the list of the document; a path or an operation with a list of its own only
    takes a server of the same URL, name or description.
    """
    if choice is None:
        return None
    if isinstance(choice, str):
        for node in listed:
            server = DeclaredServer.of(node)
            if server is not None and server.is_named(choice):
                return node
        if not choice.isdecimal():
            return None
    index = int(choice)
    return listed[index] if is_root and index < len(listed) else None


def check_server_options(options: ConvertOptions, raw: Json, servers: Sequence[DeclaredServer]) -> None:
    """Raise InvalidDocument, with pointers below `/options`, for a choice that fits none of the servers."""
    errors = [*_check_choice(options, raw, servers), *_check_variables(options, servers)]
    if errors:
        raise InvalidDocument(f"The options do not fit the document. {errors[0].detail}", errors=errors)


def _check_choice(
    options: ConvertOptions, raw: Json, servers: Sequence[DeclaredServer]
) -> Iterator[FieldError]:
    choice = options.server
    if choice is None:
        return
    root = _read_servers(raw) or ([one.to_json() for one in servers] if "swagger" in raw else [])
    if find_chosen_server(choice, root, is_root=True) is not None:
        return
    if isinstance(choice, str) and any(one.is_named(choice) for one in servers):
        return
    offered = [one.url for one in servers[:MAX_SERVERS]]
    texts = (text for one in servers for text in (one.name, one.description))
    names = [*offered, *filter(None, texts)]
    meant = did_you_mean(find_similar(str(choice), names)) if isinstance(choice, str) else ""
    detail = f"The document has no server {choice!r}. {meant}".strip() if servers else "It has no servers."
    yield FieldError("/options/server", detail, offered)


def _check_variables(options: ConvertOptions, servers: Sequence[DeclaredServer]) -> Iterator[FieldError]:
    known: dict[str, list[tuple[DeclaredServer, ServerVariable]]] = {}
    for server in servers:
        for variable in server.variables:
            known.setdefault(variable.name, []).append((server, variable))
    for name, value in options.server_variables.items():
        pointer = f"/options/server_variables/{escape_token(name)}"
        if name not in known:
            meant = did_you_mean(find_similar(name, known))
            detail = f"No server of the document has the variable {name[:100]!r}. {meant}".strip()
            yield FieldError(pointer, detail, sorted(known)[:MAX_SERVERS])
            continue
        if all(variable.enum and value not in variable.enum for _, variable in known[name]):
            allowed = dict.fromkeys(one for _, variable in known[name] for one in variable.enum)
            meant = did_you_mean(find_similar(value, allowed))
            yield FieldError(pointer, f"The variable cannot have this value. {meant}".strip(), list(allowed))
        elif _NOT_IN_URL.search(value) or any(
            _ENDS_HOST.search(value) and name in server.host_variables and not _begins_with(server.url, name)
            for server, _ in known[name]
        ):
            yield FieldError(pointer, "The value is part of the host: give a name, without /, ?, # and @.")


def _begins_with(url: str, name: str) -> bool:
    return url.startswith(f"{{{name}}}") and not url.startswith(f"{{{name}}}://")
