"""R: an upstream whose responses are desynchronized from its requests: no call gets the response to another."""

import asyncio
from collections import Counter
from typing import Any

from tests.faults.load import Client
from tests.faults.report import Row
from tests.faults.rig import Rig
from tests.harness.desynchronized import MODES, DesynchronizedUpstream

TITLE = "foreign responses"
_WORKERS = 16
_OWNERS = (("red", "key"), ("red", "other"), ("blue", "key"))
"""Providers and the slots of their credentials; all of them call one origin."""
_UNDETECTABLE = "on-request"


async def run(rig: Rig) -> list[Row]:
    """Each call carries a nonce that the correct response echoes. Every mode has an origin, and providers, of its own."""
    await rig.use()
    # From the first response on, and after every fourth one that is correct.
    targets = [("through nginx to three replicas", rig.url, 1)]
    if rig.full:
        targets.append(("to one replica", rig.replicas.all[0].url, 5))
    found: Counter[tuple[str, str]] = Counter()
    made = 0
    calls = 300 if rig.full else 60
    for index, (_, url, every) in enumerate(targets):
        for number, mode in enumerate(MODES):
            prefix = f"r{index}x{number}"
            made += calls
            async with DesynchronizedUpstream(mode, every=every) as upstream:
                await _register(rig, prefix, upstream.url)
                async with rig.client(url) as client:
                    for kind, count in (await _attack(client, prefix, mode, calls)).items():
                        found[mode, kind] += count
    cross = {mode: found[mode, "cross"] for mode in MODES if found[mode, "cross"]}
    same = {mode: found[mode, "same"] for mode in MODES if found[mode, "same"] and mode != _UNDETECTABLE}
    own = sum(count for (_, kind), count in found.items() if kind == "own")
    names = " and ".join(name for name, _, _ in targets)
    last = found[_UNDETECTABLE, "same"]
    rounds = len(targets)
    return [
        Row("R", f"{len(MODES)} modes of a desynchronized upstream, {made} calls of 2 providers and 3 credentials, {names}",
            "0 responses of another provider or credential", f"{sum(cross.values())} {cross or ''}; {own} own".replace(" ;", ";"),
            not cross and own > made // 2),
        Row("R", "the same, within one credential, except in the mode that cannot be detected",
            "0 responses of another call", f"{sum(same.values())} {same or ''}".strip(), not same),
        Row("R", f"a second response just when the next request has arrived ({MODES[_UNDETECTABLE]})",
            f"within one credential only, at most once per connection in use in each replica until it is detected "
            f"(<= {_WORKERS * rounds})", f"{last} of {calls * rounds} calls", last <= _WORKERS * rounds),
    ]  # fmt: skip


async def _register(rig: Rig, prefix: str, url: str) -> None:
    async with rig.client(rig.replicas.all[0].url) as client:
        for provider in dict.fromkeys(owner for owner, _ in _OWNERS):
            body = {
                "name": f"{prefix}{provider}",
                "source": {"document": _document(url)},
                "credentials": {
                    slot: {"kind": "api_key", "value": f"secret-{prefix}-{provider}-{slot}"}
                    for slot in ("key", "other")
                },
                "limits": {"attempts": 1, "breaker_failures": 0},
            }
            status, body, _ = await client.request("POST", "/providers", json=body)
            assert status == 201, body


def _document(url: str) -> dict[str, Any]:
    schemes = {slot: {"type": "apiKey", "in": "header", "name": f"X-{slot}"} for slot in ("key", "other")}
    nonce = [{"name": "id", "in": "query", "schema": {"type": "string"}}]
    # The bytes that an upstream which does not read the body takes for the next request contain the nonce, too.
    body = {
        "content": {
            "application/json": {"schema": {"type": "object", "properties": {"x": {"type": "string"}}}}
        }
    }
    paths: dict[str, Any] = {}
    for slot in schemes:
        common = {"parameters": nonce, "responses": {"200": {"description": "ok"}}, "security": [{slot: []}]}
        paths[f"/{slot}"] = {
            "get": {"operationId": f"read_{slot}", **common},
            "head": {"operationId": f"probe_{slot}", **common},
            "post": {"operationId": f"write_{slot}", "requestBody": body, **common},
        }
    return {
        "openapi": "3.0.3", "info": {"title": "Desynchronized", "version": "1"}, "servers": [{"url": url}],
        "paths": paths, "components": {"securitySchemes": schemes},
    }  # fmt: skip


async def _attack(client: Client, prefix: str, mode: str, calls: int) -> Counter[str]:
    """Count `own` responses, those of another call (`same` credential or `cross`), and `failed` calls."""
    found: Counter[str] = Counter()
    numbers = iter(range(calls))

    async def work() -> None:
        for number in numbers:
            provider, slot = _OWNERS[number % len(_OWNERS)]
            owner = f"{provider}-{slot}"
            nonce = f"{owner}-{number}"
            variant = number // len(_OWNERS) % 3
            verb = "probe" if mode == "head" and variant == 0 else "write" if variant == 1 else "read"
            arguments: dict[str, Any] = {"id": nonce}
            if verb == "write":
                arguments["x"] = f"?id={nonce} "
            tool = f"{prefix}{provider}.{verb}_{slot}"
            status, body, _ = await client.request("POST", f"/tools/{tool}/call", json=arguments)
            text = str(body)
            if status != 200 or "nonce" not in text:
                found["failed" if verb != "probe" else "probed"] += 1
            elif f"'{nonce}'" in text:
                found["own"] += 1
            else:
                found["same" if f"'{owner}-" in text else "cross"] += 1

    await asyncio.gather(*(work() for _ in range(_WORKERS)))
    return found
