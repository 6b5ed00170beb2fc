"""The patterns of the names of providers, toolsets and tools, as regular expressions of JSON Schema and of
Python.
"""

from typing import Final

PROVIDER_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,49}$"
TOOLSET_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,49}$"
TOOL_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"
