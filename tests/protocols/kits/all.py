"""The list of kits."""

from app.settings import Settings
from tests.protocols.kits.base import Kit
from tests.protocols.kits.http import HttpKit

KITS: tuple[Kit, ...] = (HttpKit(),)


def settings() -> Settings:
    """What an operator allows for these tests."""
    return Settings(_env_file=None)
