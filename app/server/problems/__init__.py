"""Errors as `application/problem+json` (RFC 9457): the only place where an error becomes a response.

No response repeats what was sent, or contains the text of an exception of another library. `type` is
`urn:utcp-gateway:problem:<slug>`; `errors` points at each field error: with a JSON pointer (RFC 6901) into
the body, or with `#/query/x`, `#/path/x`, `#/header/x`.
"""

from app.server.problems.responses import (
    MEDIA_TYPE,
    UnhandledErrorMiddleware,
    build_error_response,
    build_problem_response,
    install,
    log_truncated_response,
)
from app.server.problems.translation import translate

__all__ = [
    "MEDIA_TYPE",
    "UnhandledErrorMiddleware",
    "build_error_response",
    "build_problem_response",
    "install",
    "log_truncated_response",
    "translate",
]
