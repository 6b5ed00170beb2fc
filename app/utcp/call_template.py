"""What every call template has, whatever its protocol."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.errors import InvalidInput
from app.text import pointer
from app.utcp.auth import Auth, faults_of, read_auth

Model = TypeVar("Model", bound="CallTemplate")

_ALL_BELOW: Final = "**"


@dataclass(frozen=True, slots=True)
class InlineDocument:
    """A document that a call template holds itself; `at` is the JSON pointer of it in the template."""

    content: str = field(repr=False)
    at: str
    base_url: str | None = None
    auth_tools: Auth | None = field(default=None, repr=False)


class CallTemplate(BaseModel):
    """A call template of one protocol, in the spelling of UTCP 1.x.

    What a class says of its protocol, as JSON pointers into the template whose `*` is any one key and whose
    last `**` is anything below: `sealed` are values that are always kept as secrets, `may_be_secret` those
    that are when they name a secret variable. Everywhere else a secret variable is refused.
    """

    model_config = ConfigDict(
        extra="ignore", frozen=True, hide_input_in_errors=True, coerce_numbers_to_str=True
    )

    sealed: ClassVar[tuple[str, ...]] = ()
    may_be_secret: ClassVar[tuple[str, ...]] = ()
    braced_only: ClassVar[tuple[str, ...]] = ()
    """Texts of a language in which `$name` means something else: only `${NAME}` is a variable there."""
    url_fields: ClassVar[tuple[str, ...]] = ("url",)
    """Fields that are URLs: their userinfo and the values of their query are sealed."""
    not_variables: ClassVar[re.Pattern[str] | None] = None
    """Names after a `$` that the protocol's own language gives a meaning: they are no variables."""
    name: str | None = None
    call_template_type: str
    auth: Auth | None = Field(default=None, repr=False)
    allowed_communication_protocols: list[str] | None = None

    @property
    def is_local(self) -> bool:
        """Whether it works on the gateway's own machine: no such template is taken from a fetched manual."""
        return False

    @property
    def takes_any_argument(self) -> bool:
        """Whether an argument that its tool does not declare would do what nobody foresaw."""
        return False

    @property
    def document(self) -> InlineDocument | None:
        """The document that a provider of this template is, None where one has to be discovered."""
        return None

    @property
    def passed_gateways(self) -> tuple[str, ...]:
        """The identities of gateways like this one that a call goes through."""
        return ()

    def through_gateway(self, *, keeps_auth: bool) -> Self:
        """Return the template as this gateway calls another one with it, with its auth or without."""
        return self if keeps_auth else self.model_copy(update={"auth": None})

    def of_tool(self, name: str) -> Self:  # noqa: ARG002 - for protocols that name tools.
        """The template of the tool that a manual calls so."""
        return self

    def stored(self) -> dict[str, Any]:
        """The template as plain JSON without auth, which becomes a credential, and without what is not
        set.
        """
        # A variable may stand where the model has a number.
        return self.model_dump(
            mode="json", by_alias=True, exclude={"auth", "auth_tools"}, exclude_none=True, warnings=False
        )

    @classmethod
    def storable(cls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields, as they were given, that must hold no character which cannot be stored."""
        return fields

    @classmethod
    def default_of(cls, name: str) -> Any:
        """The default of a field."""
        return cls.model_fields[name].get_default(call_default_factory=True)


@dataclass(frozen=True, slots=True)
class Template:
    """A call template in 1.x spelling."""

    protocol: str
    model: CallTemplate = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str | None:
        """Its own name."""
        return self.model.name


def compile_template(fields: Mapping[str, Any], model: type[Model], *, at: str = "") -> Model:
    """Return the typed form of a template in 1.x spelling; raise InvalidInput with pointers below `at`."""
    auths = {
        key: None if fields.get(key) is None else read_auth(fields[key], at=pointer(at, key))
        for key in ("auth", "auth_tools")
    }
    protocol = model.model_fields["call_template_type"].default
    try:
        return model.model_validate({**fields, **auths, "call_template_type": protocol})
    except ValidationError as error:
        detail = f"The {protocol} call template is not valid"
        raise InvalidInput(detail, errors=faults_of(error, at=at)) from None


def texts_at(template: Any, patterns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Each text of a JSON value that one of the patterns means, with its pointer."""
    for pattern in patterns:
        yield from _matching(template, pattern.split("/")[1:], "")


def replaced(template: Any, texts: dict[str, str]) -> Any:
    """A copy of a JSON value with other texts at the given pointers; a pointer that leads nowhere is
    ignored.
    """
    return _replaced(template, texts, "") if texts else template


def _matching(value: Any, keys: list[str], at: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if not keys or keys == [_ALL_BELOW]:
            yield at, value
        return
    if not keys or not isinstance(value, dict | list):
        return
    rest = keys if keys[0] == _ALL_BELOW else keys[1:]
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in members:
        if keys[0] in ("*", _ALL_BELOW, str(key)):
            yield from _matching(member, rest, pointer(at, key))


def _replaced(value: Any, texts: dict[str, str], at: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(member, texts, pointer(at, key)) for key, member in value.items()}
    if isinstance(value, list):
        return [_replaced(member, texts, pointer(at, index)) for index, member in enumerate(value)]
    return texts.get(at, value)
