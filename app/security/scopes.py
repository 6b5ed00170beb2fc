"""The scopes of API keys, and their comparison."""

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

Scope = Literal[
    "providers:read",
    "providers:write",
    "credentials:write",
    "tools:read",
    "tools:call",
    "agent-tests:run",
    "executors:connect",
    "approvals:decide",
    "recordings:read",
    "recordings:write",
    "keys:manage",
    "calls:read",
    "calls:bodies",
    "metrics:read",
    "admin",
]
SCOPES: tuple[Scope, ...] = get_args(Scope)
DESCRIPTIONS: Mapping[Scope, str] = {
    "providers:read": "Read providers, the names of their variables and credential slots (never a secret), "
    "reports of imports, exports, synonyms and pinned results of searches, and explanations of scores.",
    "providers:write": "Register, change, refresh and delete providers and custom tools, toolsets, synonyms "
    "and pinned results. Without `credentials:write`, a key cannot decide where stored credentials are sent.",
    "credentials:write": "Store and delete credentials and variables, and approve changes that would send "
    "credentials to other origins. No scope can read a stored secret.",
    "tools:read": "List, search and read tools, and read UTCP manuals.",
    "tools:call": "Call tools, with the credentials that are stored for their providers.",
    "agent-tests:run": "Run agent tests, whose models are asked with the keys that the gateway is configured "
    "with: that costs. To give the models tools, a key also needs `tools:call`.",
    "executors:connect": "Connect an executor by UBP, and register the tools that it executes: it receives "
    "the arguments of their calls. Limit such a key to the provider of its executor.",
    "approvals:decide": "Approve and reject calls that other keys have requested, see their arguments "
    "(but for secrets), and remove the requirement of approval from a tool or an operation.",
    "recordings:read": "Read and export recordings: the arguments and responses of recorded calls, secrets "
    "masked, which may hold personal data.",
    "recordings:write": "Create, change, import and delete recordings, and begin runs of replays. Which keys "
    "and toolsets record or replay is decided by those who manage these.",
    "keys:manage": "Create, list, change, rotate and revoke API keys. A key can grant only what it has "
    "itself.",
    "calls:read": "Read the records of calls, without their arguments and responses, and the audit events.",
    "calls:bodies": "Read the recorded arguments and responses of calls, which may hold personal data.",
    "metrics:read": "Read the metrics, for Prometheus.",
    "admin": "Includes every scope, also those of later releases. Restrictions to providers and tags apply "
    "to such a key, too.",
}
"""What each scope allows."""
ADMIN: Scope = "admin"
"""Includes every scope, also those of later releases."""


def missing_scopes(required: Iterable[str], *, held: frozenset[str]) -> tuple[str, ...]:
    """Return the required scopes that `held` does not include, sorted."""
    if ADMIN in held:
        return ()
    return tuple(sorted(set(required) - held))
