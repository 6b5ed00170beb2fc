"""The token cache: in this process first, then in Redis, then one request to the token endpoint.

    get --> process cache --> one task per key --> Redis --> lock --> Redis again --> token endpoint

However many calls need a token at once, in however many processes, there is one request to the endpoint
(without Redis, one per process). A key is a keyed digest of every field of the request, so that two requests
that differ in anything never share a token.
"""

import asyncio
import math
import random
from collections import OrderedDict
from dataclasses import dataclass

from app.core.deadlines import Deadline, get_timer_queue
from app.core.errors import GatewayError, UpstreamTimeout, clone_error
from app.core.telemetry.context import TRACE
from app.outbound.oauth2 import TokenEndpoint, TokenRequest
from app.outbound.shared_tokens import SharedTokens
from app.security.secret import Secret
from app.security.vault import Vault
from app.storage.redis import RedisClient

# Tokens are cached for 30 s less than their lifetime, or a fifth less if that is short: a call may take long.
_MARGIN_SECONDS = 30.0
_MARGIN_SHARE = 0.2
# RFC 6749 section 5.1 only recommends `expires_in`; five minutes is a usual lifetime of short-lived tokens.
_DEFAULT_LIFETIME = 300.0
_MAX_LIFETIME = 24 * 3600.0
_FAILURE_SECONDS = 1.5
_POLL_SECONDS = 0.04
# The owner renews it, so that others do not wait long for a process that was killed.
_LOCK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class TokenHandle:
    """A token in use, and the key under which it is cached: the argument of `invalidate`."""

    key: bytes
    token: Secret


@dataclass(frozen=True, slots=True)
class _CachedToken:
    handle: TokenHandle
    expires_at: float


@dataclass(frozen=True, slots=True)
class _CachedFailure:
    error: GatewayError
    expires_at: float


class TokenCache:
    """A cache of OAuth2 tokens that fetches those it does not hold.

    `capacity` limits the tokens held in this process. Failures are cached for 1.5 s, so that a token endpoint
    that is down, or rejects the client, does not get a request for each call.
    """

    def __init__(
        self,
        vault: Vault,
        endpoint: TokenEndpoint,
        redis_client: RedisClient | None = None,
        *,
        prefix: str = "utcp-gateway:token:",
        capacity: int = 10_000,
    ) -> None:
        self._vault = vault
        self._endpoint = endpoint
        self._shared = SharedTokens(vault, redis_client or RedisClient(None), prefix=prefix)
        self._capacity = capacity
        self._cached: OrderedDict[bytes, _CachedToken] = OrderedDict()
        self._recent_failures: dict[bytes, _CachedFailure] = {}
        self._rejected: OrderedDict[bytes, Secret] = OrderedDict()
        self._fetch_tasks: dict[bytes, asyncio.Task[TokenHandle]] = {}
        self._lock_timeout = endpoint.limits.total + 1
        self.hits = 0
        """The number of `get` calls, since the start, that were served by this process's cache."""
        self.misses = 0
        """The number of `get` calls that were not."""
        self.fetches = 0
        """The number of requests to token endpoints."""
        self.failures = 0
        """The number of requests to token endpoints that failed."""

    def __len__(self) -> int:
        """Return the number of tokens held in this process."""
        return len(self._cached)

    async def get(
        self, request: TokenRequest, *, key: bytes | None = None, deadline: float = math.inf
    ) -> TokenHandle:
        """Return a token that is valid for at least its margin.

        `key` is what `key_of` returned for the request, if it is known already. Raises what
        `TokenEndpoint.fetch` raises, and UpstreamTimeout at `deadline` (a `loop.time()`). A waiter that is
        cancelled, or times out, does not cancel the fetch that others wait for.
        """
        key = key or self.key_of(request)
        now = asyncio.get_running_loop().time()
        cached = self._cached.get(key)
        if cached is not None and cached.expires_at > now:
            self.hits += 1
            return cached.handle
        self.misses += 1
        failure = self._recent_failures.get(key)
        if failure is not None and failure.expires_at > now:
            raise clone_error(failure.error)
        fetch = self._fetch_tasks.get(key)
        if fetch is None:
            fetch = asyncio.get_running_loop().create_task(self._find_or_fetch(key, request))
            self._fetch_tasks[key] = fetch
            fetch.add_done_callback(lambda done: self._finish_fetch(key, done))
        try:
            if deadline == math.inf:
                return await asyncio.shield(fetch)
            with Deadline(get_timer_queue(), deadline):
                return await asyncio.shield(fetch)
        except TimeoutError:
            raise UpstreamTimeout("The token endpoint issued no token before the call's deadline.") from None
        except GatewayError as error:
            raise clone_error(error) from None

    async def invalidate(self, handle: TokenHandle) -> None:
        """Drop this token, here and in Redis, because an upstream rejected it; a newer one stays cached."""
        cached = self._cached.get(handle.key)
        if cached is not None and cached.handle.token == handle.token:
            del self._cached[handle.key]
        # A concurrent read from Redis must not bring it back.
        self._rejected[handle.key] = handle.token
        while len(self._rejected) > self._capacity:
            self._rejected.popitem(last=False)
        await self._shared.drop(handle.key, handle.token)

    async def aclose(self) -> None:
        """Cancel the fetches that are in progress."""
        fetches = list(self._fetch_tasks.values())
        for fetch in fetches:
            fetch.cancel()
        await asyncio.gather(*fetches, return_exceptions=True)

    def key_of(self, request: TokenRequest) -> bytes:
        """Return the cache key of a request: a keyed digest of all its fields."""
        return self._vault.digest("token", *request.parts())

    def _finish_fetch(self, key: bytes, fetch: "asyncio.Task[TokenHandle]") -> None:
        self._fetch_tasks.pop(key, None)
        # Retrieve the exception, or asyncio would log it where nothing awaits it any more.
        error = None if fetch.cancelled() else fetch.exception()
        if isinstance(error, GatewayError):
            now = asyncio.get_running_loop().time()
            self._recent_failures = {
                name: failure for name, failure in self._recent_failures.items() if failure.expires_at > now
            }
            self._recent_failures[key] = _CachedFailure(error, now + _FAILURE_SECONDS)

    async def _find_or_fetch(self, key: bytes, request: TokenRequest) -> TokenHandle:
        """Return the token in Redis, or fetch it while holding the lock."""
        deadline = asyncio.get_running_loop().time() + self._lock_timeout
        while True:
            found = await self._read_shared(key)
            if found is not None:
                return found
            owner = await self._shared.acquire(key, seconds=_LOCK_SECONDS)
            if owner is None:
                return await self._fetch(key, request)
            if owner is not False:
                renewal = asyncio.create_task(self._renew_lock(key, owner))
                try:
                    return await self._read_shared(key) or await self._fetch(key, request)
                finally:
                    renewal.cancel()
                    await self._shared.release(key, owner)
            if asyncio.get_running_loop().time() > deadline:
                return await self._fetch(key, request)
            await asyncio.sleep(_POLL_SECONDS * (0.5 + random.random()))  # noqa: S311  Not a secret.

    async def _renew_lock(self, key: bytes, owner: str) -> None:
        """Renew the lock until this is cancelled."""
        while True:
            await asyncio.sleep(_LOCK_SECONDS / 4)
            await self._shared.renew(key, owner, seconds=_LOCK_SECONDS)

    async def _read_shared(self, key: bytes) -> TokenHandle | None:
        found = await self._shared.read(key)
        if found is None or self._rejected.get(key) == found.token:
            return None
        return self._store(key, found.token, seconds=found.seconds)

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
        lifetime = min(_DEFAULT_LIFETIME if fetched.expires_in is None else fetched.expires_in, _MAX_LIFETIME)
        seconds = lifetime - min(_MARGIN_SECONDS, lifetime * _MARGIN_SHARE)
        # An endpoint may issue the same token again, which is then accepted.
        self._rejected.pop(key, None)
        handle = self._store(key, fetched.access_token, seconds=seconds)
        await self._shared.write(key, fetched.access_token, seconds=seconds)
        return handle

    def _store(self, key: bytes, token: Secret, *, seconds: float) -> TokenHandle:
        handle = TokenHandle(key=key, token=token)
        self._cached[key] = _CachedToken(handle, asyncio.get_running_loop().time() + seconds)
        self._cached.move_to_end(key)
        while len(self._cached) > self._capacity:
            self._cached.popitem(last=False)
        return handle
