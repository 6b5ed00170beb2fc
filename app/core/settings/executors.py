"""Settings of the Universal Bot Protocol (UBP): agents and executors that connect by gRPC."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings


class ExecutorSettings(BaseSettings, defer_build=True):
    """Settings of the connections of agents and executors. The WebSocket `/ubp` needs none of them."""

    # Agents and executors of UBP
    ubp_grpc_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Port of the gRPC service ubp.v1.Orchestrator, which all workers share; 0: no gRPC.",
    )
    ubp_grpc_host: str | None = Field(
        None, description="Address on which the gRPC service listens; unset: HOST."
    )
    ubp_grpc_certificate_file: Path | None = Field(
        None,
        description="Certificate chain (PEM) of the gRPC service; unset: plain text, for a proxy that"
        " terminates TLS.",
    )
    ubp_grpc_key_file: Path | None = Field(
        None, description="Private key (PEM) of UBP_GRPC_CERTIFICATE_FILE."
    )

    @model_validator(mode="after")
    def _certificate_with_key(self) -> Self:
        if (self.ubp_grpc_certificate_file is None) != (self.ubp_grpc_key_file is None):
            msg = "UBP_GRPC_CERTIFICATE_FILE and UBP_GRPC_KEY_FILE must be given together"
            raise ValueError(msg)
        return self
