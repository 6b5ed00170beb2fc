"""The encoding: all tools get vectors, changes are followed, one process encodes, and nothing unused stays."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import delete, func, select, update

from app.catalog.feed import ChangeFeed, ChangeNotice, record_change
from app.core.errors import Unavailable
from app.search.signals import make_tool_key
from app.search.vectors.encoder import TextEncoder
from app.search.vectors.encoding import Encoding, EncodingTimes
from app.search.vectors.folder import VectorFolder
from app.search.vectors.leadership import Leadership
from app.search.vectors.model_source import ModelError, find_model
from app.search.vectors.status import VectorStatus, read_status
from app.search.vectors.store import store_vectors
from app.search.vectors.tool_digests import ToolDigests
from app.search.vectors.vector_file import VectorFile
from app.storage.database import Database
from app.storage.models import Provider, SearchVectorRow, Tool
from tests.harness.cancelling import end_by_one_cancellation
from tests.harness.semantic_models import write_model
from tests.integration.search.vectors.waiting import until
from tests.stored import store_provider, store_tool


class CountingEncoder(TextEncoder):
    """The encoder, and how many texts it has encoded, and rejected."""

    texts = 0
    rejections = 0
    rejected: str | None = None
    """A word of the texts that it cannot encode."""

    def encode(self, text: str) -> Any:
        if self.rejected is not None and self.rejected in text:
            self.rejections += 1
            raise ModelError("The model cannot encode a text (MemoryError).")
        self.texts += 1
        return super().encode(text)


class Running:
    """A running encoding with its files."""

    def __init__(
        self,
        encoding: Encoding,
        encoder: CountingEncoder,
        reported: list[int],
        task: "asyncio.Task[None]",
    ) -> None:
        self.task = task
        self.encoding = encoding
        self.encoder = encoder
        self.reported = reported
        """The numbers of texts that were reported as rejected."""

    @property
    def status(self) -> VectorStatus | None:
        return read_status(self.encoding.folder.status)

    def compute_cosines(self, text: str, *tools: Tool) -> list[float | None]:
        file = VectorFile.open(self.encoding.folder.vectors)
        vector = TextEncoder(self.encoding.folder.source.graph, self.encoding.folder.source.tokenizer).encode(
            text
        )
        return file.compute_cosines(vector, [make_tool_key(tool.id) for tool in tools])

    async def ready(self, tools: int) -> None:
        await until(lambda: self.status == VectorStatus("ready", "model", tools, tools))


class CutDatabase:
    """A database whose connection is lost after `statements` more statements."""

    def __init__(self, database: Database, statements: int = 100) -> None:
        self.database = database
        self.statements = statements

    @asynccontextmanager
    async def read_session(self) -> AsyncIterator["CutDatabase"]:
        async with self.database.read_session() as self.session:
            yield self

    async def stream(self, statement: Any) -> Any:
        if not self.statements:
            raise Unavailable("The database cannot be reached.")
        self.statements -= 1
        return await self.session.stream(statement)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture
def start(registry, database_url, model, tmp_path):
    @asynccontextmanager
    async def start(
        data_dir: str = "data", rejected: str | None = None, **times: float
    ) -> AsyncIterator[Running]:
        source = find_model(model)
        assert source is not None
        encoder = CountingEncoder(source.graph, source.tokenizer)
        encoder.rejected = rejected
        feed = ChangeFeed(registry, listen_dsn=database_url, poll_seconds=60)
        leadership = Leadership(database_url, model=source.digest)
        reported: list[int] = []
        encoding = Encoding(
            registry, feed, leadership, encoder, VectorFolder.create(tmp_path / data_dir, source),
            EncodingTimes(**times), report_rejected=reported.append,
        )  # fmt: skip
        task = asyncio.create_task(encoding.run())
        try:
            yield Running(encoding, encoder, reported, task)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await feed.aclose()
            leadership.close()

    return start


@pytest.fixture
async def registry(registry):
    async def clear() -> None:
        async with registry.transaction() as session:
            await session.execute(delete(SearchVectorRow))

    await clear()
    yield registry
    await clear()


async def stored(registry) -> int:
    async with registry.read_session() as session:
        return (await session.execute(select(func.count()).select_from(SearchVectorRow))).scalar_one()


@pytest.fixture
async def shop(registry):
    provider = await store_provider(registry, "shop", title="Corner Shop")
    coupon = await store_tool(registry, provider, "createCoupon", description="create a coupon")
    book = await store_tool(registry, provider, "findBook", description="find a book in the library")
    return provider, coupon, book


async def test_all_tools_get_their_vectors(start, shop, registry) -> None:
    _, coupon, book = shop
    async with start() as running:
        await running.ready(2)
        exact = running.compute_cosines("Shop: create coupon. create a coupon", coupon, book)
        assert exact[0] == pytest.approx(1, abs=1e-3)
        assert exact[1] is not None
        assert exact[1] < 0.99
        # The second text, with the provider's title.
        assert running.compute_cosines("Corner Shop: create coupon. create a coupon", coupon) == [
            pytest.approx(1, abs=1e-3)
        ]
        assert await stored(registry) == 4


async def test_a_new_tool_and_a_new_description_follow(start, shop, registry) -> None:
    provider, _, book = shop
    async with start() as running:
        await running.ready(2)
        loan = await store_tool(registry, provider, "createLoan", description="order a book in the library")
        await running.ready(3)
        assert running.compute_cosines("Shop: create loan. order a book in the library", loan) == [
            pytest.approx(1, abs=1e-3)
        ]
        async with registry.transaction() as session:
            await session.execute(
                update(Tool).where(Tool.id == book.id).values(description="delete the voucher")
            )
            await record_change(session, kind="tool", provider_id=provider.id, object_id=str(book.id))
        await until(lambda: running.compute_cosines("Shop: find book. delete the voucher", book)[0] > 0.999)


async def test_a_new_title_of_the_provider_follows(start, shop, registry) -> None:
    provider, coupon, _ = shop
    async with start() as running:
        await running.ready(2)
        async with registry.transaction() as session:
            await session.execute(update(Provider).where(Provider.id == provider.id).values(title="Library"))
            await record_change(session, kind="provider", provider_id=provider.id)
        await until(
            lambda: running.compute_cosines("Library: create coupon. create a coupon", coupon)[0] > 0.999
        )


async def test_vectors_of_deleted_tools_are_deleted_everywhere(start, shop, registry) -> None:
    provider, coupon, book = shop
    async with start(sweep_min=0.05) as running:
        await running.ready(2)
        async with registry.transaction() as session:
            await session.execute(delete(Tool).where(Tool.id == coupon.id))
            await record_change(session, kind="tool", provider_id=provider.id, object_id=str(coupon.id))
        await running.ready(1)
        assert running.compute_cosines("create a coupon", coupon, book)[0] is None

        async def one_is_stored() -> bool:
            return await stored(registry) == 2

        await until(one_is_stored)


async def test_a_disabled_tool_has_no_vector(start, registry) -> None:
    provider = await store_provider(registry, "shop")
    await store_tool(registry, provider, "createCoupon", override={"enabled": False})
    await store_tool(registry, provider, "findBook")
    async with start() as running:
        await running.ready(1)


async def test_after_a_restart_nothing_is_encoded_again(start, shop) -> None:
    async with start() as running:
        await running.ready(2)
        running.encoding.folder.status.unlink()
    async with start() as again:
        await again.ready(2)
        assert again.encoder.texts == 0
    # Neither with another data directory, whose file is written from what is stored.
    async with start("other") as other:
        await other.ready(2)
        assert other.encoder.texts == 0


async def test_encoding_resumes_where_it_was_interrupted(start, registry) -> None:
    provider = await store_provider(registry, "shop", title="Shop")
    for number in range(100):
        await store_tool(
            registry, provider, f"find{number}", description=f"find a book {'order ' * (number % 50)}"
        )
    async with start() as running:
        await until(lambda: running.status is not None and 0 < running.status.encoded < 100)
        first = await stored(registry)
    assert 0 < first < 100
    async with start() as again:
        await again.ready(100)
        assert await stored(registry) == 100
        assert again.encoder.texts <= 100 - first


async def test_of_two_processes_one_encodes_and_both_have_the_vectors(start, shop, registry) -> None:
    async with start("one") as one:
        await one.ready(2)
        async with start("two") as two:
            await two.ready(2)
            await store_tool(registry, shop[0], "createLoan", description="order a book")
            await one.ready(3)
            await two.ready(3)
            assert two.encoder.texts == 0
    # The other one leads when the first has ended.
    async with start("two") as two:
        await store_tool(registry, shop[0], "deleteLoan", description="delete an order")
        await two.ready(4)


async def test_the_encoding_ends_by_one_cancellation_at_any_moment(start, shop) -> None:
    async with start() as running:
        await running.ready(2)
        await end_by_one_cancellation(running.task, 2)
        encoding = running.encoding

        async def wait_for_work() -> None:
            # All of a round but what threads do, which go on with their files after a cancellation.
            while True:
                await encoding.leadership.acquire()
                await encoding._wait(60)

        seconds = [
            await end_by_one_cancellation(asyncio.create_task(wait_for_work()), number)
            for number in range(200)
        ]
    # On a busy machine some of them may be late.
    assert sorted(seconds)[-10] < 1


async def test_vectors_that_only_the_file_has_are_stored_again(start, shop, registry) -> None:
    async with start() as running:
        await running.ready(2)
    async with registry.transaction() as session:
        await session.execute(delete(SearchVectorRow))
    async with start() as again:

        async def all_are_stored() -> bool:
            return await stored(registry) == 4

        await until(all_are_stored)
        assert again.encoder.texts == 0


async def test_vectors_of_other_models_are_deleted_after_a_week(start, shop, registry) -> None:
    async with registry.transaction() as session:
        await store_vectors(session, "f" * 32, {b"old": b"", b"new": b""})
        old = func.now() - func.make_interval(0, 0, 0, 8)
        await session.execute(
            update(SearchVectorRow).where(SearchVectorRow.digest == b"old").values(created_at=old)
        )
    async with start() as running:
        await running.ready(2)

        async def one_is_left() -> bool:
            return await stored(registry) == 5

        await until(one_is_left)


async def test_a_stored_vector_of_another_length_is_not_used(start, shop, registry) -> None:
    async with start() as running:
        await running.ready(2)
        running.encoding.folder.vectors.unlink()
        running.encoding.folder.status.unlink()
    async with registry.transaction() as session:
        await session.execute(update(SearchVectorRow).values(vector=np.ones(3, "<f2").tobytes()))
    async with start() as again:
        await again.ready(2)
        assert again.encoder.texts == 4
    async with start("other") as other:
        await other.ready(2)
        assert other.encoder.texts == 0


async def test_a_text_that_the_model_cannot_encode_stops_no_other_and_is_reported(start, shop) -> None:
    _, coupon, book = shop
    async with start(rejected="coupon") as running:
        await running.ready(2)
        found = running.compute_cosines("find a book", coupon, book)
        assert found[0] is None
        assert found[1] is not None
        # The two texts of the tool.
        assert running.reported == [2]


async def test_a_rejected_text_that_many_tools_have_is_tried_once(start, registry) -> None:
    for number in range(40):
        # More than are encoded in one round, and all with the same text.
        provider = await store_provider(registry, f"shop{number}", title="Shop")
        await store_tool(registry, provider, "createCoupon", description="create a coupon")
    async with start(rejected="create a coupon") as running:
        await running.ready(40)
        # The text with the name of each provider, and the one with the title that all have.
        assert running.encoder.rejections == 41
        assert sum(running.reported) == 41


async def test_rounds_without_a_new_vector_write_no_file(start, shop, registry) -> None:
    async with start(rejected="voucher", write=0.01) as running:
        await running.ready(2)
        written = running.encoding.folder.vectors.stat().st_mtime_ns
        running.encoding._queue.append((shop[1].id, [b"of a text that it no longer has"]))
        running.encoding._changed.set()
        await until(lambda: not running.encoding._queue)
        await asyncio.sleep(0.2)
        assert running.encoding.folder.vectors.stat().st_mtime_ns == written


async def test_changes_whose_reading_is_interrupted_are_found_by_the_next(registry, shop) -> None:
    _, coupon, book = shop
    cut = CutDatabase(registry)
    tools = ToolDigests(cut, "f" * 32)
    assert await tools.apply([ChangeNotice("all")])
    before = dict(tools)
    async with registry.transaction() as session:
        await session.execute(update(Tool).where(Tool.id == book.id).values(description="new words"))
        await session.execute(delete(Tool).where(Tool.id == coupon.id))
    cut.statements = 1
    with pytest.raises(Unavailable):
        await tools.apply([ChangeNotice("all")])
    assert dict(tools) == before
    assert not tools.removed
    cut.statements = 2
    assert await tools.apply([ChangeNotice("all")])
    assert dict(tools).keys() == {book.id}
    assert dict(tools)[book.id] != before[book.id]
    assert tools.removed


async def test_a_change_that_concerns_no_text_writes_no_file(start, shop, registry) -> None:
    provider, coupon, _ = shop
    async with start(write=0.01) as running:
        await running.ready(2)
        written = running.encoding.folder.vectors.stat().st_mtime_ns
        async with registry.transaction() as session:
            await session.execute(update(Provider).where(Provider.id == provider.id).values(enabled=True))
            await record_change(session, kind="provider", provider_id=provider.id)
            await record_change(session, kind="key", object_id="k1")
        await running.encoding.feed.catch_up()
        await asyncio.sleep(0.2)
        assert running.encoding.folder.vectors.stat().st_mtime_ns == written
        async with registry.transaction() as session:
            await session.execute(update(Tool).where(Tool.id == coupon.id).values(description="new words"))
            await record_change(session, kind="tool", provider_id=provider.id, object_id=str(coupon.id))
        await until(lambda: running.encoding.folder.vectors.stat().st_mtime_ns > written)
