"""Counting the keys that expire soon, and warning of them once a day."""

from datetime import UTC, datetime, timedelta

import pytest
import structlog
from structlog.testing import capture_logs

from app.access import expiry_monitor
from app.access.expiry_monitor import KeyExpiryMonitor
from app.access.repository import KeyDescription, issue_key, revoke_key
from app.security.principal import Grant
from app.storage.redis import RedisClient

WINDOW = timedelta(days=14)


@pytest.fixture
async def keys(gateway):
    """Keys that expired, expire within the window (one of them revoked), expire after it, and never expire."""
    moment = datetime.now(UTC)
    ends = {"expired": -1, "soon": 1, "revoked": 2, "sooner": 0.5, "later": 15, "never": None}
    async with gateway.database.transaction() as session:
        for name, days in ends.items():
            end = None if days is None else moment + timedelta(days=days)
            grant = Grant(frozenset({"tools:read"}), expires_at=end)
            _, row = await issue_key(
                session, gateway.vault, KeyDescription(name, owner="o"), grant=grant, actor="test"
            )
            if name == "revoked":
                await revoke_key(session, row, actor="test")


@pytest.fixture(autouse=True)
def _log_level(gateway):
    """Warnings are logged; the gateway's own level is `error`."""
    level = structlog.get_config()["wrapper_class"]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("warning"))
    yield
    structlog.configure(wrapper_class=level)


@pytest.fixture
async def redis_client(gateway):
    """A client of a Redis in which no worker has warned yet."""
    name = expiry_monitor._REPORTED
    await gateway.services.redis.delete(name)
    yield gateway.services.redis_client
    await gateway.services.redis.delete(name)


def warnings_of(logs):
    """The warnings about keys: servers of other tests may log at the same time."""
    return [entry for entry in logs if "within_days" in entry]


@pytest.mark.usefixtures("keys")
async def test_valid_keys_within_the_window_are_counted(gateway, redis_client):
    monitor = KeyExpiryMonitor(gateway.database, redis_client, within=WINDOW)
    assert monitor.expiring == 0
    await monitor.check()
    assert monitor.expiring == 2


@pytest.mark.usefixtures("keys")
async def test_one_worker_warns_once_a_day(gateway, redis_client):
    with capture_logs() as logs:
        for _ in range(2):
            monitor = KeyExpiryMonitor(gateway.database, redis_client, within=WINDOW)
            await monitor.check()
            await monitor.check()
    (warning,) = warnings_of(logs)
    assert (warning["log_level"], warning["count"], warning["within_days"]) == ("warning", 2, 14)
    assert [key["name"] for key in warning["keys"]] == ["sooner", "soon"]
    assert warning["keys"][0]["owner"] == "o"


@pytest.mark.usefixtures("keys")
async def test_without_redis_each_worker_warns_once_a_day(gateway):
    with capture_logs() as logs:
        for _ in range(2):
            monitor = KeyExpiryMonitor(gateway.database, RedisClient(None), within=WINDOW)
            await monitor.check()
            await monitor.check()
    assert len(warnings_of(logs)) == 2


async def test_without_expiring_keys_nothing_is_logged(gateway, redis_client):
    with capture_logs() as logs:
        await KeyExpiryMonitor(gateway.database, redis_client, within=WINDOW).check()
    assert warnings_of(logs) == []
