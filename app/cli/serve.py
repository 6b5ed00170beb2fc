"""`utcp-gateway serve`: the gateway, on given servers or on the embedded ones."""

import asyncio
import contextlib
import gc
import os
import resource
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from redis.exceptions import AuthenticationError, AuthorizationError

from app.access.data_keys import check_ring
from app.cli.embedded import EmbeddedFailed, EmbeddedServers, read_sealing_key
from app.cli.errors import OperatorError
from app.cli.listener import Listener, listen_on
from app.cli.operator_commands import convert_operator_errors, fail, read_settings, warn
from app.cli.sample import find_checkout, serve_sample_api
from app.cli.server import GatewayServer, build_server_config
from app.cli.welcome import Welcome, build_console_address, greet
from app.cli.workers import Workers
from app.core.settings import Settings
from app.core.telemetry.tracing import load_tracer_class
from app.security.vault import KeyRing
from app.storage.database import Database, migrate, schema_state
from app.storage.redis import REDIS_ERRORS, connect

LOOPBACK = "127.0.0.0/8,::1/128"
_REDIS_SECONDS = 3.0
_OPEN_FILES_MAX = 65_536


def serve(
    *,
    host: str | None,
    port: int | None,
    workers: int | None,
    database_url: str | None,
    redis_url: str | None,
    data_dir: Path | None,
    sample: bool | None,
) -> None:
    """Serve until a signal ends it. The parameters are settings; None leaves one to the environment."""
    settings = read_settings(
        host=host, port=port, workers=workers, database_url=database_url, redis_url=redis_url,
        data_dir=data_dir, sample=sample,
    )  # fmt: skip
    if (settings.database_url is None) != (settings.redis_url is None):
        fail("Give both --database-url and --redis-url, or neither for the embedded pair.", code=2)
    with convert_operator_errors(), exit_on_sigterm(), ExitStack() as stack:
        load_tracer_class(settings)
        listener = stack.enter_context(listen_on(settings.host, settings.port))
        settings = settings.model_copy(update={"port": listener.getsockname()[1]})
        greeting = (
            start_embedded(settings, stack) if settings.database_url is None else check_servers(settings)
        )
        if settings.workers > 1 and "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            metrics = stack.enter_context(tempfile.TemporaryDirectory(prefix="utcp-gateway-metrics-"))
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = metrics
        export_settings(settings)
        threading.Thread(target=greet, args=(greeting,), daemon=True).start()
        run(settings, listener)


def start_embedded(settings: Settings, stack: ExitStack) -> Welcome:
    """Start the embedded servers and the sample API, migrate, make the first key; `stack` ends them."""
    servers = EmbeddedServers(settings.data_dir)
    running = servers.start()
    stack.callback(servers.stop)
    stack.enter_context(watch_servers(servers))
    os.environ |= {
        "DATABASE_URL": running.database_url,
        "REDIS_URL": running.redis_url,
        "EMBEDDED": "true",
        "ALLOW_NETWORKS": ",".join(settings.allow_networks) or LOOPBACK,
    }
    if settings.sealing_keys is None and settings.sealing_keys_file is None:
        os.environ["SEALING_KEYS"] = read_sealing_key(settings.data_dir)
    asyncio.run(migrate(running.database_url))
    greeting = Welcome.prepare(
        read_settings(data_dir=settings.data_dir),
        address=settings.base_url,
        local=build_local_address(settings),
    )
    # By default the sample is served where it is there: a wheel has no examples.
    if settings.sample and (find_checkout() is not None or "sample" in settings.model_fields_set):
        sample = stack.enter_context(serve_sample_api(settings.data_dir, port=settings.sample_port))
        greeting = greeting.with_sample(sample)
    return greeting


@contextmanager
def watch_servers(servers: EmbeddedServers, *, every: float = 1.0) -> Iterator[None]:
    """Stop the gateway when an embedded server ends during a block, and raise EmbeddedFailed at its end.

    `every` is in seconds.
    """
    done = threading.Event()
    lost: list[EmbeddedFailed] = []

    def watch() -> None:
        while not done.wait(every):
            try:
                servers.check()
            except EmbeddedFailed as failed:
                lost.append(failed)
                os.kill(os.getpid(), signal.SIGTERM)
                return

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        done.set()
        if lost:
            raise lost[0]


def check_servers(settings: Settings) -> Welcome:
    """Check the key ring, PostgreSQL, its schema and its data keys; raise OperatorError or the error found.

    Without PostgreSQL no API key can be verified: the supervisor of the process restarts it. Redis may be
    unavailable, as at any other time.
    """
    assert settings.database_url is not None  # noqa: S101 - `serve` has checked it
    assert settings.redis_url is not None  # noqa: S101
    ring = KeyRing.parse(settings.read_key_ring())
    redis, database = settings.redis_url.get_secret_value(), settings.database_url.get_secret_value()

    async def check() -> str:
        return (await asyncio.gather(schema_state(database), check_redis(redis)))[0]

    state = asyncio.run(check())
    if state != "current":
        raise OperatorError(f"The database's schema is {state}: run `utcp-gateway migrate` first.")
    asyncio.run(check_sealing(database, ring))
    return Welcome(
        address=settings.base_url,
        local=build_local_address(settings),
        console=build_console_address(settings, settings.base_url),
    )


async def check_sealing(dsn: str, ring: KeyRing) -> None:
    """Raise SealBroken where the ring lacks a key that the database's data keys need (a restored dump)."""
    database = Database(dsn, pool_size=1)
    try:
        await check_ring(database, ring)
    finally:
        await database.aclose()


async def check_redis(url: str) -> None:
    """Warn where Redis is unavailable; raise the error where it denies access."""
    client = connect(url, timeout=_REDIS_SECONDS)
    try:
        await client.ping()
    except (AuthenticationError, AuthorizationError):
        raise
    except REDIS_ERRORS as error:
        warn(
            f"Redis is unavailable ({type(error).__name__}), and the gateway starts without it."
            " Check --redis-url or REDIS_URL if it stays so."
        )
    finally:
        await client.aclose()


def build_local_address(settings: Settings) -> str:
    """Return the base URL of the gateway on this machine, without a proxy in front of it."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings.host, settings.host)  # noqa: S104
    return f"http://{host}:{settings.port}"


def export_settings(settings: Settings) -> None:
    """Write the options to the environment, from which worker processes read their settings."""
    for name in ("host", "port", "workers", "data_dir"):
        os.environ[name.upper()] = str(getattr(settings, name))
    for name in ("database_url", "redis_url"):
        value = getattr(settings, name)
        if value is not None:
            os.environ[name.upper()] = value.get_secret_value()


def run(settings: Settings, listener: Listener) -> None:
    """Run uvicorn until a signal stops it and all workers have ended.

    Raise OperatorError where it cannot start.
    """
    raise_file_limit()
    config = build_server_config("app.main:create_app", settings, factory=True)
    grace, seconds = settings.effective_grace_seconds, settings.shutdown_timeout
    server: Workers | GatewayServer
    if settings.workers > 1:
        gc.enable()
        server = Workers(config, [listener], grace=grace, seconds=seconds)
        server.run()
    else:
        server = GatewayServer(config, grace_seconds=grace, shutdown_timeout=seconds)
        server.run(sockets=[listener])
    if not server.started:
        raise OperatorError("The gateway could not start; its log above says why.")


def raise_file_limit() -> None:
    """Raise the soft limit of open files to the hard one, at most 65,536: connections take one each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < limit:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Raise SystemExit for SIGTERM during a block.

    uvicorn raises its signal again after its shutdown; the embedded servers must be stopped nevertheless.
    """

    def stop(_number: int, _frame: object) -> None:
        raise SystemExit(0)

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, previous)
