"""UBP behind nginx with the delivered configuration: WebSockets and gRPC."""

import os

import grpc
import grpc.aio
import pytest
import websockets

from app.formats.ubp.v1 import core_pb2
from tests.faults.nginx import PROGRAM, Nginx
from tests.harness.gateway import serve
from tests.harness.ubp_peers import connected
from tests.protocols.kits.base import free_port

pytestmark = pytest.mark.skipif(
    PROGRAM is None and not os.environ.get("CI"),
    reason="nginx is not installed: on Debian, `apt-get install nginx-light`.",
)


@pytest.fixture(scope="module")
def gateway(servers, tmp_path_factory):
    settings = {"UBP_GRPC_PORT": str(free_port()), "MAX_CONNECTIONS_PER_ADDRESS": "2"}
    with serve(servers, tmp_path_factory.mktemp("gateway"), **settings) as running:
        yield running


@pytest.fixture
async def proxy(gateway, tmp_path):
    nginx = Nginx(
        tmp_path / "nginx",
        port=free_port(),
        gateways=[int(gateway.url.rpartition(":")[2])],
        grpc_port=free_port(),
        grpc_gateway=int(gateway.environment["UBP_GRPC_PORT"]),
    )
    await nginx.start()
    yield nginx
    await nginx.stop()


class Behind:
    """The gateway at the address of nginx, as `connected` uses it."""

    def __init__(self, gateway, proxy):
        self.url, self.key = proxy.url, gateway.key


async def test_an_executor_and_an_agent_by_websocket(gateway, proxy):
    behind = Behind(gateway, proxy)
    async with connected(behind) as executor, connected(behind) as agent:
        await executor.register("proxied")
        response = await agent.request("get_order_status", {"order_id": 1}, "c-1")
        assert (response["status"], response["result"]["value"]) == ("SUCCESS", "Shipped")


async def test_a_rejected_websocket_gets_the_problem(gateway, proxy):
    url = proxy.url.replace("http", "ws", 1) + "/ubp"
    with pytest.raises(websockets.InvalidStatus) as rejected:
        async with websockets.connect(url, proxy=None):
            pass
    assert rejected.value.response.status_code == 401
    assert rejected.value.response.headers["content-type"] == "application/problem+json"


async def test_a_stream_of_grpc_counts_for_its_own_address(gateway, proxy):
    async with grpc.aio.insecure_channel(f"127.0.0.1:{proxy.grpc_port}") as channel:
        # What a client itself says of its address is not passed on: all three are the same.
        metadata = [("authorization", f"Bearer {gateway.key}")]
        calls = [
            channel.stream_stream("/ubp.v1.Orchestrator/Connect")(
                metadata=[*metadata, ("x-forwarded-for", f"203.0.113.{number}")]
            )
            for number in range(2)
        ]
        for call in calls:
            message = core_pb2.UbpMessage(message_id="m")
            message.command_request.command_name = "agent.ping"
            await call.write(message.SerializeToString())
            answer = core_pb2.UbpMessage.FromString(await call.read())
            assert answer.command_response.status == core_pb2.CommandResponse.SUCCESS
        third = channel.stream_stream("/ubp.v1.Orchestrator/Connect")(
            metadata=[*metadata, ("x-forwarded-for", "203.0.113.9")]
        )
        assert await third.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        for call in calls:
            await call.done_writing()
            assert await call.code() is grpc.StatusCode.OK


async def test_another_method_of_grpc_is_not_passed_on(gateway, proxy):
    async with grpc.aio.insecure_channel(f"127.0.0.1:{proxy.grpc_port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await channel.unary_unary("/grpc.health.v1.Health/Check")(b"")
        assert rejected.value.code() is grpc.StatusCode.UNIMPLEMENTED
