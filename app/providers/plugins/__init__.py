"""Plugins: ready providers, which one command enables with their credentials, each a toolset of its name.

`entry` is the format of the catalogue, `loader` reads it; `service` enables and disables.
"""

from app.providers.plugins.configuration import PluginConfiguration
from app.providers.plugins.entry import PluginEntry
from app.providers.plugins.loader import PluginCatalogue
from app.providers.plugins.service import PluginService
from app.providers.plugins.words import PluginWords

__all__ = [
    "PluginCatalogue",
    "PluginConfiguration",
    "PluginEntry",
    "PluginService",
    "PluginWords",
]
