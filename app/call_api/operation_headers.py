"""What the call route takes and gives in headers besides the arguments and the answer."""

from typing import Any, Final

IDEMPOTENCY_KEY: Final[dict[str, Any]] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": (
        "A name for this call, 1 to 255 visible ASCII characters, in double quotes or without. The call is "
        "carried out once: the same name with the same tool and arguments gets the same answer again, with "
        "`Idempotency-Replayed: true` and the first `X-Call-Id`; 409 while it runs, `idempotency-unknown` "
        "where nobody knows how it ended, 422 with another tool or other arguments."
    ),
    "schema": {
        "type": "string",
        "minLength": 1,
        "maxLength": 255,
        "pattern": "^[!#-~][!-~]*$",
        "title": "Idempotency Key",
    },
}

_RATE: Final[dict[str, Any]] = {
    "RateLimit-Policy": {
        "description": "The limits of the key and of the provider (draft-ietf-httpapi-ratelimit-headers).",
        "schema": {"type": "string"},
        "example": '"key";q=100;w=60',
    },
    "RateLimit": {
        "description": "What is left of each, and the seconds until it is there in full again.",
        "schema": {"type": "string"},
        "example": '"key";r=19;t=1',
    },
    "RateLimit-Limit": {
        "description": "Of the limit with least left: its calls, ...",
        "schema": {"type": "integer"},
    },
    "RateLimit-Remaining": {"description": "... how many are left, ...", "schema": {"type": "integer"}},
    "RateLimit-Reset": {"description": "... and the seconds until all are.", "schema": {"type": "integer"}},
}
# What an upstream says about its own limits is passed on where the gateway has none: then in its own form.
ANSWER_HEADERS: Final[dict[str, Any]] = {
    **{name: {**header, "schema": {"type": "string"}} for name, header in _RATE.items()},
    "X-Cache": {
        "description": "For tools whose answers are kept: where this one comes from.",
        "schema": {"type": "string", "enum": ["hit", "miss", "revalidated", "bypass", "stale"]},
    },
    "X-Masked": {
        "description": "What of the response had a secret in it that the gateway had sent with the call, and "
        "has `***` in its place.",
        "schema": {"type": "string", "enum": ["body", "headers", "body, headers"]},
    },
    "Age": {"description": "Seconds since a kept answer was made.", "schema": {"type": "integer"}},
    "Idempotency-Replayed": {
        "description": "The outcome of an earlier call with this Idempotency-Key.",
        "schema": {"type": "string", "enum": ["true"]},
    },
}
REFUSED_HEADERS: Final[dict[str, Any]] = {
    **_RATE,
    "Retry-After": {
        "description": "Whole seconds until a call is admitted.",
        "schema": {"type": "integer", "minimum": 1},
    },
}
