"""A valid request of each operation: what its contract gives as an example, for objects that were just created."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from tests.fuzz.contract import ContractOperation
from tests.fuzz.objects import FuzzObjects, PathValues, path_values

BODIES: dict[str, Callable[[FuzzObjects], Any]] = {
    "registerProvider": FuzzObjects.registration,
    "previewProvider": FuzzObjects.registration,
    "createTool": FuzzObjects.custom_tool,
    "createKey": FuzzObjects.key_creation,
    "updateTools": FuzzObjects.batch,
    "createToolset": lambda objects: {
        "name": objects.new_name(),
        "definition": objects.toolset_definition(),
    },
    "putToolset": lambda objects: {"definition": objects.toolset_definition()},
    "createRecording": lambda objects: {"name": objects.new_name()},
    "createSynonyms": FuzzObjects.synonyms_body,
    "putSynonyms": FuzzObjects.synonyms_body,
    "createPin": FuzzObjects.pin_body,
    "putPin": FuzzObjects.pin_body,
    "runAgentTest": FuzzObjects.agent_test_body,
    "updateKey": lambda objects: {"owner": objects.new_name()},
    "checkProvider": lambda _: {},
    "runCommand": lambda objects: {
        "commandId": objects.new_name(),
        "commandName": objects.tool()["name"],
        "arguments": {"q": "fuzz"},
    },
}
"""The bodies of operations whose example in the contract names objects or servers that exist only there."""

QUERIES: dict[str, Callable[[FuzzObjects], dict[str, str]]] = {
    "explainAccess": lambda objects: {"tool": objects.tool()["name"]},
}
"""The query of operations that require a parameter in it."""


@dataclass(frozen=True, slots=True)
class ContractRequest:
    """A request of an operation. `content` is its body as bytes, None without one."""

    operation: ContractOperation
    path: PathValues = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None

    @property
    def url(self) -> str:
        """The path with its values, percent-encoded."""
        values = {name: quote(value, safe="") for name, value in self.path.items()}
        return self.operation.path.format(**values)

    def with_headers(self, **headers: str) -> "ContractRequest":
        """Return the request with further header fields; `_` in their names stands for `-`."""
        return replace(
            self,
            headers={**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}},
        )


def valid_request(operation: ContractOperation, objects: FuzzObjects) -> ContractRequest:
    """Return a request that the operation accepts from an admin key."""
    query = QUERIES[operation.id](objects) if operation.id in QUERIES else {}
    request = ContractRequest(operation, path=path_values(operation, objects), query=query)
    example = operation.body_example()
    if example is None:
        return request
    media_type, body = example
    if operation.id in BODIES:
        body = BODIES[operation.id](objects)
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return replace(request, headers={"Content-Type": media_type}, content=content)
