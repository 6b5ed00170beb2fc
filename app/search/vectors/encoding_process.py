"""The encoding process, which a worker starts (`supervisor.py`): loads the model, and encodes all tools.

In:  one line of JSON, the `Job`; the end of the stream means that the worker has ended, and ends the process.
Out: a line of JSON for each message that belongs into the log: {"level", "event"}, and numbers.
"""

import asyncio
import contextlib
import json
import os
import resource
import sys
import threading
from pathlib import Path
from typing import Final, TextIO

from app.catalog.feed import ChangeFeed
from app.search.vectors.encoder import TextEncoder
from app.search.vectors.encoding import Encoding, EncodingTimes
from app.search.vectors.folder import VectorFolder
from app.search.vectors.job import FAILED, Job
from app.search.vectors.leadership import Leadership
from app.search.vectors.model_source import ModelError, find_model
from app.storage.database import Database

_NICENESS: Final = 19


async def encode_tools(job: Job, messages: TextIO) -> None:
    """Load the model and encode until cancelled; raise ModelError and OSError."""
    source = find_model(None if job.model_dir is None else Path(job.model_dir))
    if source is None:
        raise ModelError("The model is not installed any more.")
    folder = VectorFolder.create(Path(job.data_dir), source)
    encoder = await asyncio.to_thread(TextEncoder, source.graph, source.tokenizer)

    def report_rejected(texts: int) -> None:
        _report(messages, "warning", "the model cannot encode some texts", texts=texts)

    database = Database(job.database_url, pool_size=2)
    feed = ChangeFeed(database, listen_dsn=job.listen_url, poll_seconds=job.poll_seconds)
    leadership = Leadership(job.listen_url, model=source.digest)
    try:
        await Encoding(
            database, feed, leadership, encoder, folder, EncodingTimes(), report_rejected=report_rejected
        ).run()
    finally:
        await feed.aclose()
        leadership.close()
        await database.aclose()


def main() -> None:
    """Read the job, and work until the worker ends."""
    job = Job(**json.loads(sys.stdin.buffer.readline()))
    messages = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    # What libraries and loggers print belongs nowhere.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.nice(_NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):
        # Not the address space: libraries reserve much more of it than they use.
        resource.setrlimit(resource.RLIMIT_DATA, (job.memory, job.memory))
    threading.Thread(target=_end_with_worker, daemon=True).start()
    try:
        asyncio.run(encode_tools(job, messages))
    except ModelError as error:
        _report(messages, "error", error.detail)
        sys.exit(FAILED)
    except Exception as error:  # noqa: BLE001 - the worker logs it, and starts the process again.
        # The text of other errors may quote what must not be in a log, e.g. a DSN.
        _report(messages, "error", f"the encoding of tools failed: {type(error).__name__}")
        sys.exit(1)


def _end_with_worker() -> None:
    """Wait for the end of standard input, and end the process: what it writes is always whole."""
    # Not by the buffered reader, whose lock the end of the interpreter would need.
    while os.read(0, 4_096):
        pass
    os._exit(0)


def _report(messages: TextIO, level: str, event: str, **numbers: int) -> None:
    messages.write(json.dumps({"level": level, "event": event, **numbers}) + "\n")
    messages.flush()


if __name__ == "__main__":
    main()
