"""The official SDKs with which the entries of the catalogue are verified, and where the documents of the tests are."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.interop.environments import FOLDER, PACKAGES, install_npm
from tests.plugins.requests import Json

PYTHON: Final = "plugin-sdks"
NODE: Final = "plugin-sdks-npm"


@dataclass(frozen=True, slots=True)
class Sdk:
    """An SDK that its vendor publishes: its package on PyPI or npm, with version and licence, and its source."""

    package: str
    license: str
    source: str
    driver: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def is_python(self) -> bool:
        """Whether it is of PyPI."""
        return self.driver.endswith(".py")
