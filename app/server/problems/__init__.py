"""Errors -> `application/problem+json` (RFC 9457): the only place where an error becomes a response.

No answer repeats what was sent, and none holds the text of an exception that is not ours. `type` is
`urn:utcp-gateway:problem:<slug>`, `errors` points at each fault: with a JSON pointer (RFC 6901) into the
body, or with `#/query/x`, `#/path/x`, `#/header/x`.
"""

from app.server.problems.responses import MEDIA_TYPE, Unhandled, cut, install, problem, respond
from app.server.problems.translation import translate

__all__ = ["MEDIA_TYPE", "Unhandled", "cut", "install", "problem", "respond", "translate"]
