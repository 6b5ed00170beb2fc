"""Which API a model is asked by, at which address, and with which key.

A key that the gateway is configured with is sent to the base URL that it is configured with, and to no other:
a model with a `base_url` of the request gets the key of the request, or none.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from app.agents.tests.definition import ModelDialect, ModelInput
from app.core.errors import FieldError
from app.core.settings import Settings
from app.core.text import pointer
from app.security.secret import Secret

ProviderName = Literal["anthropic", "openai", "gemini"]
_PREFIXES: Final = (
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gpt-|chatgpt-|o[0-9]"), "openai"),
    (re.compile(r"gemini-"), "gemini"),
)
_PROVIDERS: Final[Mapping[ModelDialect, ProviderName]] = {
    "anthropic": "anthropic",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "json-prompt": "openai",
    "gemini": "gemini",
}
_DIALECTS: Final[Mapping[ProviderName, ModelDialect]] = {
    "anthropic": "anthropic",
    "openai": "openai-chat",
    "gemini": "gemini",
}
DEFAULT_BASE_URLS: Final[Mapping[ProviderName, str]] = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
    "gemini": "https://generativelanguage.googleapis.com",
}


@dataclass(frozen=True, slots=True)
class ModelTarget:
    """A model to be asked: `label` is its name in the results, `model` the one at its API."""

    label: str
    model: str
    dialect: ModelDialect
    base_url: str
    api_key: Secret | None = field(default=None, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def takes_sampling(self) -> bool:
        """Whether the model accepts a temperature and `max_tokens`; reasoning models of OpenAI do not."""
        return _REASONING.match(self.model) is None


_REASONING: Final = re.compile(r"(o[0-9]|gpt-5)")


@dataclass(frozen=True, slots=True)
class ConfiguredProvider:
    """A provider of models as the settings have it."""

    base_url: str
    api_key: Secret | None
    key_name: str
    is_default_url: bool


class ConfiguredProviders:
    """The providers of models that the gateway is configured with."""

    def __init__(self, settings: Settings) -> None:
        found = {}
        for name, default in DEFAULT_BASE_URLS.items():
            base_url = getattr(settings, f"{name}_base_url")
            key = getattr(settings, f"{name}_api_key")
            found[name] = ConfiguredProvider(
                base_url or default,
                None if key is None else Secret(key.get_secret_value()),
                f"{name}_api_key".upper(),
                base_url is None,
            )
        self._providers: Mapping[ProviderName, ConfiguredProvider] = found

    def secrets(self) -> Iterable[str]:
        """Return the configured keys, to be masked."""
        return [one.api_key.reveal() for one in self._providers.values() if one.api_key is not None]

    def target(self, given: str | ModelInput, *, at: str) -> ModelTarget | FieldError:
        """Return the model that a request names at a JSON pointer, or what is wrong with it."""
        asked = given if isinstance(given, ModelInput) else ModelInput(model=given)
        provider = provider_of(asked.model)
        dialect = asked.dialect or (None if provider is None else _DIALECTS[provider])
        if dialect is None:
            hint = "" if asked.base_url is None else " Say by `dialect` which API it has."
            return FieldError(
                at if asked.base_url is None else pointer(at, "dialect"),
                f"Unsupported model: {asked.model}{'.' if hint else ''}{hint}",
                expected=None if hint else "a name that begins with claude-, gpt-, o1, gemini-, or an object",
            )
        label = asked.name or asked.model
        own_key = None if asked.api_key is None else Secret(asked.api_key.get_secret_value())
        if asked.base_url is not None:
            return ModelTarget(label, asked.model, dialect, asked.base_url, own_key, asked.options)
        configured = self._providers[_PROVIDERS[dialect]]
        key = own_key or configured.api_key
        if key is None and configured.is_default_url:
            return FieldError(
                at,
                f"There is no key for {asked.model}: set {configured.key_name} at the gateway, or give "
                "`base_url` or `api_key`.",
            )
        return ModelTarget(label, asked.model, dialect, configured.base_url, key, asked.options)


def provider_of(model: str) -> ProviderName | None:
    """Return the provider that the prefix of a model's name tells; None for another one."""
    for pattern, provider in _PREFIXES:
        if pattern.match(model):
            return provider  # type: ignore[return-value]
    return None
