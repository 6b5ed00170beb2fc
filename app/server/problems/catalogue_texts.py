"""The texts of the catalogue of problem types, by slug."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class ProblemText:
    """What happened, what to do (sentences), and the members of the problem besides those that all have.

    `depends` says that some problems of the type are retryable and others are not.
    """

    explanation: str
    remedies: tuple[str, ...]
    members: Mapping[str, str] = field(default_factory=dict)
    depends: bool = False


_ERRORS: Final = {
    "errors": "Each field error: `pointer` (JSON Pointer into the body, or `#/query/...`, `#/path/...`, "
    "`#/header/...`), `detail`, and `expected` where it is known."
}
_CALL_ID: Final = {"call_id": "The id of the call's record (GET /calls/{call_id})."}
_LIMIT: Final = {"limit": "The limit that was exceeded, where it is a number."}
_UPSTREAM: Final = {
    "upstream_status": "The upstream's own status, where it responded.",
    "upstream_body": "The upstream's own response, bounded in size, with the gateway's secrets masked.",
    **_CALL_ID,
}
_SAFE_TO_REPEAT: Final = (
    "`retryable` is true where nothing was sent, or where the tool only reads (GET, HEAD, or idempotent)."
)

TEXTS: Final[Mapping[str, ProblemText]] = {
    "internal-error": ProblemText(
        "Something happened that the gateway does not expect: a defect of the gateway, not of the request.",
        (
            (
                "Give `error_id` to the operator: the gateway's log has one line with it, and where it was "
                "raised."
            ),
        ),
        {"error_id": "The id of the line in the gateway's log."},
    ),
    "bad-request": ProblemText(
        "The request could not be parsed: its body is not valid JSON or not UTF-8, is nested too "
        "deeply, or a "
        "header is wrong.",
        (
            (
                "Look at the character or line that `detail` names. JSON has no trailing commas, no "
                "comments, and "
                "double quotes only."
            ),
            "Encode the body as UTF-8.",
        ),
    ),
    "invalid-input": ProblemText(
        "The request could be parsed, but some of its members or parameters are not valid.",
        (
            (
                "Correct each field in `errors`. Unknown members are errors too, and similar names are "
                "suggested."
            ),
            "The schema of every body is at /docs and in /openapi.json.",
        ),
        _ERRORS,
    ),
    "invalid-arguments": ProblemText(
        "The arguments of the call do not match the JSON Schema in `inputs` of the tool. Nothing was sent.",
        ("Read `inputs` with GET /tools/{name}, and correct each field in `errors`.",),
        _ERRORS | _CALL_ID,
    ),
    "invalid-document": ProblemText(
        "The OpenAPI document or UTCP manual cannot be read, e.g. because it is an HTML page or not YAML.",
        (
            "Give the URL of the document itself (often /openapi.json), not of the page that displays it.",
            "Check a file with `utcp-gateway openapi check FILE`.",
        ),
        _ERRORS,
    ),
    "unset-variable": ProblemText(
        "A text of the provider names a variable, `${NAME}`, that has no value.",
        (
            "Store it with PUT /providers/{name}/variables/{variable}, or `utcp-gateway variables set`.",
            "If it is an environment variable of the gateway, the operator lists it in VARIABLE_ENV_NAMES.",
        ),
        {"variables": "The names of the variables without a value.", **_ERRORS},
    ),
    "unauthenticated": ProblemText(
        "The request has no API key, or one that is unknown, expired or revoked. The response does not tell "
        "an unknown key from a revoked one.",
        (
            "Send `Authorization: Bearer <key>` or `X-API-Key: <key>`, not both.",
            (
                "Create a key with POST /keys or `utcp-gateway keys create`; the first one with "
                "`utcp-gateway bootstrap`. In embedded mode it is in DATA_DIR/admin.key."
            ),
            "With Retry-After: too many invalid keys came from this address; wait.",
        ),
        depends=True,
    ),
    "forbidden": ProblemText(
        "The API key is valid, but its scopes or its restrictions to providers and tags do not include this.",
        (
            "With `missing_scopes`: use a key that has these scopes; GET /scopes describes each.",
            (
                "Otherwise `detail` names the restriction. A key's scopes and restrictions are in GET "
                "/keys/{key_id}."
            ),
        ),
        {"missing_scopes": "The scopes that the key lacks."},
    ),
    "own-approval": ProblemText(
        "Whoever requests something does not approve it: the key that decides is neither the key that "
        "requested "
        "it, nor one that this key has created.",
        (
            "Decide with another key, e.g. the one that created the requesting key.",
            "Operators: `utcp-gateway bootstrap` creates an admin key that no other key has created.",
        ),
    ),
    "cross-site-request": ProblemText(
        "The request has the cookie of a session of the console, or signs in, and no page of the gateway has "
        "sent it: its Origin or Sec-Fetch-Site says so, or both are missing.",
        (
            "Use the pages of the console, and reload the page from which the request was sent.",
            "Operators: set PUBLIC_BASE_URL to the URL that browsers show, where a proxy replaces Host.",
            "Programs: send an API key as `Authorization: Bearer <key>`, and no cookie.",
        ),
    ),
    "https-required": ProblemText(
        "The browser reaches the gateway over plain HTTP at another address than loopback, where the key and "
        "the session could be read on the way.",
        (
            "Open the console at an https:// address.",
            "Operators: set PUBLIC_BASE_URL to the https:// URL of the proxy that ends TLS.",
            "Operators: or name that proxy in FORWARDED_ALLOW_IPS, and have it send X-Forwarded-Proto.",
            "Without TLS: open http://127.0.0.1:8000/console on the gateway's machine.",
            "Or use an SSH tunnel: `ssh -L 8000:127.0.0.1:8000 HOST`.",
        ),
    ),
    "not-found": ProblemText(
        "There is no resource of this name, or the API key may not see it; the response does not tell which.",
        (
            "Check the spelling: `suggestions` has similar names that this key may see.",
            "Check the URL: paths have no trailing slash, and names are case-sensitive.",
        ),
        {"suggestions": "Similar names, the most similar first."},
    ),
    "method-not-allowed": ProblemText(
        "The resource exists, but does not support the method of the request.",
        ("Use a method in the header `Allow`. A tool is called with POST.",),
    ),
    "upgrade-required": ProblemText(
        "The resource is served over another protocol, which the header `Upgrade` of the response names.",
        (
            "Connect to `/ubp` with a WebSocket client, over HTTP/1.1.",
            "A client that keeps no connection sends single commands with POST /ubp/commands.",
            "Operators: a reverse proxy must pass on `Upgrade` and `Connection`, as deploy/nginx.conf does.",
        ),
    ),
    "conflict": ProblemText(
        "The request contradicts what is stored, e.g. because the name is in use.",
        ("Read the stored resource; change or delete it, or choose another name.",),
    ),
    "approval-outdated": ProblemText(
        "What was requested can no longer be done as it was requested: the requesting key is not valid or "
        "lacks a "
        "right now, or the tool was changed, disabled or removed. Nothing was sent, and the approval has "
        "failed.",
        ("Request it again, with a valid key; `detail` says what has changed.",),
        {"approval": "The approval, in its state now."},
    ),
    "recording-not-found": ProblemText(
        "The key or the toolset of a call records to a recording, or replays one, that does not exist, e.g. "
        "because it was deleted. The call reaches no upstream.",
        (
            "Create or import the recording under this name.",
            "Give the key or the toolset another `upstream`.",
        ),
        {"recording": "The name of the recording."},
    ),
    "not-recorded": ProblemText(
        "The call is replayed, and its recording has no response for it: the tool was not called with these "
        "arguments when it was recorded, or the run has had all responses and `after_last` is `error`. "
        "Nothing was sent.",
        (
            "Compare the arguments with those of `nearest`, whose `differences` have JSON pointers.",
            "Record the call, with a key or a toolset in the mode `record`.",
            "Name arguments that differ each time, such as times, in `options.ignored` of the recording.",
        ),
        {
            "tool": "The canonical name of the tool.",
            "recording": "The name of the recording.",
            "nearest": "The recorded call of this tool whose arguments differ least, secrets masked; null "
            "where the tool was never called.",
            "recorded": "The number of responses that the run has had, where it has had all.",
        },
    ),
    "recording-outdated": ProblemText(
        "The tool has another method, other inputs or other outputs than when the response was recorded, and "
        "the recording is strict.",
        ("Record the call again.", "Set `options.strict` of the recording to false."),
        {
            "tool": "The canonical name of the tool.",
            "recording": "The name of the recording.",
            "interaction": "The id of the recorded call.",
        },
    ),
    "precondition-failed": ProblemText(
        "The resource has another version than the ETag in If-Match: someone changed it in the meantime.",
        ("GET the resource, repeat the change on top of it, and send its new ETag.",),
    ),
    "too-large": ProblemText(
        "The body, the document or a part of it exceeds a limit of the gateway.",
        (
            "Send less: a smaller body, or a document with fewer operations (an overlay can remove some).",
            "The operator's limits are MAX_REQUEST_BYTES, MAX_DOCUMENT_BYTES and MAX_ARGUMENT_VALUES.",
        ),
        _LIMIT,
    ),
    "client-timeout": ProblemText(
        "The client stopped sending its body, or reading the response, for longer than CLIENT_IDLE_TIMEOUT.",
        ("Send the body at once, and read the response as it arrives.",),
    ),
    "request-timeout": ProblemText(
        "The head or the body of the request did not arrive in time.",
        ("Send the request at once. The settings are HEAD_TIMEOUT and CLIENT_IDLE_TIMEOUT.",),
    ),
    "unsupported-media-type": ProblemText(
        "The Content-Type of the request is not one that the operation reads, or is absent.",
        ("Send `Content-Type: application/json` with a JSON body, or the media type that `detail` names.",),
    ),
    "uri-too-long": ProblemText(
        "The URL of the request is longer than MAX_HEAD_BYTES allows.",
        ("Send long values in the body; a search text has at most 1,000 characters.",),
    ),
    "request-header-fields-too-large": ProblemText(
        "The header fields of the request are larger than MAX_HEAD_BYTES, or more than MAX_HEADER_FIELDS.",
        ("Remove header fields that the gateway does not need, such as cookies.",),
    ),
    "rate-limited": ProblemText(
        "The rate limit of the API key or of the provider is exhausted. The call was not made.",
        (
            "Wait for Retry-After. The headers RateLimit and RateLimit-Policy tell the state of the limits.",
            "A key's limit is `rate_limit` of POST /keys; a provider's is `limits.rate`.",
        ),
        {
            "limit": "`key` or `provider`: whose limit it is.",
            "retry_after": "Seconds until a call is admitted.",
            **_CALL_ID,
        },
    ),
    "too-many-requests": ProblemText(
        "One client address has too many connections, or too many requests that wait for their responses.",
        (
            (
                "Read responses before sending more, and reuse connections. The setting is "
                "MAX_CONNECTIONS_PER_ADDRESS."
            ),
        ),
    ),
    "idempotency-mismatch": ProblemText(
        "The Idempotency-Key was already used by this API key, for another tool or with other arguments.",
        ("Use one key for one call: a random UUID, for example.",),
        _CALL_ID,
    ),
    "idempotency-running": ProblemText(
        "The first call with this Idempotency-Key has not ended yet.",
        ("Repeat the same request after Retry-After: it gets the response of the first call.",),
        _CALL_ID,
    ),
    "idempotency-unknown": ProblemText(
        "The worker that made the call with this Idempotency-Key ended before it stored the outcome. The "
        "upstream may have processed the call.",
        (
            "Find out from the upstream whether the call had its effect.",
            "Only if it had not, call again with a new Idempotency-Key.",
        ),
        _CALL_ID,
    ),
    "idempotency-not-stored": ProblemText(
        "The call was made, but its response was too large to be stored, and cannot be replayed.",
        ("Read the result from the upstream. The limit is the setting IDEMPOTENCY_MAX_RESPONSE_BYTES.",),
        _CALL_ID,
    ),
    "credential-missing": ProblemText(
        "The tool needs a credential, and none is stored in the provider's slot for it. Nothing was sent.",
        (
            "Store it with PUT /providers/{name}/credentials/{slot} or `utcp-gateway credentials set`.",
            "`detail` names the slots; GET /providers/{name}/credentials lists them.",
        ),
        _CALL_ID,
    ),
    "credential-not-allowed": ProblemText(
        "The stored credential is bound to other origins than that of the tool, so it was not sent.",
        ("If the tool's origin may receive it, store it again with this origin in `allowed_origins`.",),
        _CALL_ID,
    ),
    "blocked-address": ProblemText(
        "The destination is in a private, loopback or otherwise reserved network, or has a port that is not "
        "allowed. The address guard protects the networks of the gateway's operator.",
        (
            (
                "The operator can allow a network: ALLOW_NETWORKS=10.2.0.0/16, or only one port: "
                "10.2.0.0/16:443."
            ),
            "In a container, 127.0.0.1 is the container itself; use the host name of the service.",
        ),
        _CALL_ID,
    ),
    "unavailable": ProblemText(
        "The gateway cannot serve the request for now, e.g. because its database does not respond.",
        (
            "Wait for Retry-After, and repeat the request.",
            "If a POST lost its connection to the database, read first whether the resource exists.",
            "The operator sees at GET /health/ready which server is unavailable.",
        ),
    ),
    "overloaded": ProblemText(
        "This process has more requests than it can serve in time, and rejects further ones at once.",
        (
            (
                "Wait for Retry-After. The operator's limits are MAX_CALLS and OVERLOAD_MAX_LAG; add "
                "workers or replicas."
            ),
        ),
    ),
    "circuit-open": ProblemText(
        "The upstream has failed repeatedly, and is not called for some seconds (circuit breaker).",
        ("Wait for Retry-After. If it lasts, check the upstream; GET /calls shows how its calls failed.",),
        _CALL_ID,
    ),
    "origin-busy": ProblemText(
        "As many calls to the upstream are in progress as its limit allows, and the queue is full.",
        ("Wait for Retry-After. The limit is `limits.concurrency` of the provider, or ORIGIN_CONCURRENCY.",),
        _CALL_ID,
    ),
    "stopping": ProblemText(
        "The process is shutting down, and ends its streams.",
        ("Repeat the request: another replica serves it, or this one after its restart.",),
        _CALL_ID,
    ),
    "call-log-unavailable": ProblemText(
        "CALL_LOG_MODE is strict, and the call with effects could not be recorded first. It was not made.",
        ("Wait for Retry-After. The operator checks the database.",),
        _CALL_ID,
    ),
    "loop-detected": ProblemText(
        "The call has passed through this gateway before (header CDN-Loop): two gateways call each other.",
        ("Register the API itself at each gateway, not the other gateway's tools that come from here.",),
        _CALL_ID,
    ),
    "deadline-exceeded": ProblemText(
        "The deadline of the call (X-Timeout-Ms, or the provider's limits) passed before it was sent.",
        ("Call again with more time.",),
        _CALL_ID,
    ),
    "not-implemented": ProblemText(
        "The HTTP server does not implement the method or the transfer coding of the request.",
        (
            (
                "Send the body with Content-Length, or `Transfer-Encoding: chunked`. The gateway is no "
                "forward proxy."
            ),
        ),
    ),
    "http-version-not-supported": ProblemText(
        "The request line names another version than HTTP/1.1 or HTTP/1.0.",
        ("Let a reverse proxy translate HTTP/2 and HTTP/3.",),
    ),
    "not-direct": ProblemText(
        "The tool has no form that a UTCP client could call itself, without the gateway.",
        ("Call it through the gateway.",),
    ),
    "seal-broken": ProblemText(
        "A stored secret cannot be decrypted: its sealing key is not in the key ring, or the bytes "
        "are damaged.",
        (
            "The operator adds the former key to SEALING_KEYS, after the present one, and restarts.",
            "If that key is lost, store the credential again.",
        ),
    ),
    "upstream-error": ProblemText(
        "The upstream, or the way to it, failed.",
        ("Look at `upstream_status` and `upstream_body`, and at the call's record.",),
        _UPSTREAM,
        depends=True,
    ),
    "upstream-timeout": ProblemText(
        "The upstream did not respond before the timeout. It may have processed the call.",
        (
            _SAFE_TO_REPEAT,
            "Longer timeouts are `limits.first_byte` and `limits.total` of the provider.",
        ),
        _UPSTREAM,
        depends=True,
    ),
    "upstream-unreachable": ProblemText(
        "No connection to the upstream: its name is unknown, it is not listening, or TLS failed.",
        (
            "Check the URL, and that the upstream is running.",
            "Connect from the gateway's machine or container, not from your own.",
            _SAFE_TO_REPEAT,
        ),
        _UPSTREAM,
        depends=True,
    ),
    "upstream-unauthorized": ProblemText(
        "The upstream rejected the stored credential with 401.",
        ("Store a valid credential with PUT /providers/{name}/credentials/{slot}.",),
        _UPSTREAM,
        depends=True,
    ),
    "upstream-malformed": ProblemText(
        "The upstream's response is not what its protocol or its media type says, or it was cut off.",
        ("Check that the URL is that of the API, and request it with another client.",),
        _UPSTREAM,
        depends=True,
    ),
    "response-too-large": ProblemText(
        "The upstream's response exceeds MAX_RESPONSE_BYTES, or `limits.response_bytes` of the provider.",
        ("Request less (a page, a filter), or raise the limit.",),
        _UPSTREAM,
    ),
    "token-request-failed": ProblemText(
        "The OAuth 2.0 token endpoint of the credential issued no token. The tool was not called.",
        ("Check client id, client secret, token URL and scope of the credential; `detail` has the reason.",),
        _UPSTREAM,
    ),
    "upstream-rejected": ProblemText(
        "The upstream responded with an error. A 4xx is passed on with its status, except for 401, 403 and "
        "407, which concern the gateway's credential; these and 5xx are 502.",
        (
            "Read `upstream_body`: it is the upstream's own explanation.",
            "`retryable` is true for 429, and for 502, 503 and 504 of tools that only read.",
        ),
        _UPSTREAM,
        depends=True,
    ),
}
