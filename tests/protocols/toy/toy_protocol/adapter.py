"""The adapter, which the gateway imports when a template of the protocol is first read."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import orjson

from app.protocols.extension import (
    JSON,
    AdapterContext,
    Address,
    Call,
    Discovered,
    Result,
    UnknownEffects,
    UpstreamMalformed,
    compile_template,
    field_values,
    time_limit,
    value_result,
)
from toy_protocol.record import PROTOCOL, ToyTemplate


@dataclass(frozen=True, slots=True)
class ToyTarget:
    """A compiled template."""

    model: ToyTemplate
    origin: str


class ToyAdapter(UnknownEffects):
    """Calls over a connection of their own."""

    name: ClassVar[str] = "toy"

    def __init__(self, context: AdapterContext) -> None:
        self._network = context.network

    async def aclose(self) -> None:
        """Nothing is held."""

    def prepare(self, template: Mapping[str, Any]) -> ToyTarget:
        """Compile a template; raise InvalidInput."""
        return ToyTarget(compile_template(template, ToyTemplate), PROTOCOL.origin(template))

    def origin(self, target: ToyTarget) -> str:
        """`toy://host:port`."""
        return target.origin

    def method(self, target: ToyTarget) -> str:
        """SEND."""
        return "SEND"

    async def discover(self, call: Call[Any]) -> Discovered:
        """A manual of the methods that the upstream lists."""
        names = await self._asked(call)
        tools = [
            {"name": name, "tool_call_template": {"call_template_type": "toy", "method": name}}
            for name in names["methods"]
        ]
        raw = orjson.dumps({"utcp_version": "1.0.1", "tools": tools})
        return Discovered(raw=raw, media_type=JSON, url=call.target.origin, is_generated=True)

    async def call(self, call: Call[Any]) -> Result:
        """The line that comes back."""
        return value_result(await self._asked(call), call)

    def describe(self, call: Call[Any]) -> dict[str, Any]:
        """The line as JSON, the password as `***`."""
        return {
            "method": "SEND",
            "url": call.target.origin,
            "headers": {},
            "body": _request(call, masked=True),
        }

    async def _asked(self, call: Call[Any]) -> Any:
        model = call.target.model
        now = asyncio.get_running_loop().time()
        by = min(call.deadline, now + call.limits.connect)
        stream = await self._network.open_stream(
            Address(model.host, model.port), egress=call.egress, deadline=by
        )
        async with stream:
            with time_limit(call.deadline):
                await stream.write(orjson.dumps(_request(call)) + b"\n")
                raw = await stream.reader.readline()
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError:
            raise UpstreamMalformed("The upstream's line is no JSON.") from None


def _request(call: Call[Any], *, masked: bool = False) -> dict[str, Any]:
    model = call.target.model
    password = field_values(call.credentials, masked=masked).get("/password", model.password)
    return {"method": model.method, "arguments": call.arguments, "password": password}
