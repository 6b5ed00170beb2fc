"""Scripts of packages/typescript, run by Node.js 24 beside the development packages; `python -m` runs one and exits like it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from subprocess import CompletedProcess

from tests.interop.environments import InstallError, install_node, install_typescript_library

_SECONDS = 200


def run_node(
    arguments: list[str], *, environment: Mapping[str, str] | None = None, is_captured: bool = True
) -> CompletedProcess[str]:
    """Run Node.js in the folder of the library; raise InstallError where it or the packages cannot be installed."""
    node = install_node()
    folder = install_typescript_library()
    # Programs that scripts start are those of this Node.js, too.
    path = os.pathsep.join([str(node.parent), os.environ["PATH"]])
    return subprocess.run(
        [str(node), *arguments],
        cwd=folder, env={**os.environ, **(environment or {}), "PATH": path}, capture_output=is_captured, text=True,
        timeout=_SECONDS, check=False,
    )  # fmt: skip


if __name__ == "__main__":
    try:
        sys.exit(run_node(["--run", *sys.argv[1:]], is_captured=False).returncode)
    except InstallError as error:
        sys.exit(str(error))
