"""A compiled tool: all that a call needs, so that a warm one asks neither Postgres nor Redis."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from app.catalog.rules import CacheRule
from app.errors import GatewayError
from app.json_schema.validator import ArgumentValidator
from app.outbound.credentials import Need
from app.outbound.egress import EgressSettings
from app.outbound.limits import Limits
from app.protocols.base import Adapter
from app.resilience import Origin
from app.security.credentials import SealedCredential
from app.security.rate_limit import RateLimit
from app.security.response_masking import ResponseMasker


class Uncallable(Exception):
    """A stored tool of which no plan can be made: `error` says why, to those who may see the tool."""

    def __init__(self, error: GatewayError, *, provider: str, registrar_tags: frozenset[str]) -> None:
        super().__init__(error.detail)
        self.error = error
        self.provider = provider
        self.registrar_tags = registrar_tags


@dataclass(slots=True)
class Plan:
    """One tool, ready to be called. Never changed once made, but for the validator, which is compiled at the
    first call.

    `needs` is an OR of ANDs of credential slots. `credentials` are sealed: a plan holds no secret in the
    open. `origin` is where `target` sends to, `upstream` what guards it. `safe` says that its method has no
    effects (RFC 9110, 9.2.1), `repeatable` that it may be sent again though it may have been carried out.
    `scope` and `reuse` are those of its `Call`s.
    """

    tool_id: UUID
    provider_id: UUID
    name: str
    alias: str
    provider: str
    tags: tuple[str, ...]
    registrar_tags: frozenset[str]
    enabled: bool
    deprecated: bool
    safe: bool
    repeatable: bool
    adapter: Adapter[Any]
    target: Any = field(repr=False)
    origin: str
    upstream: Origin = field(repr=False)
    inputs: Mapping[str, Any] = field(repr=False)
    needs: tuple[tuple[Need, ...], ...]
    credentials: Mapping[str, SealedCredential] = field(repr=False)
    limits: Limits
    egress: EgressSettings | None = field(repr=False)
    scope: bytes = field(default=b"", repr=False)
    reuse: bool = True
    rate: RateLimit | None = None
    cache: CacheRule | None = None
    idempotency_header: str | None = None
    """Where the upstream takes a key of the call, by which it knows one that is sent again."""
    mask_responses: bool = True
    """Whether the secrets of a call are masked in its response."""
    masker: ResponseMasker | None = field(default=None, repr=False)
    """Masks what the upstream gets of this machine's own secrets; None where it gets none."""
    _validator: ArgumentValidator | None = field(default=None, repr=False)

    def validate(self, arguments: Any) -> None:
        """Raises InvalidArguments with every fault; InvalidInput where the tool's own schema is unusable."""
        validator = self._validator
        if validator is None:
            validator = self._validator = ArgumentValidator(self.inputs)
        validator.check(arguments)
