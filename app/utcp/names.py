"""Names that every model provider accepts: `^[a-zA-Z0-9_-]{1,64}$`."""

import hashlib
import re
import unicodedata
from collections.abc import Container
from typing import Final

LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_LENGTH: Final = 64
_DIGEST_LENGTH: Final = 8
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_-]+")


def legal_name(raw: str, taken: Container[str] = ()) -> str:
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


def alias_for(provider: str, tool: str, taken: Container[str] = ()) -> str:
    """Return the alias of the tool `provider.tool`: `provider_tool`, made legal and unique by
    `legal_name`.
    """
    alias = f"{provider}_{tool}"
    if LEGAL_NAME.fullmatch(alias) and alias not in taken:
        return alias
    # Hashed with its dot, so that the hashes of ("a_b", "c") and ("a", "b_c") differ.
    return legal_name(f"{provider}.{tool}", taken)


def _with_digest(base: str, raw: str, count: int) -> str:
    seed = raw if count == 0 else f"{raw}\n{count}"
    digest = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{base[: _MAX_LENGTH - _DIGEST_LENGTH - 1].rstrip('_')}_{digest}"
