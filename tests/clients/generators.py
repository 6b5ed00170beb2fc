"""The generators of clients, and the linters; `python -m tests.clients.generators` downloads them to .venvs/clients.

Those of TypeScript, and TypeScript itself, are the npm packages of package.json. The versions of hey-api and orval are from
before these required Node.js 22, which is newer than Debian's; the version of Redocly is from before it required Node.js 20.
"""

import sys
from pathlib import Path

from tests.interop.environments import InstallError, required
from tests.interop.environments import install as install_python
from tests.interop.environments import install_npm as install_packages

__all__ = ["install_generator", "install_npm", "required"]

HERE = Path(__file__).parent
_FOLDER = Path(__file__).parents[2] / ".venvs" / "clients"


def install_npm() -> Path:
    """Return the folder node_modules with the packages of package.json, installed if necessary; raise InstallError."""
    return install_packages(HERE / "package.json", _FOLDER)


def install_generator() -> Path:
    """Return the interpreter of openapi-python-client, installed if necessary; raise InstallError."""
    return install_python("openapi-python-client")


if __name__ == "__main__":
    for each in (install_npm, install_generator):
        try:
            print(each())
        except InstallError as error:
            # The tests that need it report it, too.
            print(error, file=sys.stderr)
