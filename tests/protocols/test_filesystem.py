"""The protocol `filesystem`: nothing outside of its root is read or written, by any path, link or race."""

import os
import shutil
import socket
import threading
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.core.errors import (
    BlockedAddress,
    InvalidArguments,
    InvalidInput,
    ResponseTooLarge,
    UpstreamUnreachable,
)
from app.core.settings import Settings
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.protocols.base import AdapterContext
from app.protocols.filesystem.adapter import FilesystemAdapter
from app.security.masking import Masker
from tests.harness.cases import for_each
from tests.protocols.calling import call_of

DENIED = "Access denied: path not allowed"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "prpm-test"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("Grüße 👋")
    (folder / "sub" / "b.txt").write_text("b")
    (tmp_path / "secret.txt").write_text("secret")
    evil = tmp_path / "prpm-test-evil"
    evil.mkdir()
    (evil / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def adapter(engine: Engine, masker: Masker, root: Path) -> FilesystemAdapter:
    return adapter_with(engine, masker, root)


def adapter_with(engine: Engine, masker: Masker, *folders: Path) -> FilesystemAdapter:
    settings = Settings(_env_file=None, filesystem_folders=tuple(map(str, folders)))
    return FilesystemAdapter(AdapterContext(engine, engine.network, masker, settings))


def template(operation: str, root: object, **more: Any) -> dict[str, Any]:
    return {"call_template_type": "filesystem", "operation": operation, "root": str(root), **more}


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def names_in(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def remove(folder: Path) -> None:
    shutil.rmtree(folder)


async def read(adapter: FilesystemAdapter, root: Path, path: object, **more: Any) -> Any:
    call = call_of(adapter, template("read", root, **more), {"path": str(path)})
    return orjson.loads(await (await adapter.call(call)).read())


async def write(adapter: FilesystemAdapter, root: Path, path: object, content: str, **more: Any) -> Any:
    call = call_of(adapter, template("write", root, **more), {"path": str(path), "content": content})
    return orjson.loads(await (await adapter.call(call)).read())


async def test_sizes_are_counted_in_bytes(adapter: FilesystemAdapter, root: Path) -> None:
    path = str(root / "a.txt")
    assert await read(adapter, root, path) == {"path": path, "content": "Grüße 👋", "size": 12}
    assert await write(adapter, root, "sub/new.txt", "né👋") == {"path": "sub/new.txt", "bytes_written": 7}
    assert (root / "sub" / "new.txt").read_text() == "né👋"


@for_each(
    "path",
    ["a.txt", "./a.txt", "sub/../a.txt", "//a.txt", "{root}/a.txt", "{root}/sub/../a.txt", "sub//b.txt"],
)
async def test_paths_below_the_root(adapter: FilesystemAdapter, root: Path, path: str) -> None:
    if path == "//a.txt":
        with pytest.raises(BlockedAddress):
            await read(adapter, root, path)
        return
    assert (await read(adapter, root, path.format(root=root)))["path"] == path.format(root=root)


@for_each(
    "path",
    [
        "../secret.txt", "sub/../../secret.txt", "{root}/../secret.txt", "{root}-evil/secret.txt",
        "{root}/../prpm-test-evil/secret.txt", "/etc/passwd", "..", "a.txt/../../secret.txt", "a\x00.txt",
        "{parent}", "/proc/self/root/etc/passwd", "./../prpm-test-evil/secret.txt",
    ],
)  # fmt: skip
@for_each("operation", ["read", "write"])
async def test_paths_that_lead_out_of_the_root(
    adapter: FilesystemAdapter, root: Path, path: str, operation: str
) -> None:
    given = path.format(root=root, parent=root.parent)
    with pytest.raises(BlockedAddress) as raised:
        await (read(adapter, root, given) if operation == "read" else write(adapter, root, given, "x"))
    assert raised.value.detail == DENIED
    assert (root.parent / "secret.txt").read_text() == "secret"
    assert (root.parent / "prpm-test-evil" / "secret.txt").read_text() == "secret"


async def test_no_link_is_followed(adapter: FilesystemAdapter, root: Path) -> None:
    (root / "file").symlink_to(root.parent / "secret.txt")
    (root / "inside").symlink_to(root / "a.txt")
    (root / "folder").symlink_to(root.parent)
    (root / "up").symlink_to("..")
    (root / "dangling").symlink_to(root.parent / "created.txt")
    for path in ("file", "inside", "folder/secret.txt", "up/secret.txt", "dangling", f"{root}/file"):
        with pytest.raises(BlockedAddress) as raised:
            await read(adapter, root, path)
        assert raised.value.detail == DENIED
        with pytest.raises(BlockedAddress):
            await write(adapter, root, path, "overwritten")
    assert (root.parent / "secret.txt").read_text() == "secret"
    assert not (root.parent / "created.txt").exists()
    assert (root / "a.txt").read_text() == "Grüße 👋"


async def test_a_folder_that_is_swapped_for_a_link_during_calls_leads_nowhere(
    adapter: FilesystemAdapter, root: Path
) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "b.txt").write_text("secret")
    real, link = root / "real", root / "link"
    (root / "sub").rename(real)
    link.symlink_to(outside)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for target in (real, link):
                target.rename(root / "sub")
                (root / "sub").rename(target)

    swapping = threading.Thread(target=swap)
    swapping.start()
    contents = set()
    try:
        for _ in range(300):
            for action in (read(adapter, root, "sub/b.txt"), write(adapter, root, "sub/c.txt", "mine")):
                try:
                    contents.add((await action).get("content"))
                except (BlockedAddress, InvalidArguments, UpstreamUnreachable):
                    contents.add("rejected")
    finally:
        stop.set()
        swapping.join()
    assert contents <= {"b", None, "rejected"}
    assert "rejected" in contents
    assert names_in(outside) == ["b.txt"]
    assert (outside / "b.txt").read_text() == "secret"


async def test_what_is_no_regular_file_is_not_opened(adapter: FilesystemAdapter, root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        address = root / "s"
        # The path of a socket has at most 107 bytes.
        if len(str(address)) < 100:
            listening.bind(str(address))
        held = descriptors()
        for name in ("pipe", *(["s"] if address.is_socket() else [])):
            for action in (read(adapter, root, name), write(adapter, root, name, "x")):
                with pytest.raises(BlockedAddress):
                    await action
        for name in ("sub", ".", "a.txt/", "sub/.."):
            with pytest.raises(InvalidArguments) as raised:
                await read(adapter, root, name)
            assert raised.value.detail == "Path is not a file"
        assert descriptors() == held


async def test_devices_are_not_opened(engine: Engine, masker: Masker) -> None:
    adapter = adapter_with(engine, masker, Path("/dev"))
    for path in ("null", "zero", "/dev/zero"):
        with pytest.raises(BlockedAddress):
            await read(adapter, Path("/dev"), path)
        with pytest.raises(BlockedAddress):
            await write(adapter, Path("/dev"), path, "x")


async def test_sizes_are_limited(adapter: FilesystemAdapter, root: Path) -> None:
    (root / "large").write_bytes(b"x" * 11)
    with pytest.raises(ResponseTooLarge) as raised:
        await read(adapter, root, "large", max_bytes=10)
    assert not raised.value.counts_for_breaker
    with pytest.raises(InvalidArguments) as rejected:
        await write(adapter, root, "a.txt", "é" * 6, max_bytes=11)
    assert rejected.value.errors[0].pointer == "/content"
    assert (root / "a.txt").read_text() == "Grüße 👋"
    limits = Limits(response_bytes=5)
    with pytest.raises(ResponseTooLarge):
        await adapter.call(call_of(adapter, template("read", root), {"path": "large"}, limits=limits))


async def test_a_file_that_is_no_text_is_rejected(adapter: FilesystemAdapter, root: Path) -> None:
    (root / "image").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(InvalidArguments, match="UTF-8"):
        await read(adapter, root, "image")


async def test_what_does_not_exist(adapter: FilesystemAdapter, root: Path) -> None:
    for action in (
        read(adapter, root, "missing"), read(adapter, root, "missing/b.txt"),
        write(adapter, root, "missing/b.txt", "x"), read(adapter, root, "x" * 300),
    ):  # fmt: skip
        with pytest.raises(InvalidArguments):
            await action
    remove(root)
    with pytest.raises(UpstreamUnreachable) as raised:
        await read(adapter, root, "a.txt")
    assert not raised.value.request_sent


async def test_a_write_replaces_the_whole_file_at_once_and_keeps_its_mode(
    adapter: FilesystemAdapter, root: Path
) -> None:
    (root / "a.txt").chmod(0o640)
    os.link(root / "a.txt", root / "other")
    await write(adapter, root, "a.txt", "new")
    assert (root / "a.txt").read_text() == "new"
    assert (root / "a.txt").stat().st_mode & 0o777 == 0o640
    # A hard link is another file afterwards.
    assert (root / "other").read_text() == "Grüße 👋"
    assert names_in(root) == ["a.txt", "other", "sub"]


async def test_a_failed_write_leaves_nothing(adapter: FilesystemAdapter, root: Path) -> None:
    with pytest.raises(InvalidArguments):
        await write(adapter, root, "sub", "x")
    assert names_in(root) == ["a.txt", "sub"]


async def test_the_root_is_what_the_operator_allows(
    engine: Engine, masker: Masker, root: Path, tmp_path: Path
) -> None:
    adapter = adapter_with(engine, masker, root)
    for given in (tmp_path, f"{root}-evil", "relative", f"{root}/../prpm-test-evil", "/"):
        with pytest.raises(InvalidInput) as raised:
            adapter.prepare(template("read", given))
        assert raised.value.errors[0].pointer == "/root"
    assert (await read(adapter, root / "sub", "b.txt"))["content"] == "b"
    with pytest.raises(BlockedAddress):
        await read(adapter, root / "sub", "../a.txt")
    without = adapter_with(engine, masker)
    with pytest.raises(InvalidInput) as raised:
        without.prepare(template("read", root))
    assert "FILESYSTEM_FOLDERS" in raised.value.errors[0].detail


async def test_a_root_that_becomes_a_link_is_not_followed_out(
    adapter: FilesystemAdapter, root: Path, tmp_path: Path
) -> None:
    inner = root / "sub"
    target = adapter.prepare(template("read", inner))
    (inner / "b.txt").unlink()
    inner.rmdir()
    inner.symlink_to(tmp_path)
    call = call_of(adapter, template("read", root), {"path": "secret.txt"})
    call.target = target
    with pytest.raises(BlockedAddress):
        await adapter.call(call)


async def test_a_folder_of_the_operator_may_be_a_link(engine: Engine, masker: Masker, root: Path) -> None:
    alias = root.parent / "alias"
    alias.symlink_to(root)
    adapter = adapter_with(engine, masker, alias)
    for path in ("a.txt", alias / "a.txt", root / "a.txt"):
        assert (await read(adapter, alias, path))["content"] == "Grüße 👋"
