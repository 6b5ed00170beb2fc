"""Results that a plugin shapes, recorded, replayed and mocked."""

import base64
import hashlib

from tests.api.plugins.conftest import CANARY


async def test_shaped_results_are_replayed_and_mocked_in_their_shape(api, admin, vendor) -> None:
    body = {"settings": {"base_url": vendor.url}, "credentials": {"token": CANARY}}
    assert (await admin.put("/plugins/github", json=body)).status_code == 201
    assert (await admin.post("/recordings", json={"name": "r"})).status_code == 201
    text = "import os\n"
    vendor.body = {
        "type": "file",
        "path": "a.py",
        "encoding": "base64",
        "content": base64.b64encode(text.encode()).decode(),
        "sha": hashlib.sha1(text.encode()).hexdigest(),
        "size": len(text),
    }
    agent = await api.client("tools:read", "tools:call")
    found = {}
    for mode in ("record", "replay", "mock"):
        upstream = {"mode": mode} | ({} if mode == "mock" else {"recording": "r"})
        definition = {"providers": ["github"], "upstream": upstream}
        made = await admin.put(f"/toolsets/{mode}", json={"definition": definition})
        assert made.status_code == 201, made.text
        [member] = (await agent.get(f"/toolsets/{mode}")).json()["members"]
        sent = {"owner": "o", "repo": "r", "path": "a.py"}
        path = f"/toolsets/{mode}/tools/{member['name']}/call"
        found[mode] = await agent.post(path, json=sent)
        assert found[mode].status_code == 200, found[mode].text
    assert len(vendor.requests) == 1
    assert found["record"].json()["content"] == text
    assert found["replay"].content == found["record"].content
    mocked = found["mock"].json()
    assert set(mocked) == {"path", "content", "sha", "size"}
    assert isinstance(mocked["size"], int)
