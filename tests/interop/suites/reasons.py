"""Why cases of the clients' suites, and behaviours of clients alone, are not the same through a gateway.

Each reason is a sentence of docs/protocols.md. A case without a reason, and a reason without a case, fail `make client-suites`.
"""

from collections.abc import Mapping
from typing import Final

_INTERNALS: Final = "It asserts what the client's own object holds."
_PATCHED: Final = "It sets a limit of the client's own class; the gateway has limits of its own."
_OWN_ERROR: Final = (
    "It expects an error class or text of the client's own; the gateway's error is a problem with its status."
)
_WHOLE_BODY: Final = (
    "It compares the whole error body with the upstream's, which is `upstream_body` of the gateway's problem."
)
_RESOURCE: Final = (
    "It expects the list `contents`; the gateway's result is the content of the resource itself."
)
_CLIENTS_OUTPUT: Final = "It reads what the client's own converter prints."
_VARIABLES: Final = (
    "It expects names as the client's converter makes them; the gateway's are made of provider and slot."
)
_SECRETS: Final = "It expects a secret in a manual; the gateway gives a variable in its place."
_SUMMARY: Final = "It expects the summary alone; the gateway's description is summary and description."
_BETTER: Final = "The client alone cannot do it; the call through the gateway succeeds."

SUITES: Final[Mapping[str, Mapping[str, str]]] = {
    "http": {
        "test_call_tool_missing_path_parameter": _OWN_ERROR,
        "test_structured_error_wins_over_generic_message": _WHOLE_BODY,
    },
    "sse": {
        "test_oversized_event_without_delimiter_raises_and_does_not_reconnect": _PATCHED,
        "test_initial_handshake_timeout_raises": _PATCHED,
        "test_reconnect_delay_is_capped": _PATCHED,
        "test_non_event_stream_response_raises": _OWN_ERROR,
    },
    "graphql": {"test_error_handling_missing_selection_set_auto_generated": _BETTER},
    "mcp": {
        "test_call_resource_tool": _RESOURCE,
        "test_call_resource_tool_json_content": _RESOURCE,
        "test_resource_tool_without_registration": _RESOURCE,
        "test_call_nonexistent_resource_tool": _OWN_ERROR,
        "test_mcp_client_and_session_are_reused_across_calls": _INTERNALS,
        "test_manuals_with_different_configurations_get_separate_clients": _INTERNALS,
        "test_changed_configuration_releases_the_stale_client": _INTERNALS,
        "test_deregistering_one_of_two_manuals_sharing_a_configuration_keeps_the_client": _INTERNALS,
        "test_same_manual_name_from_two_clients_with_different_configurations": _INTERNALS,
    },
    "openapi": {
        "test_openapi_converter_skips_unsupported_methods": _CLIENTS_OUTPUT,
        "test_webscraping_ai_auth_extraction": _VARIABLES,
        "test_webscraping_ai_specific_tools": _SUMMARY,
        "test_compatible_api_key_auth": _SECRETS,
        "test_case_insensitive_header_matching": _SECRETS,
    },
}
"""Reasons by suite and case."""

_BOUNDARIES: Final = "The gateway rejects arguments that could end the message which contains them."
_SILENCE: Final = "The client takes silence for an empty response; the gateway responds with 504."
_INCOMPLETE: Final = (
    "The client returns the datagrams that have arrived; the gateway responds with 504, which has them."
)
_REPORTED: Final = (
    "The client returns the text of the error as the result; the gateway responds with 422, which has it."
)
_CHUNKS: Final = "The client returns a list of chunks; with `Accept: application/json` bytes are `media_type` and `base64`."

BEHAVIOURS: Final[Mapping[int, Mapping[str, str]]] = {
    0: {
        "tcp: silence before a stream": _SILENCE,
        "tcp: a line break in a text template": _BOUNDARIES,
        "udp: fewer datagrams than expected": _INCOMPLETE,
        "udp: a line break in a text template": _BOUNDARIES,
        "http: a text": _BETTER,
        "http_stream: bytes": _CHUNKS,
        "graphql: auth: OAuth2, client in the header": _BETTER,
        "mcp: an argument that is missing": _REPORTED,
    },
    1: {
        "tcp: silence before a stream": _SILENCE,
        "tcp: a line break in a text template": _BOUNDARIES,
        "udp: fewer datagrams than expected": _INCOMPLETE,
        "udp: a line break in a text template": _BOUNDARIES,
        "graphql: auth: OAuth2, client in the header": _BETTER,
        "mcp: an argument that is missing": _REPORTED,
    },
}
"""Reasons by generation of the client and behaviour."""
