"""Types of settings."""

from typing import Annotated

from pydantic_settings import NoDecode

Words = Annotated[tuple[str, ...], NoDecode]
"""A list given as words separated by commas or white space."""
