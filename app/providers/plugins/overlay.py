"""The overlay that makes the tools of an entry of a vendor's document: the operations of the entry are
chosen, named and described, all others removed, and security schemes of the entry added.

An overlay is part of a provider's source, so a refresh applies it to a newer document, too.
"""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from app.core import exact_json
from app.openapi.model import OUTPUT_EXTENSION
from app.providers.plugins.entry import PluginDocument, PluginEntry, PluginOperation

CHOSEN: Final = "x-utcp-tool"
"""The extension of an operation that the entry has chosen; its value is the tool's name."""


def overlay_of(entry: PluginEntry, document: PluginDocument, *, base_url: str | None = None) -> str:
    """Return the overlay of an entry with a document, as JSON. With `base_url` the operations are called
    there, in place of at the document's servers.
    """
    schemes = {slot: one.scheme for slot, one in entry.credentials.items() if one.scheme is not None}
    actions = [
        *(one.action() for one in document.corrections),
        *_choose(document),
        *_secure(document, schemes),
    ]
    actions.append({
        "target": f"$.paths[*][?!@['{CHOSEN}'] && (@.responses || @.operationId || @.parameters)]",
        "remove": True,
    })  # fmt: skip
    if base_url is not None:
        actions += _move(base_url)
    overlay = {
        "overlay": "1.0.0",
        "info": {"title": f"The plugin {entry.name}", "version": str(entry.version)},
        "actions": actions,
    }
    return exact_json.dumps(overlay).decode()


def _choose(document: PluginDocument) -> Iterator[dict[str, Any]]:
    for one in document.operations:
        update: dict[str, Any] = {CHOSEN: one.name, "operationId": one.name}
        if one.description is not None:
            # Where both are equal, the converter takes them once.
            update |= {"summary": one.description, "description": one.description}
        if one.output is not None:
            spec = one.output.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            update[OUTPUT_EXTENSION] = {"output": spec, "schema": one.outputs or {}}
        yield {"target": _target(one), "update": update}


def _secure(document: PluginDocument, schemes: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what gives the chosen operations the security schemes of the entry, in place of their own."""
    if not schemes:
        return
    where = (
        {"securityDefinitions": schemes}
        if document.format == "swagger"
        else {"components": {"securitySchemes": schemes}}
    )
    chosen = f"$.paths[*][?@['{CHOSEN}']]"
    yield {"target": "$", "update": where}
    # Lists are extended by an update, not replaced.
    yield {"target": f"$.paths[*][?@['{CHOSEN}' ] && @.security]['security']", "remove": True}
    yield {"target": chosen, "update": {"security": [{slot: [] for slot in schemes}]}}


def _move(base_url: str) -> Iterator[dict[str, Any]]:
    """Yield what replaces the servers of a document; lists are extended by an update, so they are removed.

    Both generations get their own members, and ignore those of the other: of some APIs the vendor publishes
    Swagger 2.0, and a mirror has it converted to OpenAPI 3.
    """
    for target in (
        "$.servers",
        "$.paths[*].servers",
        "$.paths[*][*].servers",
        "$.schemes",
        "$.paths[*][*].schemes",
    ):
        yield {"target": target, "remove": True}
    parts = urlsplit(base_url)
    swagger = {"schemes": [parts.scheme], "host": parts.netloc, "basePath": parts.path or "/"}
    yield {"target": "$", "update": {"servers": [{"url": base_url}], **swagger}}


def _target(operation: PluginOperation) -> str:
    """Return the JSONPath (RFC 9535) of an operation."""
    named = operation.method_and_path
    if named is None:
        return f"$.paths[*][?@.operationId == {_quoted(operation.operation)}]"
    method, path = named
    return f"$.paths[{_quoted(path)}][{_quoted(method)}]"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
