"""Names that every model provider accepts: `^[a-zA-Z0-9_-]{1,64}$`."""

import base64
import hashlib
import re
import unicodedata
from collections.abc import Container
from typing import Final

RESERVED_NAMES: Final = frozenset(
    {"find_tools", "describe_tools", "call_read_tool", "call_tool", "read_more"}
)
"""The names of meta-tools, which no tool of a provider has as its agent name."""
LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_LENGTH: Final = 64
_DIGEST_LENGTH: Final = 8
MAX_AGENT_NAME: Final = 45
"""What a host may prefix with `mcp__`, the name of a server in 12 characters, and `__`: 64 in all."""
_AGENT_DIGEST_LENGTH: Final = 6
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_-]+")


def make_legal_name(raw: str, taken: Container[str] = ()) -> str:
    """Return a legal name close to `raw` that is not in `taken`; the same input always gives the same name.

    Accents are removed, and runs of other characters become one `_`. A name that is too long, has no
    characters left, or is taken gets an 8-character hash of `raw` at its end.
    """
    if LEGAL_NAME.fullmatch(raw) and raw not in taken:
        return raw
    plain = "".join(c for c in unicodedata.normalize("NFKD", raw) if not unicodedata.combining(c))
    base = _ILLEGAL.sub("_", plain).strip("_")
    if base and len(base) <= _MAX_LENGTH and base not in taken:
        return base
    count = 0
    while (name := _with_digest(base or "tool", raw, count)) in taken:
        count += 1
    return name


def choose_alias(provider: str, tool: str, taken: Container[str] = ()) -> str:
    """Return the alias of the tool `provider.tool`: `provider_tool`, made legal and unique by
    `legal_name`.
    """
    alias = f"{provider}_{tool}"
    if LEGAL_NAME.fullmatch(alias) and alias not in taken:
        return alias
    # Hashed with its dot, so that the hashes of ("a_b", "c") and ("a", "b_c") differ.
    return make_legal_name(f"{provider}.{tool}", taken)


def choose_agent_name(name: str, alias: str, taken: Container[str] = ()) -> str:
    """Return the name by which agents call the tool with this canonical name: its alias, or where that has
    more than 45 characters, its beginning with a 6-character hash of the canonical name.

    The same input always gives the same name. `taken` are the aliases and agent names of other tools.
    """
    if len(alias) <= MAX_AGENT_NAME and alias not in taken and alias not in RESERVED_NAMES:
        return alias
    count = 0
    while (shortened := _shorten_name(name, alias, count)) in taken:
        count += 1
    return shortened


def _shorten_name(name: str, alias: str, count: int) -> str:
    seed = name if count == 0 else f"{name}\n{count}"
    digest = base64.b32encode(hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest())
    suffix = digest[:_AGENT_DIGEST_LENGTH].decode().lower()
    return f"{alias[: MAX_AGENT_NAME - _AGENT_DIGEST_LENGTH - 1].rstrip('_')}_{suffix}"


def _with_digest(base: str, raw: str, count: int) -> str:
    seed = raw if count == 0 else f"{raw}\n{count}"
    digest = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{base[: _MAX_LENGTH - _DIGEST_LENGTH - 1].rstrip('_')}_{digest}"
