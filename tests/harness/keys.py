"""Parts of an API key's text."""

from app.security.keys import parse


def key_id_of(text: str) -> str:
    """Return the id in a key's text; fail if it is malformed."""
    parts = parse(text)
    assert parts is not None
    return parts.key_id
