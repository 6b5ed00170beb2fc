"""Names whose values are secrets: such values in a collection are never shown, nor sent."""

import re
from typing import Final

# In lower case, without `-`, `_` and `.`.
_NAMES: Final = frozenset(
    {"accesskey", "accesstoken", "apikey", "apisecret", "apitoken", "appkey", "authkey", "authorization"}
    | {"authtoken", "clientsecret", "cookie", "ocpapimsubscriptionkey", "passwd", "password", "privatekey"}
    | {"privatetoken", "proxyauthorization", "pwd", "refreshtoken", "secret", "sessionid", "sessiontoken"}
    | {"signature", "subscriptionkey", "token", "xaccesstoken", "xapikey", "xapisecret", "xapitoken"}
    | {"xauthkey", "xauthtoken", "xsessiontoken", "xtoken", "clientassertion", "idtoken", "passphrase"}
)
_HEADER_ENDS: Final = ("apikey", "accesskey", "authkey", "token", "secret", "password", "signature")
_SEPARATORS: Final = re.compile(r"[-_.\s]")
_IN_TEXT: Final = re.compile(
    r"passw|passphrase|secret|token|api[-_]?key|authorization|private[-_]?key", re.IGNORECASE
)


def is_secret_name(name: str) -> bool:
    """Return whether a query parameter or a field of this name holds a secret."""
    return _folded(name) in _NAMES


def is_secret_header(name: str) -> bool:
    """Return whether a header of this name holds a secret."""
    folded = _folded(name)
    is_forgery_token = "csrf" in folded or "xsrf" in folded
    return folded in _NAMES or (folded.endswith(_HEADER_ENDS) and not is_forgery_token)


def may_hold_secret(text: str) -> bool:
    """Return whether a text has a word for a secret in it."""
    return _IN_TEXT.search(text) is not None


def _folded(name: str) -> str:
    return _SEPARATORS.sub("", name).lower()
