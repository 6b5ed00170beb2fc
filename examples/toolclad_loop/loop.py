"""A loop that is the same for each model provider, with limits, over tools of a gateway that a search finds.

loop.py [--iterations NUMBER] MODEL PROMPT
"""

import argparse
import asyncio
import logging

from utcp_gateway_client.gateway import AsyncGateway
from utcp_gateway_client.loop import CallFinished, Limits, ModelResponded, RunFinished, stream

log = logging.getLogger("loop")


async def main(prompt: str, *, model: str, limits: Limits) -> None:
    """Answer a prompt, and log what happens: names, times and errors, but no arguments and no results."""
    async with AsyncGateway() as gateway:
        async for event in stream(prompt, model=model, tools=gateway, limits=limits):
            match event:
                case ModelResponded(iteration, _, calls):
                    log.info("%s, iteration %d: %d calls", model, iteration, len(calls))
                case CallFinished(record):
                    outcome = "error" if record.is_error else "success"
                    log.info("%s: %s, %.3f s", record.call.name, outcome, record.seconds)
                case RunFinished(result):
                    print(result.text)
                    if result.stopped == "iterations":
                        print(f"(The limit of {limits.max_iterations} iterations ended the run.)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=15)
    parser.add_argument("model", metavar="MODEL", help="claude-..., gpt-... or gemini-...")
    parser.add_argument("prompt", metavar="PROMPT")
    options = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    log.setLevel(logging.INFO)
    limits = Limits(max_iterations=options.iterations, call_seconds=120)
    asyncio.run(main(options.prompt, model=options.model, limits=limits))
