"""The record that the entry point names, and the model of call templates."""

from functools import partial
from typing import ClassVar, Literal

from pydantic import Field

from app.protocols.extension import CallTemplate, ProtocolRecord, socket_address, socket_origin


class ToyTemplate(CallTemplate):
    """Where the upstream listens, the word that goes with each request, and what is called."""

    may_be_secret: ClassVar[tuple[str, ...]] = ("/password",)

    call_template_type: Literal["toy"] = "toy"
    host: str = Field(min_length=1)
    port: int = Field(ge=1, le=65535)
    password: str = Field(default="", repr=False)
    method: str = "manual"


PROTOCOL = ProtocolRecord(
    name="toy",
    aliases=("plaything",),
    template=ToyTemplate,
    adapter="toy_protocol.adapter:ToyAdapter",
    origin=partial(socket_origin, "toy"),
    address=partial(socket_address, "toy"),
    socket_schemes=("toy",),
    is_introspected=True,
)
