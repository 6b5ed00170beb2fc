"""The type of settings that are lists."""

from typing import Annotated

from pydantic import BeforeValidator
from pydantic_settings import NoDecode


def _split(value: object) -> object:
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


WordList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
"""A list of words, separated by commas or white space."""
