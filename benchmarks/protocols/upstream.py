"""`python -m benchmarks.protocols.upstream PORT`: an upstream of every protocol.

The server at PORT describes how each is called, and the settings of a gateway that may do so.
"""

import asyncio
import contextlib
import sys

from aiohttp import web

from benchmarks.shape import RESPONSE_MARKER
from tests.protocols.kits.all import KITS, settings


async def main(port: int) -> None:
    """Serves until it is ended."""
    async with contextlib.AsyncExitStack() as stack:
        described = {}
        for kit in KITS:
            upstream = await stack.enter_async_context(kit.serve())
            if kit.protocol == "file":
                upstream.place.write_text(RESPONSE_MARKER)
            template = kit.template(upstream, "echo")
            if kit.protocol == "text":
                template["content"] = RESPONSE_MARKER
            described[kit.protocol] = {"template": template, "arguments": _marked(kit.arguments())}
        allowed = settings().model_dump(mode="json", exclude_unset=True)

        async def send_template(_: web.Request) -> web.Response:
            return web.json_response({"protocols": described, "settings": allowed})

        application = web.Application()
        application.router.add_get("/", send_template)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await asyncio.Event().wait()


def _marked(value: object) -> object:
    """Return the arguments with the marker that the load process expects in each response."""
    if isinstance(value, dict):
        return {key: RESPONSE_MARKER if key == "word" else _marked(member) for key, member in value.items()}
    return value


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
