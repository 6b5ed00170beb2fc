"""Requests to the APIs of models: by the guarded engine, within limits, repeated where the API is busy."""

import asyncio
import re
from dataclasses import dataclass
from typing import Any, Final

import orjson
import structlog

from app.agents.tests.model_apis import is_response, request_headers, request_url
from app.agents.tests.models import ModelTarget
from app.agents.tool_calls.arguments import find_repeated_names
from app.calls.arguments.parsing import LARGE_ARGUMENTS_BYTES, parse_arguments
from app.core import exact_json
from app.core.errors import BlockedAddress, GatewayError, UpstreamUnreachable
from app.core.text import preview
from app.outbound.http import Engine, OutboundRequest
from app.outbound.limits import Limits
from app.outbound.response import OutboundResponse

MAX_ATTEMPTS: Final = 4
MAX_RESPONSE_BYTES: Final = 16 << 20
MAX_REQUEST_BYTES: Final = 16 << 20
"""A request has the whole conversation, which is in memory as long as it runs."""
_MAX_RETRY_AFTER: Final = 60.0
_BACKOFF: Final = 0.5
_CONNECT_SECONDS: Final = 10.0
_BUSY: Final = frozenset({408, 409, 429})
_SECONDS: Final = re.compile(r"\d{1,6}(\.\d{1,6})?")
_ERROR_BYTES: Final = 64 << 10
_log = structlog.get_logger(__name__)


class ModelFailed(Exception):
    """The API of a model has not responded as it should. The text is a sentence; it may quote the API."""


@dataclass(frozen=True, slots=True)
class ModelExchange:
    """Sends requests to the API of a model. `max_values` bounds the JSON of a response."""

    engine: Engine
    max_values: int

    async def send(self, target: ModelTarget, body: Any, *, deadline: float) -> dict[str, Any]:
        """Return the JSON of a response; raise ModelFailed, also where `deadline`, a time of the event loop,
        has passed.

        An API that is busy, or cannot be connected to, is asked up to four times, after the seconds of its
        Retry-After or half a second, a second, and two.
        """
        content = await _encoded(body)
        if len(content) > MAX_REQUEST_BYTES:
            raise ModelFailed(f"The conversation has more than {MAX_REQUEST_BYTES} bytes.")
        loop = asyncio.get_running_loop()
        attempt = 0
        while True:
            attempt += 1
            wait = _BACKOFF * 2 ** (attempt - 1)
            try:
                response = await self._request(target, content, deadline)
            except BlockedAddress:
                raise ModelFailed(
                    "The gateway's network policy does not allow the API of the model."
                ) from None
            except UpstreamUnreachable as error:
                failed = ModelFailed(f"The API of the model cannot be reached: {error.detail}")
                if error.request_sent:
                    raise failed from None
            except GatewayError as error:
                raise ModelFailed(f"The API of the model cannot be used: {error.detail}") from None
            else:
                if response.status == 200:
                    return await self._read(target, response)
                failed = await _rejected(response, attempt)
                if response.status not in _BUSY and response.status < 500:
                    raise failed
                wait = _retry_after(response, wait)
            if attempt >= MAX_ATTEMPTS or wait > _MAX_RETRY_AFTER or loop.time() + wait >= deadline:
                raise failed
            _log.info("the API of a model is asked again", model=target.model, attempt=attempt)
            await asyncio.sleep(wait)

    async def _request(self, target: ModelTarget, content: bytes, deadline: float) -> OutboundResponse:
        remaining = max(deadline - asyncio.get_running_loop().time(), 0.001)
        limits = Limits(connect=_CONNECT_SECONDS, first_byte=remaining, idle=remaining, total=remaining)
        request = OutboundRequest(
            "POST",
            request_url(target),
            request_headers(target),
            content,
            limits=limits,
            deadline=deadline,
        )
        return await self.engine.request(request)

    async def _read(self, target: ModelTarget, response: OutboundResponse) -> dict[str, Any]:
        try:
            content = await response.read(MAX_RESPONSE_BYTES)
        except GatewayError as error:
            raise ModelFailed(f"The response of the model's API cannot be read: {error.detail}") from None
        finally:
            response.close()
        try:
            value = await _parsed(content, self.max_values)
        except GatewayError as error:
            raise ModelFailed(
                f"The response of the model's API cannot be read: {error.detail.replace('The body', 'It')}"
            ) from None
        if not is_response(target.dialect, value):
            raise ModelFailed(f"The response of the model's API is not one of the dialect {target.dialect}.")
        found: dict[str, Any] = value
        return found


async def _encoded(body: Any) -> bytes:
    try:
        return await asyncio.to_thread(exact_json.dumps, body)
    except orjson.JSONEncodeError:
        raise ModelFailed("The conversation cannot be written as JSON: it is nested too deeply.") from None


async def _parsed(content: bytes, limit: int) -> Any:
    if not content:
        return None
    if len(content) <= LARGE_ARGUMENTS_BYTES:
        return _value(content, limit)
    return await asyncio.to_thread(_value, content, limit)


def _value(content: bytes, limit: int) -> Any:
    value = parse_arguments(content, limit)
    repeated = find_repeated_names(content, value)
    return value if repeated is None else repeated


async def _rejected(response: OutboundResponse, attempt: int) -> ModelFailed:
    """Return the error for a status that is not 200, with what the API says."""
    try:
        content, _ = await response.read_prefix(_ERROR_BYTES)
    except GatewayError:
        content = b""
    after = f" after {attempt} attempts" if attempt > 1 else ""
    said = _reason(content)
    status = f"The API of the model responded with HTTP {response.status}{after}"
    return ModelFailed(f"{status}: {said}" if said else f"{status}.")


def _reason(content: bytes) -> str:
    """Return what an error says: its message, or the beginning of its text."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return preview(content.strip(), limit=_ERROR_BYTES)
    error = value.get("error", value) if isinstance(value, dict) else value
    message = error.get("message") if isinstance(error, dict) else error
    # Cut once secrets are masked: the beginning of one is none that is known.
    return preview(message if isinstance(message, str) and message else content, limit=_ERROR_BYTES)


def _retry_after(response: OutboundResponse, default: float) -> float:
    """Return the seconds of Retry-After, or of `retry-after-ms`; the default without them."""
    milliseconds = response.headers.get("retry-after-ms", "").strip()
    if _SECONDS.fullmatch(milliseconds):
        return float(milliseconds) / 1000
    seconds = response.headers.get("Retry-After", "").strip()
    return float(seconds) if _SECONDS.fullmatch(seconds) else default
