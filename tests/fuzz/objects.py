"""The objects that requests need: created on demand, by the path that names them.

`OBJECTS` says how the path parameters of a path are created. A new route below one of these paths needs nothing
here; a new kind of object needs one entry.
"""

import itertools
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import httpx2

from tests.fuzz.contract import ContractOperation
from tests.fuzz.upstream import FuzzUpstream
from tests.harness.canaries import LeakSearch

PathValues = dict[str, str]
_MANIFEST = """
[tool]
name = "echo"
description = "Echo."

[args.q]

[http]
url = "URL/echo/q?q={q}"

[output]
format = "text"
[output.schema]
"""


class FuzzObjects:
    """Creates objects with the admin key; `approver` has an admin key that it did not create. Their names begin with `prefix`, and `tags` are their tags.

    `text` stands in every description, and `secrets` are the values of credentials and variables.
    """

    def __init__(
        self,
        admin: httpx2.Client,
        site: FuzzUpstream,
        *,
        approver: httpx2.Client,
        prefix: str = "fuzz",
        tags: tuple[str, ...] = (),
        secrets: Mapping[str, str],
        search: LeakSearch,
    ) -> None:
        self.admin = admin
        self.approver = approver
        self.site = site
        self.prefix = prefix
        self.tags = list(tags)
        self.secrets = secrets
        self._search = search
        self.providers: list[str] = []
        self._numbers = itertools.count(1)

    def new_name(self) -> str:
        """Return a name that no object has."""
        return f"{self.prefix}-{next(self._numbers)}"

    def registration(self, name: str | None = None) -> dict[str, Any]:
        """Return the body of POST /providers for a provider with credentials."""
        name = name or self.new_name()
        return {
            "name": name,
            "source": {"url": self.site.document_url(name)},
            "tags": self.tags,
            "credentials": {
                "key": {"kind": "api_key", "value": self.secrets["credential"]},
                "oauth": {
                    "kind": "oauth2",
                    "client_id": "client",
                    "client_secret": self.secrets["client-secret"],
                    "token_url": f"{self.site.url}/token",
                },
            },
        }

    def provider(self) -> PathValues:
        """Register a provider from the upstream's document, with a credential in each slot."""
        body = self.registration()
        self.send("POST", "/providers", json=body)
        self.providers.append(body["name"])
        return {"name": body["name"]}

    def provider_with_pending_changes(self) -> PathValues:
        """Register a provider, move its API to another origin, and refresh it."""
        path = self.provider()
        self.site.moved.add(path["name"])
        refreshed = self.approver.post(f"/providers/{path['name']}/refresh")
        assert refreshed.is_success, refreshed.text
        return path

    def credential(self) -> PathValues:
        """Register a provider; its slot `key` has a credential."""
        return {**self.provider(), "slot": "key"}

    def provider_variable(self) -> PathValues:
        """Store a secret variable of a new provider."""
        path = self.provider()
        value = {"value": self.secrets["variable"]}
        self.send("PUT", f"/providers/{path['name']}/variables/FUZZ_VALUE", json=value)
        return {**path, "variable": "FUZZ_VALUE"}

    def variable(self) -> PathValues:
        """Store a secret variable that all providers share: every key may see its name, which has no prefix."""
        name = f"SHARED_{uuid.uuid4().hex}"
        self.send("PUT", f"/variables/{name}", json={"value": self.secrets["variable"]})
        return {"variable": name}

    def custom_tool(self) -> dict[str, Any]:
        """Return the body of POST /tools for a tool of a provider of its own."""
        name = self.new_name()
        self.providers.append(name)
        return {
            "provider": name,
            "name": "echo",
            "description": f"Description of {name}",
            "tags": self.tags,
            "inputs": {"type": "object", "properties": {"q": {"type": "string"}}},
            "call_template": {
                "call_template_type": "http",
                "http_method": "GET",
                # A path of its own: approval is required of an operation, whatever tool makes the calls.
                "url": f"{self.site.url}/echo/custom/{name}",
                "headers": {"X-Static": self.secrets["static-header"]},
            },
        }

    def tool(self) -> PathValues:
        """Create a custom tool that calls the upstream."""
        return {"name": self.send("POST", "/tools", json=self.custom_tool()).json()["name"]}

    def approval_requirement(self) -> PathValues:
        """Require approval of a custom tool, and delete the tool: the requirement stays."""
        tool = self.tool()["name"]
        self.send("PATCH", f"/tools/{tool}", json={"requires_approval": True})
        self.send("DELETE", f"/tools/{tool}")
        found = self.send("GET", "/approval-requirements", params={"q": tool}).json()["items"]
        return {"id": found[0]["id"]}

    def toolset_definition(self) -> dict[str, Any]:
        """Return the definition of a toolset with a tool that was just created."""
        return {"tools": [self.tool()["name"]]}

    def toolset(self) -> PathValues:
        """Create a toolset of one tool."""
        tool, name = self.tool()["name"], self.new_name()
        body = {"name": name, "description": f"Description of {name}", "definition": {"tools": [tool]}}
        self.send("POST", "/toolsets", json=body)
        return {"name": name, "tool": tool}

    def recording(self) -> PathValues:
        """Create a recording of one call."""
        name = self.new_name()
        item = {
            "tool": "fuzz.tool",
            "arguments": {},
            "definition": "0" * 64,
            "recorded_at": "2026-01-01T00:00:00Z",
            "response": {"status": 200, "text": "fuzz"},
        }
        self.send("PUT", f"/recordings/{name}", json={"interactions": [item]})
        found = self.send("GET", f"/recordings/{name}/interactions").json()["items"][0]
        return {"name": name, "id": found["id"]}

    def synonyms(self) -> PathValues:
        """Create a set of synonyms."""
        made = self.send("POST", "/search/synonyms", json=self.synonyms_body()).json()
        return {"id": made["id"]}

    def synonyms_body(self) -> dict[str, Any]:
        """Return a set of synonyms that is not stored."""
        return {"terms": [self.new_name(), self.new_name()]}

    def pin(self) -> PathValues:
        """Create a pinned result."""
        made = self.send("POST", "/search/pins", json=self.pin_body()).json()
        return {"id": made["id"]}

    def pin_body(self) -> dict[str, Any]:
        """Return a pinned result of a tool that was just created, for words that are not stored."""
        return {"query": self.new_name(), "tools": [self.tool()["name"]]}

    def plugin(self) -> PathValues:
        """Enable a plugin, which is then a provider and a toolset."""
        self.send("PUT", "/plugins/github", json={"credentials": {"token": "a-token-of-the-fuzz"}})
        return {"name": "github"}

    def call(self) -> PathValues:
        """Call a tool, and wait for its record."""
        tool = self.tool()["name"]
        response = self.send("POST", f"/tools/{tool}/call", json={"q": "fuzz"})
        call_id = response.headers["x-call-id"]
        self.wait_for(f"/calls/{call_id}", lambda _: True)
        return {"call_id": call_id}

    def call_with_evidence(self) -> PathValues:
        """Call a tool of a ToolClad manifest, and wait for its record."""
        name = self.new_name()
        document = _MANIFEST.replace("URL", self.site.url)
        body = {"name": name, "source": {"document": document}, "tags": self.tags}
        self.send("POST", "/providers", json=body)
        self.providers.append(name)
        response = self.send("POST", f"/tools/{name}.echo/call", json={"q": "fuzz"})
        call_id = response.headers["x-call-id"]
        self.wait_for(f"/calls/{call_id}", lambda _: True)
        return {"call_id": call_id}

    def cut_result(self) -> PathValues:
        """Call a tool whose result is cut, so that it has a rest."""
        tool = self.tool()["name"]
        headers = {"Prefer": "max-bytes=256"}
        response = self.send("POST", f"/tools/{tool}/call", json={"q": "fuzz " * 500}, headers=headers)
        return {"handle": response.headers["x-continuation"]}

    def waiting_call(self) -> PathValues:
        """Let another key call a tool that requires approval."""
        tool = self.tool()["name"]
        self.send("PATCH", f"/tools/{tool}", json={"requires_approval": True})
        waiting = self.approver.post(f"/tools/{tool}/call", json={"q": "fuzz"})
        assert waiting.status_code == 202, waiting.text
        return {"id": waiting.headers["location"].rpartition("/")[2]}

    def approved_call(self) -> PathValues:
        """Call a tool that requires approval, which another key approves."""
        tool = self.tool()["name"]
        self.send("PATCH", f"/tools/{tool}", json={"requires_approval": True})
        waiting = self.send("POST", f"/tools/{tool}/call", json={"q": "fuzz"})
        approved = self.approver.post(f"{waiting.headers['location']}/approve")
        assert approved.is_success, approved.text
        return {"id": waiting.headers["location"].rpartition("/")[2]}

    def agent_test_body(self, *, held: bool = False) -> dict[str, Any]:
        """Return the body of POST /agent-tests for a model that responds with an error, or is `held`."""
        url = f"{self.site.url}/held" if held else self.site.url
        return {"input": "Hi", "models": [{"model": "gpt-4o", "base_url": url}]}

    def agent_test(self) -> PathValues:
        """Run an agent test."""
        return {"id": self.send("POST", "/agent-tests", json=self.agent_test_body()).json()["id"]}

    def running_agent_test(self) -> PathValues:
        """Start an agent test that runs until it is cancelled."""
        headers = {"Prefer": "respond-async"}
        body = self.agent_test_body(held=True)
        return {"id": self.send("POST", "/agent-tests", json=body, headers=headers).json()["id"]}

    def batch(self) -> dict[str, Any]:
        """Return the body of POST /tools:batch for a tool that was just created."""
        return {"operations": [{"tool": self.tool()["name"], "patch": {"description": "changed"}}]}

    def key(self) -> PathValues:
        """Create a key that can do little."""
        return {"key_id": self.new_key(["tools:read"])["id"]}

    def key_creation(self) -> dict[str, Any]:
        """Return the body of POST /keys for a key of a provider that was just created."""
        return {"name": self.new_name(), "scopes": ["tools:read"], "providers": [self.provider()["name"]]}

    def new_key(self, scopes: Iterable[str], **restrictions: Any) -> dict[str, Any]:
        """Create a key, whose text is searched for from now on; return the response of POST /keys."""
        body = {
            "name": self.new_name(),
            "scopes": list(scopes),
            "allow_unknown_providers": True,
            **restrictions,
        }
        created: dict[str, Any] = self.send("POST", "/keys", json=body).json()
        self._search.add(f"key {created['id']}", created["key"])
        return created

    def background_import(self) -> PathValues:
        """Register a provider in the background, and wait for the end of the import."""
        body = self.registration()
        self.providers.append(body["name"])
        started = self.send("POST", "/providers", json=body, headers={"Prefer": "respond-async"}).json()
        self.wait_for(f"/imports/{started['id']}", lambda found: found["state"] != "running")
        return {"import_id": started["id"]}

    def send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Send a request with the admin key; raise AssertionError for an error response."""
        response = self.admin.request(method, path, **options)
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
        return response

    def wait_for(self, path: str, is_ready: Callable[[Any], bool]) -> None:
        """Request a path until the response is one of success and `is_ready`, for at most 30 s."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            response = self.admin.get(path)
            if response.is_success and is_ready(response.json()):
                return
            time.sleep(0.02)
        message = f"{path} is not ready after 30 s"
        raise AssertionError(message)


OBJECTS: dict[str, Callable[[FuzzObjects], PathValues]] = {
    "/providers/{name}": FuzzObjects.provider,
    "/providers/{name}/approve": FuzzObjects.provider_with_pending_changes,
    "/providers/{name}/credentials/{slot}": FuzzObjects.credential,
    "/providers/{name}/variables/{variable}": FuzzObjects.provider_variable,
    "/variables/{variable}": FuzzObjects.variable,
    "/tools/{name}": FuzzObjects.tool,
    "/toolsets/{name}": FuzzObjects.toolset,
    "/recordings/{name}": FuzzObjects.recording,
    "/search/synonyms/{id}": FuzzObjects.synonyms,
    "/search/pins/{id}": FuzzObjects.pin,
    "/plugins/{name}": FuzzObjects.plugin,
    "/approval-requirements/{id}": FuzzObjects.approval_requirement,
    "/approvals/{id}": FuzzObjects.waiting_call,
    "/approvals/{id}/request": FuzzObjects.waiting_call,
    "/approvals/{id}/result": FuzzObjects.approved_call,
    "/agent-tests/{id}": FuzzObjects.agent_test,
    "/calls/{call_id}": FuzzObjects.call,
    "/calls/{call_id}/envelope": FuzzObjects.call_with_evidence,
    "/continuations/{handle}": FuzzObjects.cut_result,
    "/imports/{import_id}": FuzzObjects.background_import,
    "/keys/{key_id}": FuzzObjects.key,
    "/problems/{slug}": lambda _: {"slug": "not-found"},
    "/scopes/{scope}": lambda _: {"scope": "tools:read"},
}
"""How the values of path parameters are created, by path; the longest path that an operation's begins with counts."""


def path_values(operation: ContractOperation, objects: FuzzObjects) -> PathValues:
    """Return values of an operation's path parameters, which name objects that were just created.

    Raise AssertionError where `OBJECTS` has no entry for its path.
    """
    if not operation.path_parameters:
        return {}
    matching = [path for path in OBJECTS if f"{operation.path}/".startswith(f"{path}/")]
    found = OBJECTS[max(matching, key=len)](objects) if matching else {}
    missing = set(operation.path_parameters) - set(found)
    assert not missing, (
        f"{operation.id}: tests/fuzz/objects.py has no object for {missing} of {operation.path}: add it to OBJECTS."
    )
    return found
