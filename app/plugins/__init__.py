"""Plugins: ready providers, which one command enables with their credentials, each a toolset of its name.

`entry` is the format of the catalogue, `loader` reads it; `service` enables and disables.
"""

from app.plugins.configuration import PluginConfiguration
from app.plugins.entry import PluginEntry
from app.plugins.loader import PluginCatalogue
from app.plugins.service import PluginService
from app.plugins.words import PluginWords

__all__ = [
    "PluginCatalogue",
    "PluginConfiguration",
    "PluginEntry",
    "PluginService",
    "PluginWords",
]
