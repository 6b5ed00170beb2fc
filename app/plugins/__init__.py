"""Plugins: ready providers, which one command enables with their credentials, each a toolset of its name.

`entry` is the format of the catalogue, `loader` reads it.
"""

from app.plugins.loader import PluginCatalogue, shipped_catalogue

__all__ = ["PluginCatalogue", "shipped_catalogue"]
