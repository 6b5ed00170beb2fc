"""Call templates of `filesystem`."""

from typing import Literal

from pydantic import Field

from app.formats.utcp.call_template import CallTemplate


class FilesystemTemplate(CallTemplate):
    """Reads or writes the file at the argument `path`, below the folder `root`; `write` takes its `content`.

    A file has at most `max_bytes` bytes.
    """

    call_template_type: Literal["filesystem"] = "filesystem"
    operation: Literal["read", "write"]
    root: str = Field(min_length=1, max_length=4096)
    max_bytes: int = Field(default=1 << 20, ge=1, le=16 << 20)

    @property
    def is_local(self) -> bool:
        """True: it reads and writes files of the gateway's machine."""
        return True
