"""The vectors of a worker: loaded in the background, queries in time or by words, one process for all workers."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import structlog
from onnx import TensorProto, helper, numpy_helper

from app.core.settings import Settings
from app.search.search_index import SearchIndex
from app.search.signals import Signals, make_tool_key
from app.search.vectors import ModelError, SearchVectors, VectorStatus
from app.security.principal import Principal
from app.storage.models import TENANT
from tests.harness.semantic_models import SHAPE, slow_graph, write_model, write_sums
from tests.integration.search.vectors.waiting import until
from tests.stored import store_provider, store_tool

# Each starts a process that loads a model.
pytestmark = pytest.mark.time_limit(60)

READER = Principal("k1", "reader", TENANT, frozenset({"tools:read"}))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture
def opened(registry, database_url, model, tmp_path):
    @asynccontextmanager
    async def opened(**settings) -> AsyncIterator[SearchVectors]:
        settings = {"semantic_model_dir": model, "data_dir": tmp_path / "data", **settings}
        # A busy machine must not make queries late.
        settings = {"semantic_query_timeout": 5, **settings}
        vectors = SearchVectors(
            Settings(_env_file=None, **settings), database_url=database_url, listen_url=database_url
        )
        await vectors.start()
        try:
            yield vectors
        finally:
            await vectors.aclose()

    return opened


@pytest.fixture
async def shop(registry):
    provider = await store_provider(registry, "shop", title="Shop")
    coupon = await store_tool(registry, provider, "createCoupon", description="create a coupon for the order")
    book = await store_tool(registry, provider, "findOrder", description="find a book for the library")
    return coupon, book


async def test_a_worker_ranks_by_meaning_once_all_is_encoded(opened, shop, registry) -> None:
    async with opened() as vectors:
        await until(lambda: vectors.is_ready and vectors.status == VectorStatus("ready", "model", 2, 2))
        vector = await vectors.encode("Shop: create coupon. create a coupon for the order")
        keys = [make_tool_key(tool.id) for tool in shop]
        nearest, other = vectors.compute_cosines(vector, keys)
        assert nearest == pytest.approx(1, abs=1e-3)
        assert other < nearest
        search = SearchIndex(registry, base_url="http://gateway.test", signals=Signals(vectors=vectors))
        await search.start()
        found = await search.find(["coupon for the order"], principal=READER)
        assert found.ranking == "words+vectors"
        assert found.queries[0].cosine is not None
        await search.aclose()


async def test_a_query_is_encoded_once(opened, shop) -> None:
    async with opened() as vectors:
        await until(lambda: vectors.is_ready)
        first, second = await asyncio.gather(vectors.encode("a book"), vectors.encode("a book"))
        np.testing.assert_array_equal(first, second)
        assert await vectors.encode("a book") is first
        assert vectors.counts.by_outcome == {"encoded": 2, "cached": 1, "late": 0, "busy": 0, "failed": 0}


async def test_a_late_query_is_ranked_by_words_and_its_vector_is_used_the_next_time(
    opened, shop, tmp_path
) -> None:
    slow = write_model(tmp_path / "slow", graph=slow_graph())
    async with opened(semantic_model_dir=slow, semantic_query_timeout=0.001) as vectors:
        await until(lambda: vectors.is_ready)
        assert await vectors.encode("a book") is None
        assert vectors.counts.by_outcome["late"] == 1

        async def is_encoded() -> bool:
            return await vectors.encode("a book") is not None

        # The query that waited while the encoding ended counts as encoded, a later one as cached.
        await until(is_encoded)
        cached = vectors.counts.by_outcome["cached"]
        assert await vectors.encode("a book") is not None
        assert vectors.counts.by_outcome["cached"] == cached + 1


async def test_of_many_queries_at_once_some_are_ranked_by_words(opened, shop) -> None:
    async with opened() as vectors:
        await until(lambda: vectors.is_ready)
        found = await asyncio.gather(*(vectors.encode(f"order {number}") for number in range(20)))
        assert sum(vector is not None for vector in found) == vectors.counts.by_outcome["encoded"] == 8
        assert vectors.counts.by_outcome["busy"] == 12


async def test_switched_off_nothing_is_started(opened, tmp_path) -> None:
    async with opened(semantic_search=False) as vectors:
        assert vectors.status == VectorStatus("off")
        assert await vectors.encode("a book") is None
        assert list(vectors.compute_cosines(None, [1, 2])) == [None, None]
    assert not (tmp_path / "data").exists()


async def test_without_a_model_one_line_in_the_log_says_so(opened) -> None:
    with structlog.testing.capture_logs() as logs:
        async with opened(semantic_model_dir=None) as vectors:
            assert vectors.status == VectorStatus("off")
            assert await vectors.encode("a book") is None
    assert [(one["log_level"], one["event"]) for one in logs] == [
        ("info", "searches rank tools by words only")
    ]


async def test_a_folder_that_is_no_model_prevents_the_start(opened, tmp_path) -> None:
    with pytest.raises(ModelError, match="SHA256SUMS cannot be read"):
        async with opened(semantic_model_dir=tmp_path):
            pass


async def test_a_data_directory_that_cannot_be_written_leaves_the_words(opened, tmp_path) -> None:
    (tmp_path / "data").write_text("a file")
    async with opened() as vectors:
        assert vectors.status == VectorStatus("unavailable", "model")


async def test_a_model_that_fails_leaves_the_words(opened, shop, tmp_path) -> None:
    folder = write_model(tmp_path / "failing")
    (folder / "model.onnx").write_bytes(failing_graph())
    write_sums(folder)
    with structlog.testing.capture_logs() as logs:
        async with opened(semantic_model_dir=folder) as vectors:
            await until(lambda: vectors.status == VectorStatus("unavailable", "failing"))
            await until(lambda: any("no finite vector" in one["event"] for one in logs))
            assert await vectors.encode("a book") is None
            # It is not started again.
            await until(lambda: vectors.process_id is None)
    assert not any("is restarted" in one["event"] for one in logs)


async def test_the_model_is_unavailable_when_its_files_change_before_the_process_starts(
    opened, shop, tmp_path
) -> None:
    folder = write_model(tmp_path / "changing")
    async with opened(semantic_model_dir=folder) as vectors:
        await until(lambda: vectors.status == VectorStatus("ready", "changing", 2, 2))
        (folder / "LICENSE").write_text("another one\n")
        killed = vectors.process_id
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        await until(lambda: vectors.status == VectorStatus("unavailable", "changing"))


async def test_texts_that_the_model_cannot_encode_are_counted_in_the_log(opened, registry, tmp_path) -> None:
    provider = await store_provider(registry, "shop", title="Shop")
    await store_tool(registry, provider, "findBook", description="find the book " * 20)
    await store_tool(registry, provider, "findOrder", description="short")
    folder = write_model(tmp_path / "picky", graph=picky_graph())
    with structlog.testing.capture_logs() as logs:
        async with opened(semantic_model_dir=folder) as vectors:
            await until(lambda: vectors.status == VectorStatus("ready", "picky", 2, 2))
            await until(lambda: any(one["log_level"] == "warning" for one in logs))
    (warning,) = [one for one in logs if one["log_level"] == "warning"]
    assert warning == {"event": "the model cannot encode some texts", "texts": 1, "log_level": "warning"}


async def test_a_damaged_file_is_counted_and_left_once_and_a_newer_one_stays(opened, shop) -> None:
    async with opened() as vectors:
        await until(lambda: vectors.is_ready and vectors.status.state == "ready")
        vector = await vectors.encode("a book")
        whole = vectors._file
        assert whole is not None
        damaged = replace(whole, places=np.full_like(whole.places, 1_000))
        vectors._file = damaged
        with structlog.testing.capture_logs() as logs:
            assert list(vectors.find_nearest(vector, 5)) == []
            assert not vectors.is_ready
            vectors._file = whole
            # A search that began before it was left.
            vectors._close(damaged, IndexError())
            assert vectors.is_ready
        assert [one["event"] for one in logs] == ["the file of vectors cannot be used"]
        assert vectors.counts.by_outcome["failed"] == 2
        assert len(vectors.find_nearest(vector, 5)) == 2


async def test_a_killed_process_is_started_again_and_goes_on(opened, shop, registry) -> None:
    async with opened() as vectors:
        await until(lambda: vectors.status.state == "ready")
        killed = vectors.process_id
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        await store_tool(registry, await store_provider(registry, "library"), "findBook")
        await until(lambda: vectors.status == VectorStatus("ready", "model", 3, 3))
        assert vectors.process_id != killed
    assert vectors.process_id is None


async def test_one_of_two_workers_runs_the_process_and_both_have_the_vectors(opened, shop) -> None:
    async with opened() as first:
        await until(lambda: first.is_ready)
        async with opened() as second:
            await until(lambda: second.is_ready)
            assert second.process_id is None
            keys = [make_tool_key(tool.id) for tool in shop]
            cosines = [one.compute_cosines(await one.encode("a coupon"), keys) for one in (first, second)]
            assert cosines[0] == cosines[1]
            await first.aclose()
            await until(lambda: second.process_id is not None)


async def test_vectors_of_a_new_tool_are_loaded(opened, shop, registry) -> None:
    async with opened() as vectors:
        await until(lambda: vectors.is_ready)
        key = make_tool_key(
            (await store_tool(registry, await store_provider(registry, "new"), "findBook")).id
        )
        vector = np.ones(SHAPE.hidden, np.float32)
        await until(lambda: vectors.compute_cosines(vector, [key]) != [None])


def picky_graph() -> bytes:
    """A graph that fails for texts of more than 32 tokens: it needs a row of a table for each."""
    nodes = [
        helper.make_node("Shape", ["input_ids"], ["size"]),
        helper.make_node("Gather", ["size", "one"], ["tokens"]),
        helper.make_node("Gather", ["table", "tokens"], ["sentence_embedding"]),
    ]
    table = np.ones((33, SHAPE.hidden), np.float32)
    graph = helper.make_graph(
        nodes,
        "picky",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["texts", "tokens"])],
        [helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["texts", SHAPE.hidden])],
        [
            numpy_helper.from_array(table, "table"),
            numpy_helper.from_array(np.array([1], np.int64), "one"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def failing_graph() -> bytes:
    """A graph whose output is not a number: 0 / 0."""
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["numbers", "numbers"], ["zeros"]),
        helper.make_node("Div", ["zeros", "zeros"], ["sentence_embedding"]),
    ]
    shape = ["texts", "tokens"]
    graph = helper.make_graph(
        nodes,
        "failing",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, shape)],
        [helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())
