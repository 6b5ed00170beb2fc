"""Protocols that need a library which is not always installed."""

from app.errors import Fault, InvalidInput


def refuse_without(extra: str, *, installed: bool, protocol: str) -> None:
    """Raises InvalidInput where the library of an extra is missing."""
    if not installed:
        detail = f"Protocol {protocol} needs the extra `{extra}`: pip install 'utcp-gateway[{extra}]'."
        raise InvalidInput(detail, errors=[Fault("/call_template_type", detail)])
