"""Bodies of `/session`."""

from datetime import datetime, timedelta
from typing import Self

from pydantic import BaseModel, Field


class SessionCreated(BaseModel):
    """A session of the web console. The text that proves it is in the cookie only."""

    key_id: str = Field(description="Id of the key whose rights the session has.")
    expires_at: datetime = Field(
        description="When the session ends, however much it is used; SESSION_IDLE_SECONDS without a request "
        "end it sooner."
    )


class SignInLink(BaseModel):
    """A link that signs a browser in."""

    url: str = Field(
        description="The page of the web console that signs in. Its fragment is secret, and browsers send it "
        "to no server."
    )
    expires_at: datetime = Field(description="Until when it can be used, once.")

    @classmethod
    def of(cls, url: str, *, at: datetime, seconds: int) -> Self:
        """Return the link that was made at this time and is valid for so many seconds."""
        return cls(url=url, expires_at=at + timedelta(seconds=seconds))
