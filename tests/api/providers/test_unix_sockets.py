"""Providers behind a Unix socket, which only the operator's setting allows."""

from pathlib import Path

from aiohttp import web

from .conftest import served

TEMPLATE = {"call_template_type": "http", "http_method": "GET", "url": "http://localhost/info"}


async def test_a_provider_names_a_socket_that_the_operator_allows(servers, tmp_path: Path):
    path = str(tmp_path / "api.sock")

    async def respond(request: web.Request) -> web.Response:
        return web.json_response({"path": request.raw_path})

    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", respond)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.UnixSite(runner, path).start()
    try:
        async with served(servers, allow_networks=(), unix_sockets=(path,)) as running:
            admin = await running.client("admin")
            for name in ("local", "other"):
                body = {"provider": name, "name": "info", "call_template": TEMPLATE}
                assert (await admin.post("/tools", json=body)).status_code == 201
            for name, named in (("local", path), ("other", "/run/docker.sock")):
                patched = await admin.patch(f"/providers/{name}", json={"options": {"unix_socket": named}})
                assert patched.status_code == 200, patched.text
            found = await admin.post("/tools/local.info/call", json={})
            assert found.json() == {"path": "/info"}
            denied = await admin.post("/tools/other.info/call", json={})
            assert denied.json()["type"].endswith("blocked-address")
            checked = (await admin.post("/providers/local/check", json={})).json()
            assert checked["origins"][0]["status"] == "ok"
            wrong = await admin.patch("/providers/local", json={"options": {"unix_socket": "relative.sock"}})
            assert wrong.status_code == 422
    finally:
        await runner.cleanup()


async def test_only_keys_that_may_write_credentials_name_a_socket(gateway_app, admin):
    body = {"provider": "local", "name": "info", "call_template": TEMPLATE}
    assert (await admin.post("/tools", json=body)).status_code == 201
    writer = await gateway_app.client("providers:read", "providers:write")
    denied = await writer.patch("/providers/local", json={"options": {"unix_socket": "/run/docker.sock"}})
    assert denied.status_code == 403
    assert denied.json()["errors"][0]["pointer"].endswith("/options/unix_socket")


async def test_a_provider_behind_a_socket_is_not_called_directly(admin):
    body = {"provider": "local", "name": "info", "call_template": TEMPLATE}
    assert (await admin.post("/tools", json=body)).status_code == 201
    for options, count in (
        ({}, 1), ({"unix_socket": "/run/api.sock"}, 0), ({"unix_socket": "/run/api.sock", "direct": True}, 1),
    ):  # fmt: skip
        assert (await admin.patch("/providers/local", json={"options": options})).status_code == 200
        assert len((await admin.get("/utcp?mode=direct")).json()["tools"]) == count
