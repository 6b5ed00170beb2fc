"""Validates the outbound settings of a provider before they are stored."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from app.core.errors import FieldError, InvalidInput
from app.core.text import pointer
from app.outbound.egress import EgressSettings, tls_context
from app.security.secret import Secret

_NOTHING: Final = EgressSettings()


async def reject_unusable_egress(options: Mapping[str, Any], secrets: Mapping[str, str], *, at: str) -> None:
    """Raise InvalidInput, pointing below `at`, for settings with which no connection can be made."""
    await asyncio.to_thread(_try_each, options, secrets, at)


def _try_each(options: Mapping[str, Any], secrets: Mapping[str, str], options_pointer: str) -> None:
    tried = {}
    if secrets.get("proxy_url") is not None:
        tried["proxy_url"] = replace(_NOTHING, proxy_url=Secret(secrets["proxy_url"]))
    if options.get("ca_bundle") is not None:
        tried["ca_bundle"] = replace(_NOTHING, ca_bundle=options["ca_bundle"])
    if options.get("client_certificate") is not None:
        key = Secret(secrets["client_key"]) if secrets.get("client_key") else None
        certificate = options["client_certificate"]
        tried["client_certificate"] = replace(_NOTHING, client_certificate=certificate, client_key=key)
    problems: list[FieldError] = []
    for name, settings in tried.items():
        try:
            tls_context(settings)
        except InvalidInput as error:
            problems.append(FieldError(pointer(options_pointer, name), error.detail))
    if problems:
        raise InvalidInput("The upstream cannot be reached with these options.", errors=problems)
