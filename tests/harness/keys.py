"""Parts of an API key's text."""

from app.security.keys import parse


def key_id_of(text: str) -> str:
    """Return the id in a key's text; fail where it has not the form of a key."""
    parts = parse(text)
    assert parts is not None
    return parts.key_id
