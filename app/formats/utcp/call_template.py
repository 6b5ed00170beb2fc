"""The base model of call templates, whatever their protocol."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.core.errors import InvalidInput
from app.core.text import pointer
from app.formats.toolclad.contract import Contract
from app.formats.utcp.auth import Auth, convert_field_errors, read_auth

Model = TypeVar("Model", bound="CallTemplate")

_ALL_BELOW: Final = "**"


@dataclass(frozen=True, slots=True)
class InlineDocument:
    """A document that a call template contains; `at` is its JSON pointer in the template."""

    content: str = field(repr=False)
    at: str
    base_url: str | None = None
    auth_tools: Auth | None = field(default=None, repr=False)


class CallTemplate(BaseModel):
    """A call template of one protocol, in the spelling of UTCP 1.x.

    Class attributes describe the protocol's values by JSON pointers into the template, in which `*` matches
    any one key and a final `**` everything below: `sealed` are values that are always stored as secrets,
    `may_be_secret` those that are secrets when they name a secret variable. Everywhere else a secret variable
    is rejected.
    """

    model_config = ConfigDict(
        extra="ignore", frozen=True, hide_input_in_errors=True, coerce_numbers_to_str=True
    )

    sealed: ClassVar[tuple[str, ...]] = ()
    may_be_secret: ClassVar[tuple[str, ...]] = ()
    braced_only: ClassVar[tuple[str, ...]] = ()
    """Strings of a language in which `$name` has another meaning: only `${NAME}` is a variable there."""
    url_fields: ClassVar[tuple[str, ...]] = ("url",)
    """Fields that are URLs: their userinfo and the values of their query are stored as secrets."""
    not_variables: ClassVar[re.Pattern[str] | None] = None
    """Names after a `$` that have a meaning in the protocol's own language, and so are not variables."""
    name: str | None = None
    call_template_type: str
    auth: Auth | None = Field(default=None, repr=False)
    allowed_communication_protocols: list[str] | None = None
    toolclad: Contract | None = None
    """The manifest that the tool comes from. Nothing in it is a variable."""

    @property
    def is_local(self) -> bool:
        """Whether calls run on the gateway's own machine: such a template is rejected in a fetched manual."""
        return False

    @property
    def takes_any_argument(self) -> bool:
        """Whether an argument that the tool does not declare could have an effect, so that it must be
        rejected.
        """
        return False

    @property
    def document(self) -> InlineDocument | None:
        """The document that a provider with this template consists of; None where it has to be fetched."""
        return None

    @property
    def passed_gateways(self) -> tuple[str, ...]:
        """The identities of the UTCP gateways that a call passes."""
        return ()

    def through_gateway(self, *, keeps_auth: bool) -> Self:
        """Return the template with which this gateway calls another one, with or without its auth."""
        return self if keeps_auth else self.model_copy(update={"auth": None})

    def for_tool(self, name: str) -> Self:  # noqa: ARG002 - for protocols that name tools.
        """Return the template of the tool of this name, in a manual or one that a person has written.

        Raise InvalidInput, with pointers into the template, where it names nothing that could be called.
        """
        return self

    def stored(self) -> dict[str, Any]:
        """Return the template as JSON, without auth, which becomes a credential, and without unset
        members.
        """
        # The value of a numeric field may be a variable.
        return self.model_dump(
            mode="json", by_alias=True, exclude={"auth", "auth_tools"}, exclude_none=True, warnings=False
        )

    @classmethod
    def storable(cls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return those of the given fields that must not contain characters which cannot be stored."""
        return fields

    @classmethod
    def get_default(cls, name: str) -> Any:
        """Return the default value of the field of this name."""
        return cls.model_fields[name].get_default(call_default_factory=True)


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed call template, in the spelling of UTCP 1.x, with notes on how it was read."""

    protocol: str
    model: CallTemplate = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str | None:
        """The name in the template, None where it has none."""
        return self.model.name


def compile_template(fields: Mapping[str, Any], model: type[Model], *, at: str = "") -> Model:
    """Return the typed form of a template in 1.x spelling; raise InvalidInput with pointers below `at`."""
    auths = {
        key: None if fields.get(key) is None else read_auth(fields[key], location=pointer(at, key))
        for key in ("auth", "auth_tools")
    }
    protocol = model.model_fields["call_template_type"].default
    try:
        return model.model_validate({**fields, **auths, "call_template_type": protocol})
    except ValidationError as error:
        detail = f"The {protocol} call template is not valid"
        raise InvalidInput(detail, errors=convert_field_errors(error, location=at)) from None


def list_strings(template: Any, patterns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield each string of a JSON value whose pointer matches one of the patterns, with this pointer."""
    for pattern in patterns:
        yield from _list_matching(template, pattern.split("/")[1:], "")


def replace_strings(template: Any, texts: dict[str, str]) -> Any:
    """Return a copy of a JSON value with the strings at the given pointers replaced; ignore dangling
    pointers.
    """
    return _replace_strings(template, texts, "") if texts else template


def _list_matching(value: Any, keys: list[str], location: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if not keys or keys == [_ALL_BELOW]:
            yield location, value
        return
    if not keys or not isinstance(value, dict | list):
        return
    rest = keys if keys[0] == _ALL_BELOW else keys[1:]
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in members:
        if keys[0] in ("*", _ALL_BELOW, str(key)):
            yield from _list_matching(member, rest, pointer(location, key))


def _replace_strings(value: Any, texts: dict[str, str], location: str) -> Any:
    if isinstance(value, dict):
        return {key: _replace_strings(member, texts, pointer(location, key)) for key, member in value.items()}
    if isinstance(value, list):
        return [
            _replace_strings(member, texts, pointer(location, index)) for index, member in enumerate(value)
        ]
    return texts.get(location, value)
