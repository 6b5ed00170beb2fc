"""The token cache: in this process first, then in Redis, then one request to the token endpoint.

    get --> process cache --> one task per key --> Redis --> lock --> Redis again --> token endpoint

However many calls need a token at once, in however many processes, the endpoint is asked once. Without Redis
it is asked once per process. A key is a keyed digest over every field of the request, so that two requests
which differ in anything never share a token.
"""

import asyncio
import math
import random
from collections import OrderedDict
from dataclasses import dataclass

from app.deadlines import Bound, timers
from app.errors import GatewayError, UpstreamTimeout, again
from app.outbound.oauth2 import TokenEndpoint, TokenRequest
from app.outbound.shared_tokens import SharedTokens
from app.redis_client import Cache
from app.security.secret import Secret
from app.security.vault import Vault
from app.telemetry.context import TRACE

# Kept 30 s less than it lives, or a fifth less where it lives shortly: a call may take that long.
_MARGIN_SECONDS = 30.0
_MARGIN_SHARE = 0.2
# RFC 6749 section 5.1 only recommends `expires_in`; five minutes is what short-lived tokens last.
_UNSAID_LIFE = 300.0
_LONGEST_LIFE = 24 * 3600.0
_FAILURE_SECONDS = 1.5
_POLL_SECONDS = 0.04
# Renewed while its owner lives, so that others do not wait long for a process that was killed.
_LOCK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class TokenHandle:
    """A token in use, and under which key it is kept: what `invalidate` takes."""

    key: bytes
    token: Secret


@dataclass(frozen=True, slots=True)
class _Held:
    handle: TokenHandle
    until: float


@dataclass(frozen=True, slots=True)
class _Failed:
    error: GatewayError
    until: float


class TokenCache:
    """Gives tokens, from the cache where there is a fresh one.

    `capacity` bounds the tokens held in this process. Failures are remembered for 1.5 s, so that a token
    endpoint that is down or refuses is not asked once per call.
    """

    def __init__(
        self,
        vault: Vault,
        endpoint: TokenEndpoint,
        cache: Cache | None = None,
        *,
        prefix: str = "utcp-gateway:token:",
        capacity: int = 10_000,
    ) -> None:
        self._vault = vault
        self._endpoint = endpoint
        self._shared = SharedTokens(vault, cache or Cache(None), prefix=prefix)
        self._capacity = capacity
        self._held: OrderedDict[bytes, _Held] = OrderedDict()
        self._failed: dict[bytes, _Failed] = {}
        self._refused: OrderedDict[bytes, Secret] = OrderedDict()
        self._flights: dict[bytes, asyncio.Task[TokenHandle]] = {}
        self._patience = endpoint.limits.total + 1
        self.hits = 0
        """Tokens that were held in this process, since the start."""
        self.misses = 0
        """Tokens that were not."""
        self.fetches = 0
        """Requests to token endpoints."""
        self.failures = 0
        """Those of them that gave no token."""

    def __len__(self) -> int:
        """Tokens held in this process."""
        return len(self._held)

    async def get(
        self, request: TokenRequest, *, key: bytes | None = None, deadline: float = math.inf
    ) -> TokenHandle:
        """A token that is fresh for at least its margin. Raises what `TokenEndpoint.fetch` raises, and
        UpstreamTimeout at `deadline` (a `loop.time()`). `key` is what `key_of` gave for the request.

        A caller that is cancelled, or waits no longer, does not cancel the fetch that others wait for.
        """
        key = key or self.key_of(request)
        now = asyncio.get_running_loop().time()
        held = self._held.get(key)
        if held is not None and held.until > now:
            self.hits += 1
            return held.handle
        self.misses += 1
        failed = self._failed.get(key)
        if failed is not None and failed.until > now:
            raise again(failed.error)
        flight = self._flights.get(key)
        if flight is None:
            flight = asyncio.get_running_loop().create_task(self._fly(key, request))
            self._flights[key] = flight
            flight.add_done_callback(lambda done: self._land(key, done))
        try:
            if deadline == math.inf:
                return await asyncio.shield(flight)
            with Bound(timers(), deadline):
                return await asyncio.shield(flight)
        except TimeoutError:
            raise UpstreamTimeout("The token endpoint gave no token in the time that the call has.") from None
        except GatewayError as error:
            raise again(error) from None

    async def invalidate(self, handle: TokenHandle) -> None:
        """Forget this token, here and in Redis, because an upstream refused it; a newer one stays."""
        held = self._held.get(handle.key)
        if held is not None and held.handle.token == handle.token:
            del self._held[handle.key]
        # Whoever is reading Redis at this moment must not bring it back.
        self._refused[handle.key] = handle.token
        while len(self._refused) > self._capacity:
            self._refused.popitem(last=False)
        await self._shared.drop(handle.key, handle.token)

    async def aclose(self) -> None:
        """Stop the fetches that are under way."""
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)

    def key_of(self, request: TokenRequest) -> bytes:
        """Under which key its token is kept: a keyed digest of all its fields."""
        return self._vault.digest("token", *request.parts())

    def _land(self, key: bytes, flight: "asyncio.Task[TokenHandle]") -> None:
        self._flights.pop(key, None)
        # Taken, or asyncio would complain where every caller has left.
        error = None if flight.cancelled() else flight.exception()
        if isinstance(error, GatewayError):
            now = asyncio.get_running_loop().time()
            self._failed = {name: failed for name, failed in self._failed.items() if failed.until > now}
            self._failed[key] = _Failed(error, now + _FAILURE_SECONDS)

    async def _fly(self, key: bytes, request: TokenRequest) -> TokenHandle:
        """Find the token in Redis, or fetch it as the only one who does."""
        give_up = asyncio.get_running_loop().time() + self._patience
        while True:
            found = await self._read_shared(key)
            if found is not None:
                return found
            owner = await self._shared.acquire(key, seconds=_LOCK_SECONDS)
            if owner is None:
                return await self._fetch(key, request)
            if owner is not False:
                keeping = asyncio.create_task(self._keep(key, owner))
                try:
                    return await self._read_shared(key) or await self._fetch(key, request)
                finally:
                    keeping.cancel()
                    await self._shared.release(key, owner)
            if asyncio.get_running_loop().time() > give_up:
                return await self._fetch(key, request)
            await asyncio.sleep(_POLL_SECONDS * (0.5 + random.random()))  # noqa: S311  Not a secret.

    async def _keep(self, key: bytes, owner: str) -> None:
        """Renew the lock until this is cancelled."""
        while True:
            await asyncio.sleep(_LOCK_SECONDS / 4)
            await self._shared.renew(key, owner, seconds=_LOCK_SECONDS)

    async def _read_shared(self, key: bytes) -> TokenHandle | None:
        found = await self._shared.read(key)
        if found is None or self._refused.get(key) == found.token:
            return None
        return self._hold(key, found.token, seconds=found.seconds)

    async def _fetch(self, key: bytes, request: TokenRequest) -> TokenHandle:
        self.fetches += 1
        try:
            trace = TRACE.get()
            if trace is None:
                fetched = await self._endpoint.fetch(request)
            else:
                with trace.step("fetch token"):
                    fetched = await self._endpoint.fetch(request)
        except GatewayError:
            self.failures += 1
            raise
        life = min(_UNSAID_LIFE if fetched.expires_in is None else fetched.expires_in, _LONGEST_LIFE)
        seconds = life - min(_MARGIN_SECONDS, life * _MARGIN_SHARE)
        # An endpoint may give the same token again: then it is not for us to judge.
        self._refused.pop(key, None)
        handle = self._hold(key, fetched.access_token, seconds=seconds)
        await self._shared.write(key, fetched.access_token, seconds=seconds)
        return handle

    def _hold(self, key: bytes, token: Secret, *, seconds: float) -> TokenHandle:
        handle = TokenHandle(key=key, token=token)
        self._held[key] = _Held(handle, asyncio.get_running_loop().time() + seconds)
        self._held.move_to_end(key)
        while len(self._held) > self._capacity:
            self._held.popitem(last=False)
        return handle
