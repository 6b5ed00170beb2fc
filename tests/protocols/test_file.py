"""Files below an opened folder, and links that lead out of it."""

import asyncio
import os
from pathlib import Path

import pytest

from app.core.errors import (
    BlockedAddress,
    GatewayError,
    InvalidInput,
    ResponseTooLarge,
    UpstreamUnreachable,
)
from app.core.settings import Settings
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.protocols.base import AdapterContext, Call
from app.protocols.file.adapter import FileAdapter
from app.security.masking import Masker


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    opened = tmp_path / "opened"
    opened.mkdir()
    (opened / "a.txt").write_text("content ${NOT_A_VARIABLE}")
    (tmp_path / "secret.txt").write_text("secret")
    return opened


@pytest.fixture
def adapter(engine: Engine, masker: Masker, folder: Path) -> FileAdapter:
    settings = Settings(_env_file=None, file_folders=(str(folder),))
    return FileAdapter(AdapterContext(engine, engine.network, masker, settings))


async def read(adapter: FileAdapter, path: object, **limits: int) -> bytes:
    target = adapter.prepare({"call_template_type": "file", "file_path": str(path)})
    now = asyncio.get_running_loop().time()
    result = await adapter.call(Call(target, {}, (), now + 5, Limits(**limits), "id"))
    return await result.read()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_file_is_read_as_it_is(adapter: FileAdapter, folder: Path) -> None:
    assert await read(adapter, folder / "a.txt") == b"content ${NOT_A_VARIABLE}"


async def test_links_lead_to_what_is_opened_only(adapter: FileAdapter, folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "inside").symlink_to(folder / "a.txt")
    (folder / "outside").symlink_to(folder.parent / "secret.txt")
    (folder / "up").symlink_to(folder.parent)
    (folder / "sub" / "chain").symlink_to("../outside")
    assert await read(adapter, folder / "inside") == b"content ${NOT_A_VARIABLE}"
    for name in ("outside", "up/secret.txt", "sub/chain"):
        with pytest.raises(BlockedAddress) as caught:
            await read(adapter, folder / name)
        assert "secret" not in caught.value.detail


async def test_what_is_no_file_is_not_read(adapter: FileAdapter, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "sub").mkdir()
    held = descriptors()
    for name in ("pipe", "sub", "missing", "a.txt/b", "."):
        with pytest.raises(GatewayError) as caught:
            await read(adapter, folder / name)
        assert isinstance(caught.value, BlockedAddress | UpstreamUnreachable)
    assert descriptors() == held


@pytest.mark.parametrize("path", ["a.txt", "/etc/../etc/passwd", "", "../a.txt", "/x\x00y"])
async def test_paths_that_nobody_means_are_rejected_at_once(adapter: FileAdapter, path: str) -> None:
    with pytest.raises(InvalidInput):
        adapter.prepare({"call_template_type": "file", "file_path": path})


@pytest.mark.parametrize("path", ["/etc/passwd", "/proc/self/environ", "/dev/zero"])
async def test_paths_elsewhere_are_blocked(adapter: FileAdapter, path: str) -> None:
    with pytest.raises(BlockedAddress):
        await read(adapter, path)


async def test_a_large_file_is_rejected(adapter: FileAdapter, folder: Path) -> None:
    (folder / "large").write_bytes(b"x" * 5000)
    with pytest.raises(ResponseTooLarge):
        await read(adapter, folder / "large", response_bytes=4096)


async def test_without_a_folder_nothing_is_served(engine: Engine, masker: Masker) -> None:
    adapter = FileAdapter(AdapterContext(engine, engine.network, masker, Settings(_env_file=None)))
    with pytest.raises(InvalidInput) as caught:
        adapter.prepare({"call_template_type": "file", "file_path": "/etc/passwd"})
    assert "FILE_FOLDERS" in caught.value.errors[0].detail
