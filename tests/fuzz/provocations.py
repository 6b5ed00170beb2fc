"""How each documented status is provoked: one change to a valid request, the same for every operation.

`PROVOCATIONS` has an entry for each status, `OPERATION_PROVOCATIONS` one for each operation whose status depends
on what it does. A new route needs none of them, unless it documents a conflict of its own.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import asyncpg

from app.security.scopes import ADMIN, SCOPES
from app.storage.database import asyncpg_dsn
from tests.fuzz.checked_client import CheckedClient, CheckedResponse
from tests.fuzz.contract import ContractOperation
from tests.fuzz.objects import FuzzObjects
from tests.fuzz.valid_requests import ContractRequest, valid_request
from tests.harness.gateway import RunningGateway

MAX_BODY_BYTES = 1 << 20
"""The limit of all request bodies of the gateway that is provoked."""
MAX_HEAD_BYTES = 64 << 10
"""The limit of the heads of requests, by default."""

_UNKNOWN = ("unknown", "00000000-0000-7000-8000-000000000000", "AAAAAAAAAAAA")
_INVALID = ("", "!", "\x01", "x" * 2000)


@dataclass(frozen=True, slots=True)
class Provoker:
    """What provocations use."""

    gateway: RunningGateway
    client: CheckedClient
    objects: FuzzObjects
    keys: dict[frozenset[str], str]

    def valid(self, operation: ContractOperation) -> ContractRequest:
        """Return a valid request, for objects of its own."""
        return valid_request(operation, self.objects)

    def key_without(self, scopes: frozenset[str]) -> str:
        """Return a key with all other scopes."""
        if scopes not in self.keys:
            others = [scope for scope in SCOPES if scope not in {*scopes, ADMIN}]
            self.keys[scopes] = self.objects.new_key(others)["key"]
        return self.keys[scopes]

    def until(self, status: int, requests: Iterator[ContractRequest]) -> None:
        """Send requests until one gets the status."""
        for request in requests:
            if self.client.send(request).status == status:
                return


Provocation = Callable[[Provoker, ContractRequest], None]
"""Sends variants of a valid request, of which one should get the status."""


def not_modified(provoker: Provoker, request: ContractRequest) -> None:
    """Request what has not changed since (RFC 9110 section 13.1.2)."""
    etag = provoker.client.send(request).headers["etag"]
    provoker.client.send(request.with_headers(If_None_Match=etag))


def unreadable(provoker: Provoker, request: ContractRequest) -> None:
    """Send a body that is neither JSON nor UTF-8."""
    provoker.client.send(replace(request, content=b'{"\xff'))


def unauthenticated(provoker: Provoker, request: ContractRequest) -> None:
    """Send no key, and an invalid one."""
    provoker.client.send(request, key="")
    provoker.client.send(request, key="ugw_unknown")


def scope_missing(provoker: Provoker, request: ContractRequest) -> None:
    """Use a key that has every scope but those of the operation."""
    provoker.client.send(request, key=provoker.key_without(request.operation.required_scopes))


def unknown_object(provoker: Provoker, request: ContractRequest) -> None:
    """Name an object that does not exist, in any of the path parameters."""
    names = reversed(request.operation.path_parameters)
    variants = product(names, _UNKNOWN)
    provoker.until(404, (replace(request, path={**request.path, name: value}) for name, value in variants))


def interrupted(provoker: Provoker, request: ContractRequest) -> None:
    """Repeat a request with the Idempotency-Key of one whose process has ended before its response."""
    if "idempotency-key" not in request.operation.parameters("header"):
        return
    named = request.with_headers(Idempotency_Key=provoker.objects.new_name())
    provoker.client.send(named)
    asyncio.run(_lose_outcomes(provoker.gateway.database_url))
    provoker.client.send(named)


async def _lose_outcomes(dsn: str) -> None:
    connection = await asyncpg.connect(asyncpg_dsn(dsn))  # type: ignore[no-untyped-call]
    await connection.execute("UPDATE idempotency_keys SET sealed = NULL")
    await connection.close()


def changed_since(provoker: Provoker, request: ContractRequest) -> None:
    """Name a version that is not the stored one (RFC 9110 section 13.1.1)."""
    provoker.client.send(request.with_headers(If_Match='"0"'))


def too_large(provoker: Provoker, request: ContractRequest) -> None:
    """Send a body over the limit."""
    provoker.client.send(replace(request, content=b" " * (MAX_BODY_BYTES + 1)))


def unsupported(provoker: Provoker, request: ContractRequest) -> None:
    """Send the body in a media type that nobody reads."""
    provoker.client.send(request.with_headers(Content_Type="application/x-unknown"))


def invalid(provoker: Provoker, request: ContractRequest) -> None:
    """Send an unknown query parameter, then invalid values in each place, until one is rejected."""
    provoker.until(422, _invalid_variants(request))


def _invalid_variants(request: ContractRequest) -> Iterator[ContractRequest]:
    yield replace(request, query={"unknown_parameter": "1"})
    if request.content is not None:
        yield replace(request, content=b'"neither object nor list"')
    for name, value in product(request.operation.parameters("query"), _INVALID):
        yield replace(request, query={name: value})
    for name, value in product(request.path, _INVALID[1:]):
        yield replace(request, path={**request.path, name: value})
    for name, value in product(request.operation.parameters("header"), (_INVALID[1], _INVALID[3])):
        yield request.with_headers(**{name: value})


def rate_limited(provoker: Provoker, request: ContractRequest) -> None:
    """Send two requests with a key that may send one in an hour."""
    limit = {"requests": 1, "per_seconds": 3600}
    scopes = sorted(request.operation.required_scopes) or ["tools:read"]
    key = provoker.objects.new_key(scopes, rate_limit=limit)["key"]
    for _ in range(2):
        provoker.client.send(request, key=key)


def uri_too_long(provoker: Provoker, request: ContractRequest) -> None:
    """Send a query that leaves no room for the path; httpx2 sends none that is longer than the limit itself."""
    name = "names"
    provoker.client.send(replace(request, query={name: "x" * (MAX_HEAD_BYTES - len(name) - 1)}))


PROVOCATIONS: dict[int, Provocation] = {
    304: not_modified,
    400: unreadable,
    401: unauthenticated,
    403: scope_missing,
    404: unknown_object,
    409: interrupted,
    412: changed_since,
    413: too_large,
    414: uri_too_long,
    415: unsupported,
    422: invalid,
    429: rate_limited,
}
"""By status, for every operation that documents it."""


def _of_stored_name(provoker: Provoker, request: ContractRequest) -> None:
    """Create again what exists already."""
    provoker.client.send(request)
    provoker.client.send(request)


def _previewed_name_is_taken(provoker: Provoker, request: ContractRequest) -> None:
    """Preview the registration of a provider that exists already, and is hidden from the key."""
    name = provoker.objects.provider()["name"]
    key = provoker.objects.new_key(["providers:write", "credentials:write"], tags=["other"])["key"]
    body = {**provoker.objects.registration(name), "tags": ["other"]}
    provoker.client.send(_with_json(request, body), key=key)


def _expired_at_once(provoker: Provoker, request: ContractRequest) -> None:
    """Create a key that has expired."""
    body = {"name": "late", "scopes": ["tools:read"], "expires_at": "2000-01-01T00:00:00Z"}
    provoker.client.send(_with_json(request, body))


def _own_key(provoker: Provoker, request: ContractRequest) -> None:
    """Revoke the key of the request itself."""
    provoker.client.send(replace(request, path={"key_id": provoker.gateway.key.split("_")[1]}))


def _key_of_another(provoker: Provoker, request: ContractRequest) -> None:
    """Rotate another key without the scope for keys; rotate a key twice."""
    provoker.client.send(request, key=provoker.objects.new_key(["tools:read"])["key"])
    path = provoker.objects.key()
    for _ in range(2):
        provoker.client.send(replace(request, path=path))


def _usage_of_an_unknown_tool(provoker: Provoker, request: ContractRequest) -> None:
    """Delete what was learned of a tool that does not exist."""
    provoker.client.send(replace(request, query={"tool": "unknown"}))


def _explained_key_of_another(provoker: Provoker, request: ContractRequest) -> None:
    """Ask about another key without the scope for keys, and about a tool that does not exist."""
    other = provoker.objects.new_key(["tools:read"])
    query = {**request.query, "key": provoker.gateway.key.split("_")[1]}
    provoker.client.send(replace(request, query=query), key=other["key"])
    provoker.client.send(replace(request, query={"tool": "unknown.tool"}))


def _tool_of_two_toolsets(provoker: Provoker, request: ContractRequest) -> None:
    """Read a tool that two toolsets of the key change differently."""
    tool = provoker.objects.tool()["name"]
    names = [provoker.objects.new_name() for _ in range(2)]
    for name in names:
        definition = {"tools": [tool], "changes": {tool: {"description": name}}}
        provoker.objects.send("PUT", f"/toolsets/{name}", json={"definition": definition})
    key = provoker.objects.new_key(["tools:read"], toolsets=names)["key"]
    provoker.client.send(replace(request, path={"name": tool}), key=key)


def _expiry_in_the_past(provoker: Provoker, request: ContractRequest) -> None:
    """Let a key expire before now."""
    provoker.client.send(_with_json(request, {"expires_at": "2000-01-01T00:00:00Z"}))


def _decided_already(provoker: Provoker, request: ContractRequest) -> None:
    """Decide twice."""
    path = provoker.objects.waiting_call()
    for _ in range(2):
        provoker.client.send(replace(request, path=path))


def _required_still(provoker: Provoker, request: ContractRequest) -> None:
    """Remove the requirement of a tool that has it."""
    objects = provoker.objects
    tool = objects.tool()["name"]
    objects.send("PATCH", f"/tools/{tool}", json={"requires_approval": True})
    (kept,) = objects.send("GET", "/approval-requirements", params={"q": tool}).json()["items"]
    provoker.client.send(replace(request, path={"id": kept["id"]}))


def _result_before_the_decision(provoker: Provoker, request: ContractRequest) -> None:
    """Read the result of an own call that still waits."""
    objects = provoker.objects
    tool = objects.tool()["name"]
    objects.send("PATCH", f"/tools/{tool}", json={"requires_approval": True})
    waiting = objects.send("POST", f"/tools/{tool}/call", json={})
    provoker.client.send(replace(request, path={"id": waiting.headers["location"].rpartition("/")[2]}))


def _request_after_the_decision(provoker: Provoker, request: ContractRequest) -> None:
    """Read the request of a call that does not wait any more."""
    provoker.client.send(replace(request, path=provoker.objects.approved_call()))


def _junit_of_a_running_test(provoker: Provoker, request: ContractRequest) -> None:
    """Read the results of a test that still runs as JUnit XML."""
    path = provoker.objects.running_agent_test()
    provoker.client.send(replace(request, path=path, query={"format": "junit"}))
    provoker.objects.send("POST", f"/agent-tests/{path['id']}/cancel")


def _too_many_checks(provoker: Provoker, request: ContractRequest) -> None:
    """Check a provider more often than is allowed in a minute."""
    provoker.until(429, (request for _ in range(20)))


def _unknown_host(provoker: Provoker, request: ContractRequest) -> None:
    """Name a host that ALLOWED_HOSTS does not have."""
    provoker.client.send(request.with_headers(Host="unknown.example"))


def _imported_tool(provoker: Provoker, request: ContractRequest) -> None:
    """Delete a tool that the next import would restore."""
    provider = provoker.objects.provider()["name"]
    provoker.client.send(replace(request, path={"name": f"{provider}.open"}))


def _without_source(provoker: Provoker, request: ContractRequest) -> None:
    """Refresh a provider that has only custom tools."""
    provider = provoker.objects.tool()["name"].partition(".")[0]
    provoker.client.send(replace(request, path={"name": provider}))


def _nothing_pending(provoker: Provoker, request: ContractRequest) -> None:
    """Approve changes of a provider that has none."""
    provoker.client.send(replace(request, path=provoker.objects.provider()))


def _variable_in_use(provoker: Provoker, request: ContractRequest) -> None:
    """Delete a variable in whose place the key may not put a shared one."""
    objects = provoker.objects
    tool = objects.custom_tool()
    tool["call_template"]["headers"] = {"X-Static": "${FUZZ_VALUE}"}
    tool["variables"] = {"FUZZ_VALUE": {"value": objects.secrets["variable"]}}
    objects.send("POST", "/tools", json=tool)
    key = objects.new_key(["credentials:write"], providers=[tool["provider"]])["key"]
    provoker.client.send(replace(request, path={"name": tool["provider"], "variable": "FUZZ_VALUE"}), key=key)


def _any_upstream_status(provoker: Provoker, request: ContractRequest) -> None:
    """Call a tool whose upstream responds with each documented status, and tools with credentials and without."""
    provider = provoker.objects.provider()["name"]

    def call(tool: str, **arguments: int) -> CheckedResponse:
        path = {"name": f"{provider}.{tool}"}
        return provoker.client.send(replace(_with_json(request, arguments), path=path))

    for status in request.operation.required_statuses:
        call("respond", code=int(status))
    for tool in ("withKey", "withToken"):
        call(tool)
    provoker.objects.send("DELETE", f"/providers/{provider}/credentials/key")
    call("withKey")


def _any_upstream_status_in_a_toolset(provoker: Provoker, request: ContractRequest) -> None:
    """Do the same by the names of a toolset with all tools of a provider."""
    provider = provoker.objects.provider()["name"]
    provoker.objects.send("PUT", f"/toolsets/{provider}", json={"definition": {"providers": [provider]}})
    tool = f"{provider}.respond"
    for status in request.operation.required_statuses:
        path = {"name": provider, "tool": tool}
        provoker.client.send(replace(_with_json(request, {"code": int(status)}), path=path))
    provoker.objects.send("DELETE", f"/providers/{provider}/credentials/key")
    for name in ("withKey", "withToken"):
        provoker.client.send(
            replace(_with_json(request, {}), path={"name": provider, "tool": f"{provider}.{name}"})
        )


def _unknown_method_and_no_events(provoker: Provoker, request: ContractRequest) -> None:
    """Send a method that MCP does not have, and one whose events the client does not accept."""
    version = "2026-07-28"
    prefix = "io.modelcontextprotocol/"
    meta = {f"{prefix}protocolVersion": version, f"{prefix}clientCapabilities": {}}
    for method in ("tools/unknown", "subscriptions/listen"):
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": method,
            "params": {"_meta": meta, "notifications": {}},
        }
        headers = {"MCP_Protocol_Version": version, "Mcp_Method": method, "Accept": "application/json"}
        provoker.client.send(_with_json(request, message).with_headers(**headers))


def _name_of_a_plugin_is_taken(provoker: Provoker, request: ContractRequest) -> None:
    """Enable a plugin where there is a toolset of its name that somebody else has made."""
    objects = provoker.objects
    objects.admin.delete("/plugins/github")
    objects.send("PUT", "/toolsets/github", json={"definition": objects.toolset_definition()})
    provoker.client.send(request)
    objects.admin.delete("/toolsets/github")


def _words_of_another(provoker: Provoker, request: ContractRequest) -> None:
    """Replace synonyms or a pinned result by the words of another one."""
    path = request.operation.path.removesuffix("/{id}")
    provoker.objects.send("POST", path, json=json.loads(request.content or b"{}"))
    provoker.client.send(request)


def _lines_without_synonyms(provoker: Provoker, request: ContractRequest) -> None:
    """Import a text whose line has one term only."""
    provoker.client.send(replace(request, content=b"alone\n"))


def _many_sign_ins(provoker: Provoker, request: ContractRequest) -> None:
    """Sign in by plain HTTP through a proxy, and more often than a key may within a minute."""
    provoker.client.send(request.with_headers(X_Real_IP="198.51.100.7"))
    key = provoker.objects.new_key(["tools:read"])["key"]
    for _ in range(31):
        provoker.client.send(request, key=key)


def _sign_out_of_another_site(provoker: Provoker, request: ContractRequest) -> None:
    """Sign out with the cookie of a session, from a page of the gateway, and from one of another site."""
    provoker.client.send(request.with_headers(Origin=provoker.gateway.url))
    port = provoker.gateway.url.rpartition(":")[2]
    cookie = f"utcp-session-{port}=ugs_unknown"
    provoker.client.send(request.with_headers(Cookie=cookie, Origin="https://evil.example"))


def _with_json(request: ContractRequest, body: object) -> ContractRequest:
    return replace(request, content=json.dumps(body).encode())


OPERATION_PROVOCATIONS: dict[str, Provocation] = {
    "approveApproval": _decided_already,
    "approveProvider": _nothing_pending,
    "callTool": _any_upstream_status,
    "callToolsetTool": _any_upstream_status_in_a_toolset,
    "checkProvider": _too_many_checks,
    "createKey": _expired_at_once,
    "createTool": _of_stored_name,
    "createPin": _of_stored_name,
    "createRecording": _of_stored_name,
    "createSession": _many_sign_ins,
    "createSignInLink": _many_sign_ins,
    "createSynonyms": _of_stored_name,
    "createToolset": _of_stored_name,
    "deleteApprovalRequirement": _required_still,
    "deleteProviderVariable": _variable_in_use,
    "deleteSession": _sign_out_of_another_site,
    "deleteSearchUsage": _usage_of_an_unknown_tool,
    "deleteTool": _imported_tool,
    "enablePlugin": _name_of_a_plugin_is_taken,
    "explainAccess": _explained_key_of_another,
    "getAgentTest": _junit_of_a_running_test,
    "getApprovalRequest": _request_after_the_decision,
    "getApprovalResult": _result_before_the_decision,
    "getTool": _tool_of_two_toolsets,
    "importSynonyms": _lines_without_synonyms,
    "live": _unknown_host,
    "mcp": _unknown_method_and_no_events,
    "previewProvider": _previewed_name_is_taken,
    "previewRefresh": _without_source,
    "putPin": _words_of_another,
    "putSynonyms": _words_of_another,
    "ready": _unknown_host,
    "refreshProvider": _without_source,
    "registerProvider": _of_stored_name,
    "rejectApproval": _decided_already,
    "revokeKey": _own_key,
    "rotateKey": _key_of_another,
    "toolsetMcp": _unknown_method_and_no_events,
    "updateKey": _expiry_in_the_past,
}
"""By operation, for statuses that depend on what the operation does."""


def provoke(provoker: Provoker, operation: ContractOperation) -> None:
    """Send a valid request of an operation, and what provokes each of its documented statuses."""
    request = provoker.valid(operation)
    for status, provocation in PROVOCATIONS.items():
        if str(status) in operation.statuses:
            provocation(provoker, request)
    if operation.id in OPERATION_PROVOCATIONS:
        OPERATION_PROVOCATIONS[operation.id](provoker, request)
    provoker.client.send(provoker.valid(operation))
