"""Providers of 0.x and call templates of 1.x; the examples are those of UTCP's own README."""

import pytest

from app.core.errors import InvalidInput
from app.protocols.call_templates import read_template, with_protocol
from app.protocols.registry import PROTOCOLS
from tests.harness.cases import for_each

OAUTH = {"auth_type": "oauth2", "token_url": "https://a.example/t", "client_id": "i", "client_secret": "s"}
README = [
    ({"name": "r", "provider_type": "http", "url": "https://api.example.com/utcp"}, "http"),
    ({"provider_type": "sse", "url": "https://api.example.com/stream", "body_field": None}, "sse"),
    ({"provider_type": "http_stream", "url": "https://api.example.com/stream"}, "streamable_http"),
    ({"provider_type": "cli", "command_name": "my-command --utcp"}, "cli"),
    ({"provider_type": "websocket", "url": "wss://api.example.com/socket"}, "websocket"),
    ({"provider_type": "grpc", "host": "g", "port": 1, "service_name": "S", "method_name": "M"}, "grpc"),
    ({"provider_type": "graphql", "url": "https://api.example.com/graphql"}, "graphql"),
    ({"provider_type": "tcp", "host": "localhost", "port": 12345, "message_delimiter": "\n"}, "tcp"),
    ({"provider_type": "udp", "host": "localhost", "port": 54321}, "udp"),
    ({"provider_type": "webrtc", "signaling_server": "https://s", "peer_id": "p"}, "webrtc"),
    ({"provider_type": "mcp", "config": {"mcpServers": {"s": {"transport": "http", "url": "u"}}}}, "mcp"),
    ({"provider_type": "text", "file_path": "/path/to/my/tools.json"}, "file"),
    ({"call_template_type": "text", "content": "{}"}, "text"),
    ({"call_template_type": "ubp", "executor": "orders", "command_name": "get_order_status"}, "ubp"),
    ({"call_template_type": "filesystem", "operation": "read", "root": "/srv/files"}, "filesystem"),
    ({"call_template_type": "postgres", "host": "db.example.com", "database": "orders"}, "postgres"),
]


class TestTemplates:
    @for_each(("raw", "protocol"), README)
    def test_every_protocol_is_read_in_either_spelling(self, raw, protocol):
        template = read_template(raw)
        stored = template.model.stored()
        assert template.protocol == stored["call_template_type"] == protocol
        assert "provider_type" not in stored
        again = read_template(stored)
        assert (again.protocol, again.model) == (protocol, template.model)

    def test_the_examples_cover_all_protocols(self):
        assert {protocol for _, protocol in README} == set(PROTOCOLS)

    def test_a_number_of_datagrams_is_one_unless_it_is_said(self):
        udp = {"provider_type": "udp", "host": "h", "port": 1}
        number = "number_of_response_datagrams"
        assert [read_template({**udp, **more}).model.stored()[number] for more in ({}, {number: None}, {number: 0})] == [
            1, 1, 0,
        ]  # fmt: skip

    @for_each(
        ("raw", "at"),
        [
            ({"call_template_type": "tcp", "host": "h", "port": 0}, "/t/port"),
            (
                {"call_template_type": "tcp", "host": "h", "port": 1, "length_prefix_bytes": 3},
                "/t/length_prefix_bytes",
            ),
            ({"call_template_type": "tcp", "host": "h", "port": 1, "framing_strategy": "fixed_length"}, "/t"),
            ({"call_template_type": "websocket", "url": "https://x"}, "/t/url"),
            ({"call_template_type": "cli"}, "/t"),
            ({"call_template_type": "mcp", "config": {"mcpServers": {}}}, "/t/config/mcpServers"),
            ({"call_template_type": "mcp", "config": {"mcpServers": {"s": {}}}}, "/t/config/mcpServers/s"),
        ],
    )
    def test_faults_of_every_protocol_have_a_place(self, raw, at):
        with pytest.raises(InvalidInput) as caught:
            read_template(raw, at="/t")
        assert [fault.pointer for fault in caught.value.errors] == [at]

    def test_a_variable_may_stand_where_a_number_belongs(self):
        raw = {"call_template_type": "tcp", "host": "${HOST}", "port": "${PORT}", "timeout": "$T"}
        model = read_template(raw).model
        assert model.stored() | raw == model.stored()
        resolved = model.stored() | {"host": "h", "port": "7000", "timeout": "5"}
        assert read_template(resolved).model.stored()["port"] == 7000
        for wrong in ("0", "x${PORT}", "7000 ${X}"):
            with pytest.raises(InvalidInput):
                read_template(raw | {"port": wrong})

    def test_a_query_of_an_mcp_url_is_apart_and_transports_are_distinguished(self):
        servers = {
            "a": {"url": "https://x/mcp?key=v"}, "b": {"command": "c"},
            "c": {"type": "streamable-http", "url": "u"}, "d": {"url": "${BASE}/mcp?key=v#f"},
        }  # fmt: skip
        stored = read_template(
            {"call_template_type": "mcp", "config": {"mcpServers": servers}}
        ).model.stored()
        read = stored["config"]["mcpServers"]
        assert {name: server["transport"] for name, server in read.items()} == {
            "a": "http", "b": "stdio", "c": "http", "d": "http",
        }  # fmt: skip
        assert (read["a"]["url"], read["a"]["query"]) == ("https://x/mcp", {"key": "v"})
        assert (read["d"]["url"], read["d"]["query"]) == ("${BASE}/mcp", {"key": "v"})

    def test_http_defaults_and_nulls(self):
        http = read_template(
            {
                "provider_type": "http", "url": " https://x/{a} ", "http_method": "post", "headers": None,
                "content_type": None, "header_fields": None, "auth": None, "unknown": 1,
            }
        ).model  # fmt: skip
        assert http is not None
        assert http.stored() == {
            "call_template_type": "http", "http_method": "POST", "url": "https://x/{a}",
            "content_type": "application/json", "headers": {}, "body_field": "body", "header_fields": [],
        }  # fmt: skip

    def test_a_body_field_of_null_stays_null(self):
        http = read_template({"call_template_type": "http", "url": "https://x", "body_field": None}).model
        assert http is not None
        assert http.stored()["body_field"] is None

    def test_what_is_stored_holds_no_auth_and_keeps_the_plan(self):
        parameters = [{"input": "a", "name": "a", "in": "query", "explode": False}]
        http = read_template(
            {
                "call_template_type": "http",
                "url": "https://x",
                "auth": OAUTH,
                "auth_tools": OAUTH,
                "parameters": parameters,
            }
        ).model
        assert http is not None
        assert http.auth == http.auth_tools
        stored = http.stored()
        assert not {"auth", "auth_tools"} & stored.keys()
        (plan,) = stored["parameters"]
        assert plan.items() >= parameters[0].items()

    @for_each(
        ("raw", "at"),
        [
            ("x", "/t"),
            ({"url": "https://x"}, "/t/call_template_type"),
            ({"provider_type": "pigeon"}, "/t/provider_type"),
            ({"provider_type": "http"}, "/t/url"),
            ({"provider_type": "http", "url": "ftp://x"}, "/t/url"),
            ({"provider_type": "http", "url": "https://x", "http_method": "BREW"}, "/t/http_method"),
            ({"provider_type": "http", "url": "https://x", "headers": {"A": {}}}, "/t/headers/A"),
            (
                {"provider_type": "http", "url": "https://x", "auth": {"auth_type": "basic"}},
                "/t/auth/username",
            ),
            ({"provider_type": "http", "url": "https://x", "name": 5}, "/t/name"),
            ({"provider_type": "tcp", "host": "\x00"}, "/t/host"),
        ],
    )
    def test_faults_point(self, raw, at):
        with pytest.raises(InvalidInput) as caught:
            read_template(raw, at="/t")
        assert caught.value.errors[0].pointer == at

    def test_secrets_of_auth_are_not_in_repr(self):
        template = read_template(
            {"call_template_type": "http", "url": "https://x", "auth": {**OAUTH, "client_secret": "hunter2"}}
        )
        assert "hunter2" not in repr(template)


@for_each("name", [{}, [], 0, False, None])
def test_a_protocol_whose_name_is_no_text_is_rejected_at_its_place(name):
    with pytest.raises(InvalidInput) as rejected:
        read_template(with_protocol({"call_template_type": name, "url": "https://a.example/x"}), at="/t")
    assert rejected.value.errors[0].pointer == "/t/call_template_type"
