"""Request and response models of `POST /providers/{name}/check`. None of them has a field for a secret."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from app.core.schemas import StrictModel, ToolName
from app.providers.checks.records import CheckStatus, CredentialStatus


class CheckRequest(StrictModel):
    """What is checked beside the origins and the tokens."""

    probe: Annotated[bool, Field(strict=True)] = Field(
        False,
        description="Whether an operation without effects and without required arguments is called for each "
        "stored credential, to find out whether the upstream accepts it.",
    )
    tool: ToolName | None = Field(
        None, description="The tool to call for that; it must be safe and need no arguments."
    )


class CheckStep(BaseModel):
    """One step of reaching an origin."""

    step: Literal["resolution", "connection", "tls", "http"] = Field(
        description="For a provider of an executor, `connection`: whether one is connected to the gateway."
    )
    status: Literal["ok", "failed"]
    milliseconds: float
    problem: str | None = Field(description="The slug of the problem type; null where the step succeeded.")
    detail: str | None


class CertificateView(BaseModel):
    """The TLS certificate of an origin."""

    subject: str = Field(examples=["CN=api.example.com"])
    issuer: str
    valid_from: datetime
    valid_until: datetime
    days_left: int = Field(description="Whole days until it expires; negative where it has expired.")
    trusted: bool = Field(description="Whether the gateway accepts it; see the step `tls` otherwise.")


class OriginCheck(BaseModel):
    """Whether an origin can be reached from the gateway."""

    origin: str = Field(examples=["https://api.example.com"])
    status: Literal["ok", "failed", "not_checkable"] = Field(
        description="`not_checkable`: programs, files, texts, and datagrams, which no peer acknowledges."
    )
    steps: list[CheckStep] = Field(description="In their order; the one that failed is the last.")
    certificate: CertificateView | None
    http_status: int | None = Field(
        description="Of the response to HEAD /, without credentials; every status means that it is reachable."
    )


class CredentialCheck(BaseModel):
    """Whether the credential of a slot is usable."""

    slot: str
    kind: Literal["api_key", "basic", "bearer", "oauth2", "static"] | None = Field(
        description="Null where no credential is stored."
    )
    exact_kind: str | None = Field(
        description="The kind itself; `kind` is the most similar one of release 0.2.0."
    )
    status: CredentialStatus = Field(
        description="`accepted`, `rejected`: by the upstream, for `tool`; `unknown`: its response says "
        "nothing of the credential; `token_obtained`: from the token endpoint, but no tool was called; "
        "`failed`: no token, or it may not be sent to the origin; `missing`: none is stored, and a tool "
        "needs it; `not_checked`: it is stored."
    )
    tool: str | None = Field(description="The tool that was called with it.")
    upstream_status: int | None
    problem: str | None = Field(description="The slug of the problem type that a call would get.")
    detail: str | None


class ProtocolCheck(BaseModel):
    """Whether an upstream speaks its protocol: an exchange of the protocol itself, without a tool call."""

    tool: str = Field(description="The tool whose call template was used.")
    protocol: str
    status: Literal["ok", "failed"]
    milliseconds: float
    problem: str | None
    detail: str | None


class ProviderCheck(BaseModel):
    """The result of a check of a provider."""

    provider: str
    checked_at: datetime
    status: CheckStatus = Field(
        description="`failed`: no origin can be reached, or a credential is not usable; `degraded`: one of "
        "several origins, a missing credential, a certificate that expires within 14 days, or status 5xx."
    )
    probed: bool = Field(description="Whether tools were called.")
    origins: list[OriginCheck]
    credentials: list[CredentialCheck]
    protocols: list[ProtocolCheck] = Field(
        description="For protocols with a handshake of their own, and only where `probe` was requested."
    )
    hints: list[str] = Field(description="What to do next, a sentence for each finding.")
    complete: bool = Field(
        description="Whether all origins and credentials were checked: the first 20 of each are, within 20 s."
    )
