"""Call templates of `file`."""

from typing import Literal

from pydantic import Field

from app.formats.utcp.auth import Auth
from app.formats.utcp.call_template import CallTemplate


class FileTemplate(CallTemplate):
    """UTCP's `file` (0.x: `text` with `file_path`): a document or a response in a file of FILE_FOLDERS."""

    call_template_type: Literal["file"] = "file"
    file_path: str = Field(min_length=1, max_length=4096)
    base_url: str | None = None
    auth_tools: Auth | None = Field(default=None, repr=False)

    @property
    def is_local(self) -> bool:
        """True: it reads files of the gateway's machine."""
        return True
