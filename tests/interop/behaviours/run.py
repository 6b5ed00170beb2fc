"""Runs the behaviours with a released client, against the upstreams and through a gateway, and compares the outcomes."""

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import orjson

from tests.harness.gateway import RunningGateway
from tests.interop.behaviours.cases import MCP_NAME, Behaviour
from tests.interop.behaviours.upstreams import serving
from tests.interop.environments import install

Json = dict[str, Any]

HERE = Path(__file__).parent
_SECONDS: Final = 600
_ENVIRONMENTS: Final = {0: "utcp0", 1: "utcp-plugins"}
_V1_NAMES: Final = {"http_stream": "streamable_http", "text": "file"}


@dataclass(frozen=True)
class Compared:
    """The outcomes of one behaviour: `{"ok": value}` or `{"error": text}`, of the client alone and through the gateway."""

    alone: Json
    through: Json

    @property
    def is_equal(self) -> bool:
        """Whether both failed, or both have the same value."""
        if "error" in self.alone or "error" in self.through:
            return "error" in self.alone and "error" in self.through
        return bool(_value(self.alone["ok"]) == _value(self.through["ok"]))


def compare(
    behaviours: Sequence[Behaviour], generation: int, gateway: RunningGateway
) -> Mapping[Behaviour, Compared]:
    """Return the outcomes of the behaviours that the clients of a generation have; raise InstallError."""
    chosen = [behaviour for behaviour in behaviours if generation in behaviour.generations]
    with serving(str(install(_ENVIRONMENTS[1]))) as upstreams, gateway.client() as client:
        providers = [_provider(one, one.template(upstreams), generation) for one in chosen]
        alone = _outcomes(
            [_case(one, provider, generation) for one, provider in zip(chosen, providers, strict=True)],
            generation,
        )
        prepared = [
            _through(one, provider, f"b{generation}-{number}", gateway, client, generation=generation)
            for number, (one, provider) in enumerate(zip(chosen, providers, strict=True))
        ]
        found = iter(_outcomes([case for case in prepared if "protocol" in case], generation))
        through = [next(found) if "protocol" in case else case for case in prepared]
        for one, case in zip(through, prepared, strict=True):
            names = case.get("names")
            if names is not None and "ok" in one:
                one["ok"] = sorted(names.get(name, name) for name in one["ok"])
        for number in range(len(chosen)):
            client.delete(f"/providers/b{generation}-{number}")
    return {
        one: Compared(_found(one, first), _found(one, second))
        for one, first, second in zip(chosen, alone, through, strict=True)
    }


def _found(behaviour: Behaviour, outcome: Json) -> Json:
    """The outcome; a discovery that failed has found no tools, and clients differ in whether they say why."""
    return {"ok": []} if behaviour.arguments is None and "error" in outcome else outcome


def _provider(behaviour: Behaviour, template: Json, generation: int) -> Json:
    if generation == 0:
        return {"name": "p", "provider_type": behaviour.protocol, **template}
    kind = _V1_NAMES.get(behaviour.protocol, behaviour.protocol)
    return {"name": "p", "call_template_type": kind, **template}


def _case(behaviour: Behaviour, provider: Json, generation: int) -> Json:
    is_prefixed = behaviour.protocol == "mcp" and generation == 1
    tool = f"{MCP_NAME}.{behaviour.tool}" if is_prefixed else behaviour.tool
    return {
        "protocol": behaviour.protocol, "tool": tool, "provider": provider, "arguments": behaviour.arguments,
    }  # fmt: skip


def _through(
    behaviour: Behaviour,
    provider: Json,
    name: str,
    gateway: RunningGateway,
    client: httpx2.Client,
    *,
    generation: int,
) -> Json:
    """Register the provider or its tool; return the case with which the client reaches it, or its outcome already."""
    if behaviour.arguments is None:
        made = client.post("/providers", json={**provider, "name": name})
        if made.status_code != 201:
            return {"error": made.text}
        listed = client.get("/tools", params={"provider": name, "limit": 200}).json()["items"]
        names = {
            tool["alias"]: _name_given(tool["name"].partition(".")[2], behaviour, generation)
            for tool in listed
        }
        return {**_manual(name, gateway, generation), "names": names}
    inputs = {"type": "object", "properties": {argument: {} for argument in behaviour.arguments}}
    tool = {"provider": name, "name": behaviour.tool, "inputs": inputs, "call_template": provider}
    made = client.post("/tools", json=tool)
    if made.status_code != 201:
        return {"error": made.text}
    entry = client.get("/utcp", params={"provider": name, "version": str(generation)}).json()["tools"][0]
    text = json.dumps(entry["tool_provider" if generation == 0 else "tool_call_template"])
    template = json.loads(text.replace("${GATEWAY_TOKEN}", gateway.key))
    is_wrapped = set(entry["inputs"].get("properties") or ()) == {"body"}
    arguments = {"body": behaviour.arguments} if is_wrapped else behaviour.arguments
    kind = template.get("provider_type") or template["call_template_type"]
    return {"protocol": kind, "tool": entry["name"], "provider": template, "arguments": arguments}


def _name_given(name: str, behaviour: Behaviour, generation: int) -> str:
    """The name that a client of the generation gives to a tool; those of MCP servers differ."""
    if behaviour.protocol != "mcp":
        return name
    short = name.removeprefix(MCP_NAME)[1:]
    return f"{MCP_NAME}.{short}" if generation == 1 else short


def _manual(name: str, gateway: RunningGateway, generation: int) -> Json:
    url = f"{gateway.url}/utcp?provider={name}&version={generation}"
    headers = {"Authorization": f"Bearer {gateway.key}"}
    key = "provider_type" if generation == 0 else "call_template_type"
    template = {"name": "gateway", key: "http", "url": url, "http_method": "GET", "headers": headers}
    return {"protocol": "http", "tool": "", "provider": template, "arguments": None}


def _outcomes(cases: Sequence[Json], generation: int) -> list[Json]:
    python = install(_ENVIRONMENTS[generation])
    done = subprocess.run(
        [str(python), str(HERE / f"client_v{generation}.py")],
        input=json.dumps(cases), capture_output=True, text=True, timeout=_SECONDS, check=False, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    found: list[Json] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _value(found: Any) -> Any:
    """A result in one form: JSON in a string is parsed, bytes are their base64 alone."""
    if isinstance(found, str):
        with contextlib.suppress(orjson.JSONDecodeError):
            return orjson.loads(found)
        return found
    if isinstance(found, dict) and set(found) in ({"base64"}, {"base64", "media_type"}):
        return found["base64"]
    if isinstance(found, list):
        return [_value(member) for member in found]
    return found
