"""What a check of a provider found. None of these values has a member for a secret."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

CheckStatus = Literal["ok", "degraded", "failed"]
CredentialStatus = Literal[
    "accepted", "rejected", "unknown", "token_obtained", "failed", "missing", "not_checked"
]


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step of reaching an origin; `problem` is the slug of the problem type, None where it succeeded."""

    step: str
    status: Literal["ok", "failed"]
    milliseconds: float
    problem: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class CheckedCertificate:
    """The TLS certificate of an origin; `trusted` tells whether the gateway accepts it."""

    subject: str
    issuer: str
    valid_from: datetime
    valid_until: datetime
    days_left: int
    trusted: bool


@dataclass(frozen=True, slots=True)
class OriginResult:
    """Whether an origin can be reached. Of the steps, only the last one may have failed."""

    origin: str
    status: Literal["ok", "failed", "not_checkable"]
    steps: Sequence[StepResult] = ()
    certificate: CheckedCertificate | None = None
    http_status: int | None = None


@dataclass(frozen=True, slots=True)
class CredentialResult:
    """Whether the credential of a slot is usable. `exact_kind` is None where none is stored, `kind` the most
    similar kind of release 0.2.0; `tool` is the tool that was called with it.
    """

    slot: str
    kind: str | None
    exact_kind: str | None
    status: CredentialStatus
    tool: str | None = None
    upstream_status: int | None = None
    problem: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class ProtocolResult:
    """Whether an upstream speaks its protocol: an exchange of the protocol itself, without a tool call."""

    tool: str
    protocol: str
    status: Literal["ok", "failed"]
    milliseconds: float
    problem: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check of a provider. `complete` tells whether all origins and credentials were checked,
    `probed` whether tools were called; `hints` are what to do next, a sentence for each finding.
    """

    provider: str
    checked_at: datetime
    status: CheckStatus
    probed: bool
    origins: Sequence[OriginResult]
    credentials: Sequence[CredentialResult]
    protocols: Sequence[ProtocolResult]
    hints: Sequence[str]
    complete: bool
