"""The public keys of the issuer of access tokens, in memory; read again regularly and for unknown ids."""

import asyncio
import time
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
import structlog
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from app.core.errors import GatewayError, Unavailable
from app.core.loopback import is_loopback
from app.outbound.http import Engine, OutboundRequest
from app.outbound.limits import Limits

_log = structlog.get_logger(__name__)

_LIMITS: Final = Limits(connect=3.0, first_byte=5.0, total=8.0, idle=5.0)
_MAX_BYTES: Final = 512 << 10
_MAX_KEYS: Final = 100
_PAUSE_SECONDS: Final = 10.0
"""The shortest time between two requests to the issuer: unknown keys must not become its load."""


class IssuerKeys:
    """The keys of `issuer`, read through the guarded engine from `url`, or from where its metadata says
    (RFC 8414 section 3, or OpenID Connect Discovery).

    They are read again after `seconds`, while the present ones are used, and used for at most `stale_seconds`
    more where the issuer does not respond.
    """

    def __init__(
        self, engine: Engine, *, issuer: str, url: str | None, seconds: float, stale_seconds: float
    ) -> None:
        self._engine = engine
        self._issuer = issuer
        self._url = url
        self._seconds = seconds
        self._stale_seconds = stale_seconds
        self._keys: KeySet | None = None
        self._read_at = 0.0
        self._tried_at = -_PAUSE_SECONDS
        self._reading: asyncio.Task[None] | None = None

    async def find(self, key_id: str | None) -> Any | None:
        """Return the key with this id (without one: the only key), None where there is none.

        Raise Unavailable where no keys could be read.
        """
        now = time.monotonic()
        age = now - self._read_at
        if self._keys is None or age > self._seconds + self._stale_seconds:
            await self._read_now()
        elif age > self._seconds:
            self._start_reading()
        found = self._find(key_id)
        if found is None and self._may_read():
            # The issuer may have rotated its keys.
            await self._read_now(required=False)
            found = self._find(key_id)
        return found

    async def aclose(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    def _find(self, key_id: str | None) -> Any | None:
        if self._keys is None:
            return None
        keys = [key for key in self._keys if key.get("use") != "enc" and key_id in (None, key.kid)]
        return keys[0] if len(keys) == 1 else None

    def _may_read(self) -> bool:
        return self._reading is not None or time.monotonic() - self._tried_at >= _PAUSE_SECONDS

    def _start_reading(self) -> None:
        if self._reading is None and self._may_read():
            self._tried_at = time.monotonic()
            self._reading = asyncio.create_task(self._read(), name="issuer-keys")

    async def _read_now(self, *, required: bool = True) -> None:
        """Wait for a read of the keys; with `required`, raise Unavailable where there are none afterwards."""
        self._start_reading()
        if self._reading is not None:
            await asyncio.shield(self._reading)
        is_usable = time.monotonic() - self._read_at <= self._seconds + self._stale_seconds
        if required and (self._keys is None or not is_usable):
            raise Unavailable("The access token cannot be verified, because its issuer cannot be reached.")

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(2 * _LIMITS.total):
                found = await self._get(self._url or await self._discovered_url())
            self._keys = _key_set(found)
            self._read_at = time.monotonic()
        except GatewayError as error:
            _log.warning("the issuer's keys cannot be read", reason=error.detail)
        except (JoseError, ValueError, TypeError, KeyError, TimeoutError):
            _log.warning("the issuer's keys cannot be read", reason="its response is not a JSON Web Key Set")
        finally:
            self._reading = None

    async def _discovered_url(self) -> str:
        """Return `jwks_uri` of the issuer's metadata; raise ValueError without one."""
        parts = urlsplit(self._issuer)
        origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
        urls = (
            f"{origin}/.well-known/oauth-authorization-server{path}",
            f"{origin}{path}/.well-known/openid-configuration",
        )
        for url in urls:
            metadata = await self._get(url, optional=True)
            if metadata.get("issuer") == self._issuer and isinstance(metadata.get("jwks_uri"), str):
                keys_url: str = metadata["jwks_uri"]
                is_local = parts.scheme == "http" and is_loopback(keys_url)
                if not keys_url.startswith("https://") and not is_local:
                    raise ValueError
                return keys_url
        raise ValueError

    async def _get(self, url: str, *, optional: bool = False) -> dict[str, Any]:
        """Return the JSON object at `url`, an empty one for another status with `optional`; raise ValueError
        and what the engine raises.
        """
        request = OutboundRequest("GET", url, [("Accept", "application/json")], limits=_LIMITS)
        response = await self._engine.request(request)
        try:
            if response.status != 200:
                if optional:
                    return {}
                raise ValueError
            found = orjson.loads(await response.read(_MAX_BYTES))
        finally:
            response.close()
        if not isinstance(found, dict):
            raise TypeError
        return found


def _key_set(document: dict[str, Any]) -> KeySet:
    """Return the public keys of a JSON Web Key Set; raise ValueError for another document.

    Keys that cannot be used are left out (RFC 7517 section 5): one of a new kind must not lock out clients.
    """
    keys = document.get("keys")
    if not isinstance(keys, list) or len(keys) > _MAX_KEYS:
        raise ValueError
    found = []
    for key in keys:
        # A symmetric key that everybody can read must verify nothing.
        if not isinstance(key, dict) or key.get("kty") not in ("RSA", "EC", "OKP"):
            continue
        try:
            found += KeySet.import_key_set({"keys": [key]}).keys
        except (JoseError, ValueError, TypeError, KeyError):
            _log.warning("a key of the issuer cannot be used")
    return KeySet(found)
