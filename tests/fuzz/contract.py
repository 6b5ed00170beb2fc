"""The operations of the contract, as fuzzing reads them from a running gateway's OpenAPI document."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.harness.gateway import RunningGateway

_METHODS = frozenset({"get", "put", "post", "delete", "patch", "head", "options", "trace"})


@dataclass(frozen=True, slots=True)
class ContractOperation:
    """One operation: its id, method, path template, and definition in the OpenAPI document."""

    id: str
    method: str
    path: str
    definition: Mapping[str, Any] = field(repr=False)

    @property
    def statuses(self) -> tuple[str, ...]:
        """The documented statuses; `default` is one of them where it is documented."""
        return tuple(self.definition["responses"])

    @property
    def required_statuses(self) -> tuple[str, ...]:
        """The documented statuses that must be reached one by one: every 3xx and every 4xx."""
        return tuple(status for status in self.statuses if status[0] in "34")

    @property
    def path_parameters(self) -> tuple[str, ...]:
        """The names of the path parameters, in the order of the path."""
        return tuple(re.findall(r"\{(\w+)\}", self.path))

    @property
    def is_public(self) -> bool:
        """Whether the operation needs no API key."""
        return not self.definition.get("security")

    @property
    def required_scopes(self) -> frozenset[str]:
        """The scopes that a key needs."""
        return frozenset(self.definition.get("x-required-scopes", ()))

    def parameters(self, location: str) -> dict[str, Mapping[str, Any]]:
        """Return the parameters in `path`, `query` or `header`, by name (headers in lower case)."""
        return {
            one["name"].lower() if location == "header" else one["name"]: one
            for one in self.definition.get("parameters", ())
            if one["in"] == location
        }

    def body_example(self) -> tuple[str, Any] | None:
        """Return the first media type of the request body with its example, None without a body."""
        content = self.definition.get("requestBody", {}).get("content", {})
        if not content:
            return None
        media_type, media = next(iter(content.items()))
        if "example" in media:
            return media_type, media["example"]
        return media_type, next(iter(media["examples"].values()))["value"]

    def documents(self, status: int) -> bool:
        """Return whether a response with this status is documented."""
        return str(status) in self.statuses or "default" in self.statuses

    def documents_error_of(self, status: int, media_type: str) -> bool:
        """Return whether an error with this status and media type is documented."""
        return media_type in self.definition["responses"].get(str(status), {}).get("content", {})


def operations_of(document: Mapping[str, Any]) -> dict[str, ContractOperation]:
    """Return all operations of an OpenAPI document by their ids, in the order of the document."""
    return {
        definition["operationId"]: ContractOperation(
            definition["operationId"], method.upper(), path, definition
        )
        for path, item in document["paths"].items()
        for method, definition in item.items()
        if method in _METHODS
    }


def read_operations(gateway: RunningGateway) -> dict[str, ContractOperation]:
    """Return the operations of the document that a gateway serves."""
    with gateway.client(key="") as client:
        return operations_of(client.get("/openapi.json").json())
