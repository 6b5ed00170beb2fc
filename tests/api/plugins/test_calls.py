"""The plugins at work: files, repositories, the web and a database, by each interface alike."""

import asyncio
import base64
from typing import Any

import asyncpg
import pytest

from app.storage.database import asyncpg_dsn
from tests.api.plugins.conftest import CANARY
from tests.protocols.peers.postgres import postgres_port

DENIED = "Access denied: path not allowed"


@pytest.fixture
async def agent(api):
    return await api.client("tools:read", "tools:call")


async def call(client, plugin: str, tool: str, arguments: Any, **headers: str) -> Any:
    return await client.post(f"/toolsets/{plugin}/tools/{tool}/call", json=arguments, headers=headers)


async def test_files_are_read_and_written_below_the_root_only(admin, agent, workspace) -> None:
    evil = workspace.parent / "prpm-test-evil"
    await asyncio.to_thread(evil.mkdir, exist_ok=True)
    (workspace / "link").symlink_to(evil)
    assert (
        await admin.put("/plugins/filesystem", json={"settings": {"root": str(workspace)}})
    ).status_code == 201
    path = f"{workspace}/notes.txt"
    written = await call(agent, "filesystem", "write_file", {"path": path, "content": "Grüße 👋"})
    assert written.json() == {"path": path, "bytes_written": 12}
    read = await call(agent, "filesystem", "read_file", {"path": "notes.txt"})
    assert read.json() == {"path": "notes.txt", "content": "Grüße 👋", "size": 12}
    for wrong in (f"{evil}/a", "../prpm-test-evil/a", "link/a", "/etc/passwd"):
        for tool, more in (("read_file", {}), ("write_file", {"content": "x"})):
            denied = await call(agent, "filesystem", tool, {"path": wrong, **more})
            assert (denied.status_code, denied.json()["detail"]) == (403, DENIED)
    assert list(evil.iterdir()) == []


async def test_what_a_model_gets_of_a_denied_path(admin, agent, workspace) -> None:
    await admin.put("/plugins/filesystem", json={"settings": {"root": str(workspace)}})
    calls = [
        {
            "id": "1",
            "type": "function",
            "function": {"name": "read_file", "arguments": '{"path": "/etc/passwd"}'},
        }
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    response = await agent.post("/toolsets/filesystem/tool-calls", json=message)
    assert response.status_code == 200, response.text
    assert DENIED in response.text
    assert "root:" not in response.text


async def test_effects_are_told_to_clients(admin, agent, workspace) -> None:
    await admin.put("/plugins/filesystem", json={"settings": {"root": str(workspace)}})
    members = (await agent.get("/toolsets/filesystem")).json()["members"]
    assert {one["name"]: one["read_only"] for one in members} == {"read_file": True, "write_file": False}


async def test_an_error_of_the_agent_does_not_pause_the_plugin(admin, agent, workspace) -> None:
    await admin.put("/plugins/filesystem", json={"settings": {"root": str(workspace), "max_bytes": 5}})
    (workspace / "large").write_text("x" * 6)
    for _ in range(12):
        assert (await call(agent, "filesystem", "read_file", {"path": "large"})).status_code == 502
    (workspace / "small").write_text("x")
    assert (await call(agent, "filesystem", "read_file", {"path": "small"})).status_code == 200


async def test_a_file_of_a_repository(admin, agent, vendor) -> None:
    body = {"settings": {"base_url": vendor.url}, "credentials": {"token": CANARY}}
    await admin.put("/plugins/github", json=body)
    text = "import os\n" * 2_000
    content = base64.encodebytes(text.encode()).decode()
    vendor.body = {"type": "file", "encoding": "base64", "content": content, "sha": "abc", "size": len(text)}
    arguments = {"owner": "o", "repo": "r", "path": "src/a b.py", "ref": "v1"}
    found = await call(agent, "github", "github_get_file", arguments)
    assert found.json() == {"path": "src/a b.py", "content": text, "sha": "abc", "size": len(text)}
    assert vendor.requests[-1]["target"] == "/repos/o/r/contents/src%2Fa%20b.py?ref=v1"
    streamed = await call(agent, "github", "github_get_file", arguments, Accept="text/event-stream")
    assert "import os" in streamed.text
    vendor.body = [{"type": "file", "name": "a.py"}]
    folder = await call(agent, "github", "github_get_file", {**arguments, "path": "src"})
    assert (folder.status_code, folder.json()["detail"]) == (422, "Path is not a file")
    assert folder.json()["errors"][0]["pointer"] == "/path"


async def test_a_secret_that_is_encoded_in_a_response_is_masked(admin, agent, vendor) -> None:
    body = {"settings": {"base_url": vendor.url}, "credentials": {"token": CANARY}}
    await admin.put("/plugins/github", json=body)
    content = base64.b64encode(f"GITHUB_TOKEN={CANARY}\n".encode()).decode()
    vendor.body = {"encoding": "base64", "content": content, "sha": "1", "size": 1}
    await admin.patch("/providers/github", json={"limits": {"cache": {"seconds": 60, "default_seconds": 60}}})
    for _ in range(2):
        found = await call(agent, "github", "github_get_file", {"owner": "o", "repo": "r", "path": "p"})
        assert CANARY not in found.text
        # Either the text is masked, or what was masked cannot be decoded any more.
        assert found.status_code == 502 or found.json()["content"].startswith("GITHUB_TOKEN=")


async def test_what_github_sends_otherwise_is_an_error(admin, agent, vendor) -> None:
    body = {"settings": {"base_url": vendor.url}, "credentials": {"token": CANARY}}
    await admin.put("/plugins/github", json=body)
    arguments = {"owner": "o", "repo": "r", "path": "p"}
    for body, status in (
        ({"encoding": "base64", "content": "no base64!"}, 502),
        ({"encoding": "none", "content": ""}, 422),
    ):
        vendor.body, vendor.headers = body, {}
        found = await call(agent, "github", "github_get_file", arguments)
        assert found.status_code == status, found.text
    vendor.status, vendor.body = 404, {"message": "Not Found"}
    missing = await call(agent, "github", "github_get_file", arguments)
    assert (missing.status_code, "Not Found" in missing.json()["detail"]) == (404, True)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (429, "Too Many Requests"),
        (500, "Internal Server Error"),
        (422, "Unprocessable"),
        (401, "Unauthorized"),
    ],
)
async def test_a_search_that_fails_says_so(admin, agent, vendor, status: int, text: str) -> None:
    body = {"settings": {"base_url": vendor.url}, "credentials": {"key": CANARY}}
    await admin.put("/plugins/brave-search", json=body)
    vendor.status = status
    found = await call(agent, "brave-search", "web_search", {"query": "cats"})
    assert found.json()["detail"].startswith(f"Search failed: {text}")
    assert vendor.requests[-1]["headers"]["X-Subscription-Token"] == CANARY
    assert CANARY not in found.text


async def test_a_count_is_checked_before_anything_is_sent(admin, agent, vendor) -> None:
    body = {"settings": {"base_url": vendor.url}, "credentials": {"key": CANARY}}
    await admin.put("/plugins/brave-search", json=body)
    for count in (0, 21, 1.5, "many"):
        assert (
            await call(agent, "brave-search", "web_search", {"query": "x", "count": count})
        ).status_code == 422
    assert vendor.requests == []
    await call(agent, "brave-search", "web_search", {"query": "a&b=c #d", "count": 20})
    await call(agent, "brave-search", "web_search", {"query": "x"})
    assert [one["target"] for one in vendor.requests] == [
        "/res/v1/web/search?q=a%26b%3Dc%20%23d&count=20", "/res/v1/web/search?q=x&count=10",
    ]  # fmt: skip


async def test_a_database_is_queried_as_a_role_that_reads(api, admin, agent, servers) -> None:
    dsn = await asyncio.to_thread(servers.create_database, migrated=False)
    connection = await asyncpg.connect(asyncpg_dsn(dsn))
    await connection.execute(
        f"CREATE ROLE plugin_reader LOGIN PASSWORD '{CANARY}'; CREATE TABLE orders (id int, status text, total numeric); "
        "INSERT INTO orders VALUES (123, 'Shipped', 0.1000000000000000000000000001); GRANT SELECT ON orders TO plugin_reader"
    )
    try:
        async with postgres_port(dsn) as port:
            name = asyncpg_dsn(dsn).partition("?")[0].rpartition("/")[2]
            url = f"postgresql://plugin_reader:{CANARY}@127.0.0.1:{port}/{name}?sslmode=disable"
            enabled = await admin.put(
                "/plugins/postgres", json={"credentials": {"database": url}, "settings": {"max_rows": 2}}
            )
            assert enabled.status_code == 201, enabled.text
            found = await call(
                agent, "postgres", "execute_query", {"query": "SELECT * FROM orders WHERE id = 123"}
            )
            assert (
                '"rows":[{"id":123,"status":"Shipped","total":0.1000000000000000000000000001}]' in found.text
            )
            many = await call(
                agent, "postgres", "execute_query", {"query": "SELECT generate_series(1, 9) AS n"}
            )
            assert (many.json()["row_count"], many.json()["truncated"]) == (2, True)
            denied = await call(
                agent, "postgres", "execute_query", {"query": "DELETE FROM orders RETURNING id"}
            )
            assert denied.status_code == 400, denied.text
            shown = "".join(
                [
                    (await admin.get(path)).text
                    for path in (
                        "/plugins/postgres", "/providers/postgres", "/tools/postgres.execute_query", "/events",
                        "/providers/postgres/variables", "/export", "/utcp", "/calls", "/toolsets/postgres",
                    )
                ]
            )  # fmt: skip
            assert CANARY not in shown + enabled.text + denied.text
            assert "plugin_reader" not in shown
            dry = await agent.post(
                "/toolsets/postgres/tools/execute_query/call?dry_run=true", json={"query": "SELECT 1"}
            )
            assert CANARY not in dry.text
    finally:
        await connection.execute("DROP OWNED BY plugin_reader; DROP ROLE plugin_reader")
        await connection.close()
        await asyncio.to_thread(servers.drop_database, dsn)


async def test_a_query_that_may_have_run_is_sent_once(api, admin, agent, servers) -> None:
    """It would occupy the server again, and fail again; a connection that is refused is tried again."""
    dsn = await asyncio.to_thread(servers.create_database, migrated=False)
    connection = await asyncpg.connect(asyncpg_dsn(dsn))
    await connection.execute(f"CREATE ROLE plugin_sleeper LOGIN PASSWORD '{CANARY}'")
    try:
        async with postgres_port(dsn) as port:
            name = asyncpg_dsn(dsn).partition("?")[0].rpartition("/")[2]
            url = f"postgresql://plugin_sleeper:{CANARY}@127.0.0.1:{port}/{name}?sslmode=disable"
            body = {"credentials": {"database": url}, "settings": {"timeout": 200}}
            assert (await admin.put("/plugins/postgres", json=body)).status_code == 201
            late = await call(agent, "postgres", "execute_query", {"query": "SELECT pg_sleep(60)"})
            assert (late.status_code, late.json()["retryable"]) == (504, False), late.text
            assert "timeout" in late.json()["hint"]
            broken = await call(
                agent,
                "postgres",
                "execute_query",
                {"query": "SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(60)"},
            )
            assert broken.status_code in (400, 502), broken.text
        unreachable = await call(agent, "postgres", "execute_query", {"query": "SELECT 1"})
        assert (unreachable.status_code, unreachable.json()["retryable"]) == (502, True), unreachable.text
        refused, *sent = [record["attempts"] for record in await api.calls()]
        assert refused > 1
        assert sent == [1, 1]
    finally:
        await connection.execute("DROP ROLE plugin_sleeper")
        await connection.close()
        await asyncio.to_thread(servers.drop_database, dsn)


async def test_tools_of_plugins_are_not_given_out_for_direct_calls(admin, vendor, workspace) -> None:
    await admin.put("/plugins/filesystem", json={"settings": {"root": str(workspace)}})
    await admin.put("/plugins/brave-search", json={"credentials": {"key": CANARY}})
    manual = await admin.get("/utcp", params={"mode": "direct", "protocol": "http"})
    assert manual.status_code == 200
    assert "read_file" not in manual.text
    assert "web_search" not in manual.text
