"""Each request of each command is one of openapi/gateway.json: operation, parameters, headers and body."""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from app.cli.root import COMMANDS, app, load_command
from tests.harness.cases import for_each
from tests.harness.contract.contract_server import ContractServer, example, serve_contract

Run = Callable[..., Any]
ID = "019a0000-0000-7000-8000-000000000014"
KEY_ID = "AgentKey2346"
#: The arguments of each command, with the options without which it would do nothing.
BASE = {
    "providers add": "https://api.example/openapi.json --name library",
    "providers import": "providers.json",
    "providers list": "",
    "providers show": "library",
    "providers refresh": "library",
    "providers approve": "library --yes",
    "providers remove": "library --yes",
    "providers check": "library",
    "providers health": "",
    "providers edit": "library --description Books",
    "providers pause": "library",
    "providers resume": "library",
    "credentials set": "library apiKey --kind bearer --secret @secret.txt --yes",
    "credentials list": "library",
    "credentials remove": "library apiKey",
    "variables list": "",
    "variables set": "REGION eu",
    "variables allow": "TOKEN https://api.example",
    "variables remove": "REGION",
    "variables import": "variables.env",
    "tools list": "",
    "tools search": "a book",
    "tools export": "",
    "tools show": "library.searchBooks",
    "tools call": "library.searchBooks q=sea",
    "tools enable": "library.searchBooks",
    "tools disable": "library.searchBooks",
    "tools edit": "library.searchBooks --description Books",
    "tools history": "library.searchBooks",
    "toolsets list": "",
    "toolsets show": "support",
    "toolsets set": "support --title Support",
    "toolsets remove": "support --yes",
    "toolsets export": "",
    "toolsets import": "toolsets.json",
    "search synonyms list": "",
    "search synonyms show": ID,
    "search synonyms add": "voucher coupon",
    "search synonyms replace": f"{ID} voucher coupon",
    "search synonyms remove": ID,
    "search synonyms export": "",
    "search synonyms import": "synonyms.txt",
    "search pins list": "",
    "search pins show": ID,
    "search pins add": "'search books' --tool library.searchBooks",
    "search pins replace": f"{ID} 'search books' --tool library.searchBooks",
    "search pins remove": ID,
    "search pins export": "",
    "search pins import": "pins.json",
    "search usage show": "",
    "search usage delete": "--yes",
    "search usage queries": "",
    "recordings list": "",
    "recordings show": "checkout",
    "recordings create": "checkout",
    "recordings edit": "checkout --description Calls",
    "recordings delete": "checkout --yes",
    "recordings export": "checkout",
    "recordings import": "checkout recording.json",
    "recordings calls": "checkout",
    "recordings call": f"checkout {ID}",
    "recordings delete-call": f"checkout {ID}",
    "recordings run": "checkout",
    "agent-test": "test.yaml",
    "plugins list": "",
    "plugins show": "github",
    "plugins enable": "github --credential token=@secret.txt",
    "plugins disable": "github --yes",
    "executors list": "",
    "calls list": "",
    "calls envelope": ID,
    "calls show": ID,
    "calls tail": "",
    "stats": "",
    "approvals list": "",
    "approvals show": ID,
    "approvals result": ID,
    "approvals requirements": "",
    "approvals remove-requirement": f"{ID} --yes",
    "approvals approve": f"{ID} --yes",
    "approvals reject": ID,
    "events list": "",
    "keys create": "agent --scope tools:call",
    "keys list": "",
    "keys show": KEY_ID,
    "keys edit": f"{KEY_ID} --name agent",
    "keys rotate": KEY_ID,
    "keys revoke": f"{KEY_ID} --yes",
    "me": "",
    "sign-in-link": "",
    "explain": "library.searchBooks",
    "settings": "",
    "support-bundle": "",
    "export": "",
    "import": "export.json",
}
OF_PROVIDERS = {"providers", "credentials", "variables", "plugins", "executors"}
OF_TOOLS = {"tools", "toolsets", "search", "explain"}
#: `calls tail` ends with an error only.
STREAM_END = b'event: gateway-error\ndata: {"title": "Forbidden", "status": 403}\n\n'
#: A value for each option; flags need none.
VALUES = {
    "--after-last": "error",
    "--ignore": "/requested_at",
    "--source": "recording",
    "--action": "updated",
    "--actor": KEY_ID,
    "--schemas": "full",
    "--argument-repair": "safe",
    "--arguments": '{"q": "sea"}',
    "--api-key": "qwen3=@secret.txt",
    "--base-url": "https://api.example/v2",
    "--comment": "Ordered by phone.",
    "--credential": "token=@secret.txt",
    "--cursor": "b3BhcXVl",
    "--origin": "https://api.example",
    "--description": "Books",
    "--document": "overlay.yaml",
    "--exclude": "library.getStock",
    "--executor": "orders",
    "--expand-to": "kubernetes",
    "--expires": "30d",
    "--format": "anthropic",
    "--group": "provider",
    "--header-input": "q=Query",
    "--if-match": '"1"',
    "--interface": "rest",
    "--interval": "hour",
    "--junit": "results.xml",
    "--key-id": KEY_ID,
    "--keyword": "voucher",
    "--kind": "call",
    "--language": "pt-BR",
    "--limit": "3",
    "--limits": '{"concurrency": 4}',
    "--max-bytes": "5000",
    "--max-tokens": "1000",
    "--mode": "search",
    "--model": "gpt-4o",
    "--name": "library",
    "--object-name": "library",
    "--object-type": "provider",
    "--options": '{"responses": null}',
    "--outcome": "ok",
    "--overlap": "24h",
    "--overlay": "overlay.yaml",
    "--owner": "team",
    "--pin": "library.searchBooks",
    "--preset": "library.searchBooks:limit=5",
    "--provider": "library",
    "--purpose": "Answers questions.",
    "--also": "lend a book",
    "--q": "a book",
    "--query": "book",
    "--rate": "100/60:20",
    "--rename": "library.searchBooks=find_books",
    "--repeat": "2",
    "--response-options": "null",
    "--revert": "description",
    "--root": "api/openapi.yaml",
    "--scope": "tools:call",
    "--search": "books",
    "--allow-origin": "https://api.example",
    "--redirect-origin": "https://docs.example",
    "--secret": "@secret.txt",
    "--server": "0",
    "--server-variable": "region=eu",
    "--since": "2h",
    "--setting": "base_url=https://github.example.com",
    "--slower-than": "100",
    "--status": "200",
    "--strict": "auto",
    "--tag": "books",
    "--title": "Support",
    "--tool": "library.searchBooks",
    "--toolset": "support",
    "--until": "30m",
    "--upstream-status": "200",
    "--file": "definition.json",
}
_CREDENTIAL = "library slot --secret @secret.txt --yes --kind"
_OAUTH2 = f"{_CREDENTIAL} oauth2 --client-id agent --token-url https://id.example/token"
_AWS = f"{_CREDENTIAL} aws_sigv4 --access-key-id AKID --region eu --service s3"
_GRANT = f"{_OAUTH2} --grant-type jwt_bearer --issuer agent --subject user"
#: All arguments, where an option cannot stand beside those of BASE.
INSTEAD = {
    ("credentials set", "--kind"): [
        f"{_CREDENTIAL} api_key --location header --name X-Key", f"{_CREDENTIAL} basic --username u",
        f"{_CREDENTIAL} digest --username u", f"{_CREDENTIAL} hmac --key-id k --recipe '{{\"headers\": {{\"X-S\": \"{{signature}}\"}}}}'",
        f"{_CREDENTIAL} static --location header --name X-Key",
        f"{_CREDENTIAL} google_service_account --scope a --subject user",
    ],
    ("credentials set", "--location"): [],
    ("credentials set", "--name"): [],
    ("credentials set", "--username"): [],
    ("credentials set", "--recipe"): [],
    ("credentials set", "--key-id"): [],
    ("credentials set", "--client-id"): [_OAUTH2],
    ("credentials set", "--token-url"): [],
    ("credentials set", "--scheme"): [f"{_CREDENTIAL} bearer --scheme Token"],
    ("credentials set", "--metadata-url"): [
        f"{_CREDENTIAL} oauth2 --client-id agent --metadata-url https://id.example/.well-known/openid-configuration"
    ],
    ("credentials set", "--scope"): [f"{_OAUTH2} --scope read"],
    ("credentials set", "--audience"): [f"{_OAUTH2} --audience api"],
    ("credentials set", "--resource"): [f"{_OAUTH2} --resource https://api.example/"],
    ("credentials set", "--grant-type"): [f"{_OAUTH2} --grant-type refresh_token"],
    ("credentials set", "--token-endpoint-auth-method"): [
        f"{_OAUTH2} --token-endpoint-auth-method client_secret_post"
    ],
    ("credentials set", "--client-secret"): [
        f"{_OAUTH2} --grant-type refresh_token --client-secret @secret.txt"
    ],
    ("credentials set", "--private-key"): [
        f"{_OAUTH2} --grant-type refresh_token --token-endpoint-auth-method private_key_jwt --private-key @secret.txt"
    ],
    ("credentials set", "--issuer"): [_GRANT],
    ("credentials set", "--subject"): [],
    ("credentials set", "--access-key-id"): [_AWS],
    ("credentials set", "--region"): [],
    ("credentials set", "--service"): [],
    ("credentials set", "--session-token"): [f"{_AWS} --session-token @secret.txt"],
    ("providers add", "--strict"): [f"{BASE['providers add']} --strict"],
    ("toolsets set", "--file"): ["support --file definition.json"],
    **{
        (command, option): [f"{arguments} --upstream-mode {mode}"]
        for command, arguments in (
            ("keys create", "agent --scope tools:call"), ("keys edit", KEY_ID), ("toolsets set", "support"),
        )
        for option, mode in (
            ("--upstream-mode", "live"), ("--recording", "replay --recording checkout"),
            ("--mock-seed", "mock --mock-seed 7"),
        )
    },
    ("tools call", "--arguments"): ["library.searchBooks --arguments '{}'"],
    ("tools disable", "--provider"): ["--provider library"],
    ("tools disable", "--tag"): ["--tag books"],
    ("tools enable", "--provider"): ["--provider library"],
    ("tools enable", "--tag"): ["--tag books"],
    ("plugins enable", "--credential-env"): ["github --credential-env token=PATH"],
    ("variables set", "--secret"): ["REGION --secret @secret.txt"],
}  # fmt: skip
WITHOUT_REQUESTS = {"serve", "bootstrap", "migrate", "openapi check"}


def leaves(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield each command below `command` with its words."""
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
        return
    for name, each in below.items():
        yield from leaves(each, f"{path} {name}")


def all_commands() -> dict[str, Any]:
    return dict(each for name in COMMANDS for each in leaves(load_command(name), name))


def test_each_command_has_a_case() -> None:
    assert set(all_commands()) - WITHOUT_REQUESTS == set(BASE)


@pytest.fixture(scope="module")
def served() -> Iterator[ContractServer]:
    with serve_contract() as server:
        yield server


@pytest.fixture
def server(served: ContractServer) -> ContractServer:
    served.clear()
    return served


@pytest.fixture
def files(clean_environment: None, tmp_path: Path, served: ContractServer) -> None:
    """The files that arguments name, in the working directory."""
    exported = example(served.contract.operation("GET", "/export"), "")[2]
    toolset = {"name": "support", "title": "Support", "description": "", "definition": {"tools": ["a.b"]}}
    template = {"name": "library", "call_template_type": "http", "url": "https://api.example"}
    for name, content in {
        "definition.json": b'{"tools": ["library.searchBooks"]}',
        "export.json": exported,
        "overlay.yaml": b"overlay: 1.0.0\n",
        "providers.json": orjson.dumps({"manual_call_templates": [template]}),
        "recording.json": b'{"format": "utcp-gateway-recording/1", "interactions": []}',
        "secret.txt": b"secret",
        "test.yaml": b"input: Hi\nmodels: [{model: qwen3, dialect: openai-chat, base_url: 'https://m.example/v1'}]\n",
        "pins.json": b'{"pins": [{"query": "a book", "tools": ["library.searchBooks"], "toolset": null}]}',
        "synonyms.txt": b"voucher, coupon\n",
        "toolsets.json": orjson.dumps({"toolsets": [toolset]}),
        "variables.env": b"REGION=eu\n",
    }.items():
        (tmp_path / name).write_bytes(content)


def argument_lists(command: str, server: ContractServer) -> Iterator[str]:
    """Yield the arguments of BASE, then these with each option of the command."""
    yield BASE[command]
    operation = server.contract.find(server.requests[0])
    for option in all_commands()[command].params:
        if option.param_type_name != "option" or option.name == "help":
            continue
        for name in (option.opts[0], *option.secondary_opts):
            if (command, name) in INSTEAD:
                yield from INSTEAD[command, name]
            elif option.is_flag:
                yield f"{BASE[command]} {name}"
            else:
                # Each list has its own fields and states.
                value = operation.values(option.name) if name in {"--sort", "--state"} else [VALUES[name]]
                yield f"{BASE[command]} {name} {shlex.quote(value[0])}"


def commands_of(groups: set[str]) -> list[str]:
    return [command for command in BASE if command.split()[0] in groups]


def check_requests(server: ContractServer, command: str) -> None:
    """Run the command with each of its options, and compare what arrives with the contract."""
    server.clear()
    server.responses["GET /calls/stream"] = (200, "text/event-stream", STREAM_END)
    environment = {"UTCP_GATEWAY_URL": server.url, "UTCP_GATEWAY_KEY": "ugw_key"}
    for arguments in argument_lists(command, server):
        sent = len(server.requests)
        ran = CliRunner().invoke(app, [*command.split(), *shlex.split(arguments)], env=environment)
        shown = f"{command} {arguments}: {ran.output}"
        assert len(server.requests) > sent, shown
        assert (server.errors, ran.exit_code) == ([], 1 if command == "calls tail" else 0), shown


# Three tests, because one would take too long.


@pytest.mark.usefixtures("files")
@for_each("command", commands_of(OF_PROVIDERS))
def test_requests_about_providers_are_those_of_the_contract(server: ContractServer, command: str) -> None:
    check_requests(server, command)


@pytest.mark.usefixtures("files")
@for_each("command", commands_of(OF_TOOLS))
def test_requests_about_tools_are_those_of_the_contract(server: ContractServer, command: str) -> None:
    check_requests(server, command)


@pytest.mark.usefixtures("files")
@for_each("command", commands_of({command.split()[0] for command in BASE} - OF_PROVIDERS - OF_TOOLS))
def test_requests_of_other_commands_are_those_of_the_contract(server: ContractServer, command: str) -> None:
    check_requests(server, command)
