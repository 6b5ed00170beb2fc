"""Bodies of multipart/form-data (RFC 7578), for requests of the console to the API."""

import secrets
from collections.abc import Iterable


def multipart_body(parts: Iterable[tuple[str, str, str, bytes]]) -> tuple[bytes, str]:
    """Return a body and its media type; a part has a name, a file name or "", a media type and a content."""
    boundary = secrets.token_hex(16)
    written: list[bytes] = []
    for name, file_name, media_type, content in parts:
        disposition = f'form-data; name="{_quote(name)}"'
        if file_name:
            disposition += f'; filename="{_quote(file_name)}"'
        head = f"--{boundary}\r\nContent-Disposition: {disposition}\r\nContent-Type: {media_type}\r\n\r\n"
        written += [head.encode(), content, b"\r\n"]
    written.append(f"--{boundary}--\r\n".encode())
    return b"".join(written), f"multipart/form-data; boundary={boundary}"


def _quote(text: str) -> str:
    """Return a parameter as browsers write it (HTML, section "multipart/form-data")."""
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
