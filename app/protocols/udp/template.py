"""Call templates of `udp`."""

from typing import Any, Literal

from pydantic import Field, field_validator

from app.protocols.shared.socket_template import SocketTemplate


class UdpTemplate(SocketTemplate):
    """UTCP's `udp`. Where `number_of_response_datagrams` is absent it is 1, as in the released clients (the
    first description said 0); an explicit 0 waits for none.
    """

    call_template_type: Literal["udp"] = "udp"
    number_of_response_datagrams: int = Field(default=1, ge=0, le=10_000)

    @field_validator("number_of_response_datagrams", mode="before")
    @classmethod
    def _null_is_one(cls, value: Any) -> Any:
        return 1 if value is None else value
