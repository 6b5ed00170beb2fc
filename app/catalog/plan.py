"""A compiled tool: everything that a call needs, so that a warm call queries neither Postgres nor Redis."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from app.catalog.cache_rule import CacheRule
from app.catalog.response_options import ResponseOptions
from app.core.errors import GatewayError
from app.core.rate_limit import RateLimit
from app.formats.json_schema.repair import Repaired, RepairScope
from app.formats.json_schema.validator import ArgumentValidator
from app.formats.toolclad.contract import Contract
from app.formats.toolclad.formats import CHECKERS
from app.outbound.egress import EgressSettings
from app.outbound.limits import Limits
from app.outbound.resilience import Origin
from app.protocols.base import Adapter
from app.protocols.requests.output_spec import OutputSpec
from app.protocols.requests.templates import ResponseSpec
from app.protocols.responses.reader import ResponseReader
from app.protocols.responses.rule import ResponseRule
from app.security.requirements import SecurityRequirements
from app.security.response_masking import ResponseMasker
from app.security.sealed_credentials import SealedCredential


class PlanError(Exception):
    """A stored tool cannot be compiled. `error` tells why, for principals that may see the tool."""

    def __init__(self, error: GatewayError, *, provider: str, registrar_tags: frozenset[str]) -> None:
        super().__init__(error.detail)
        self.error = error
        self.provider = provider
        self.registrar_tags = registrar_tags


@dataclass(slots=True)
class Plan:
    """A compiled tool, immutable but for the validator, which is compiled at the first call.

    `needs` is an OR of ANDs of credential slots. `credentials` are sealed: a plan contains no secret in plain
    text. `origin` is where `target` sends requests, `upstream` the state of its breaker and bulkhead. `safe`
    tells that its method has no side effects (RFC 9110 section 9.2.1), `requires_approval` that another
    key must approve each call, `retryable` that a request may be
    sent again though the upstream may have processed it. `scope` and `reuse` are those of its `Call`s.
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
    requires_approval: bool
    safe: bool
    retryable: bool
    adapter: Adapter[Any]
    target: Any = field(repr=False)
    origin: str
    upstream: Origin = field(repr=False)
    inputs: Mapping[str, Any] = field(repr=False)
    needs: SecurityRequirements
    credentials: Mapping[str, SealedCredential] = field(repr=False)
    limits: Limits
    egress: EgressSettings | None = field(repr=False)
    scope: bytes = field(default=b"", repr=False)
    reuse: bool = True
    rate_limit: RateLimit | None = None
    cache_rule: CacheRule | None = None
    idempotency_header: str | None = None
    """The header in which the upstream takes an idempotency key, by which it recognises a repeated
    request.
    """
    mask_responses: bool = True
    """Whether the secrets of a call are masked in its response."""
    masker: ResponseMasker | None = field(default=None, repr=False)
    """Masks those of this machine's own secrets that the upstream receives; None where it receives none."""
    fingerprint: bytes = field(default=b"", repr=False)
    """A keyed digest of what a call of the tool does: its template, inputs and security."""
    description_digest: bytes = field(default=b"", repr=False)
    """A keyed digest of what people read about the tool: its name, description and annotations."""
    provider_enabled: bool = True
    """False where the provider is paused: then `enabled` is False, too."""
    outputs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    response_spec: ResponseSpec | None = field(default=None, repr=False)
    """What the call template says of responses beyond `outputs`."""
    response_rule: ResponseRule = field(default_factory=ResponseRule)
    """Whether responses are decoded and validated, unless the client of a call says otherwise."""
    read_only: bool = False
    """Whether it changes nothing: by what an operator has set, else because it is safe."""
    response_options: ResponseOptions | None = None
    """Whether all pages of a list are read, and operations are polled; None for neither."""
    contract: Contract | None = field(default=None, repr=False)
    """The contract of the ToolClad manifest that the tool comes from."""
    output_shape: OutputSpec | None = field(init=False, repr=False)
    """The shape that the call template gives to results; None where they are the upstream's."""
    checks_responses: bool = field(init=False)
    """Whether responses are decoded or validated where the client says nothing."""
    is_valid: Callable[[Any], bool] | None = field(default=None, init=False, repr=False)
    """Returns whether an object of arguments is valid, in one step; None before the first call, and where
    `validate` must do more.
    """
    _validator: ArgumentValidator | None = field(default=None, repr=False)
    _response_reader: ResponseReader | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Set what follows from the other members, once for all calls."""
        self.output_shape = None if self.response_spec is None else self.response_spec.output
        self.checks_responses = self.response_rule.decode or self.response_rule.validate

    def validate(self, arguments: Any) -> None:
        """Raise InvalidArguments with every error found; InvalidInput where the tool's own schema is
        unusable.
        """
        (self._validator or self._compiled()).check(arguments)

    def repair(self, arguments: Any, *, scope: RepairScope) -> Repaired | None:
        """Return arguments that are not valid, repaired; None where that is not possible."""
        return self._compiled().repair(arguments, scope=scope, clamped=self.clamped)

    @property
    def clamped(self) -> frozenset[str]:
        """The names of the inputs that are pulled into their range."""
        return frozenset() if self.contract is None else self.contract.clamped

    def is_valid_input(self, name: str, value: Any) -> bool:
        """Return whether the value is valid for the input `name`; True where its schema cannot be found."""
        return self._compiled().is_valid_property(name, value)

    def response_reader(self) -> ResponseReader:
        """Return the reader of the tool's responses, made at the first call that needs it."""
        reader = self._response_reader
        if reader is None:
            reader = self._response_reader = ResponseReader(self.outputs, self.response_spec)
        return reader

    def _compiled(self) -> ArgumentValidator:
        validator = self._validator
        if validator is None:
            formats = None if self.contract is None else CHECKERS
            validator = self._validator = ArgumentValidator(self.inputs, formats=formats)
            self.is_valid = validator.quick_check
        return validator
