"""What whoever decides about a call sees of it: everything that is sent, but for secrets, which are listed.

    declared-secret   the tool's inputs say `writeOnly: true` or `format: password`; also where it appears in
                      the request
    known-secret      a value that this process has revealed as a secret, wherever it is
    too-large         too large to be shown, its schema is too large to tell whether it is a secret, or more
                      of its parts are hidden than are listed one by one
    earlier-release   hidden by an earlier release, which listed nothing

Nothing is hidden by its name or shape, nor for its length or depth: what cannot be seen cannot be approved.
What is shown and not listed is equal to what is sent.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal

from app.calls.arguments.masking import SchemaWalk, is_secret_schema, texts_of
from app.core import exact_json
from app.core.text import pointer
from app.protocols.base import LargeBody
from app.security.masking import MASK, MIN_SECRET, Masker

HiddenReason = Literal["declared-secret", "known-secret", "too-large", "earlier-release"]
_BASE64: Final = "base64"
# Each secret is searched for in about thirty encodings.
_MAX_SECRETS: Final = 200
_MAX_SECRET_CHARACTERS: Final = 100_000
MAX_HIDDEN: Final = 1_000
"""The number of hidden parts beyond which the object or array around the last one is hidden as a whole."""
_MAX_POINTER_CHARACTERS: Final = 100_000


@dataclass(frozen=True, slots=True)
class HiddenPart:
    """A value that is not shown as it is sent.

    `pointer` is a JSON pointer into what is shown, `bytes` the size of the whole value there as JSON, in
    bytes.
    """

    pointer: str
    reason: HiddenReason
    bytes: int


@dataclass(frozen=True, slots=True)
class Shown:
    """A JSON value as it is shown, and which parts of it are hidden, in document order."""

    value: Any = field(repr=False)
    hidden: tuple[HiddenPart, ...] = ()


def show_arguments(
    arguments: Mapping[str, Any], inputs: Mapping[str, Any], masker: Masker, *, at: str = ""
) -> Shown:
    """Return the arguments of a call with secrets replaced by `***`, and the list of these; `{}` where they
    are hidden as a whole.

    `inputs` is the JSON Schema of the tool; `masker` knows the secrets of the process. Pointers begin with
    `at`.
    """
    showing = _Showing(inputs, masker)
    value = showing.show_value(dict(arguments), [inputs], at)
    return Shown(value if isinstance(value, dict) else {}, tuple(showing.hidden))


def show_request(
    request: Mapping[str, Any],
    arguments: Mapping[str, Any],
    inputs: Mapping[str, Any],
    masker: Masker,
    *,
    at: str = "",
) -> Shown:
    """Return a described request of a call with these arguments, with their secrets replaced by `***`.

    The whole request is hidden where one of the secrets is too short to be told from other text, where there
    are too many to search for, and where it has too many levels to be written as JSON.
    """
    try:
        shown = _hide_secrets(request, arguments, inputs, masker, at)
        # Whoever sends it has a level around it.
        exact_json.dumps([shown.value])
    except (RecursionError, ValueError):
        return Shown(None, (HiddenPart(at, "too-large", _measure(request)),))
    return shown


def _hide_secrets(
    request: Mapping[str, Any],
    arguments: Mapping[str, Any],
    inputs: Mapping[str, Any],
    masker: Masker,
    path: str,
) -> Shown:
    of_arguments = _Showing(inputs, masker)
    of_arguments.show_value(dict(arguments), [inputs], "")
    secrets = set(of_arguments.secrets)
    if any(len(text) < MIN_SECRET for text in secrets):
        return Shown(None, (HiddenPart(path, "declared-secret", _measure(request)),))
    if of_arguments.is_cut or len(secrets) > _MAX_SECRETS or sum(map(len, secrets)) > _MAX_SECRET_CHARACTERS:
        return Shown(None, (HiddenPart(path, "too-large", _measure(request)),))
    declared = Masker()
    for text in secrets:
        declared.add(text)
    showing = _Showing({}, masker, declared if secrets else None)
    value = showing.show_value(dict(request), [], path)
    body = request.get("body")
    if isinstance(body, LargeBody):
        showing.hidden.append(HiddenPart(pointer(path, "body"), "too-large", body["bytes"]))
    return Shown(value if isinstance(value, dict) else None, tuple(showing.hidden))


def without_hidden_at(parts: Iterable[HiddenPart], pointers: Iterable[str]) -> tuple[HiddenPart, ...]:
    """Return the hidden parts that are neither at one of the JSON pointers nor below one."""
    left_out = tuple(pointers)
    return tuple(
        part
        for part in parts
        if not any(part.pointer == one or part.pointer.startswith(f"{one}/") for one in left_out)
    )


class _Showing(SchemaWalk):
    """Copies a JSON value; `hidden` lists what the copy does not show, `secrets` has the texts that the
    schemas declare to be secrets.
    """

    def __init__(self, root: Mapping[str, Any], masker: Masker, declared: Masker | None = None) -> None:
        super().__init__(root)
        self._masker = masker
        self._declared = declared
        self.hidden: list[HiddenPart] = []
        self.secrets: list[str] = []
        self.is_cut = False
        """Whether parts were hidden together, the secrets of which are not all in `secrets`."""
        self._pointer_characters = 0

    def show_value(self, value: Any, schemas: list[Mapping[str, Any]], path: str) -> Any:
        """Return what is shown of a value to which the schemas apply, at a JSON pointer."""
        applied = list(self.flatten(schemas))
        if self.is_exhausted or any(map(is_secret_schema, applied)):
            self.secrets += (text for text in texts_of(value) if text)
            if isinstance(value, bool):
                self.secrets.append(str(value).lower())
            return self._hide(value, path, "too-large" if self.is_exhausted else "declared-secret")
        if isinstance(value, dict):
            return self._show_object(value, applied, path)
        if isinstance(value, list | tuple):
            return self._show_list(value, applied, path)
        if isinstance(value, str):
            return self._show_text(value, path)
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            return self._show_number(value, path)
        return value

    def _show_list(self, value: Sequence[Any], schemas: list[Mapping[str, Any]], path: str) -> Any:
        shown: list[Any] = []
        count = len(self.hidden)
        for index, item in enumerate(value):
            shown.append(
                self.show_value(item, self.find_schemas_of_item(schemas, index), pointer(path, index))
            )
            if self._is_full:
                return self._hide_whole(value, path, count)
        return shown

    def _show_object(self, value: dict[str, Any], schemas: list[Mapping[str, Any]], path: str) -> Any:
        shown: dict[str, Any] = {}
        count = len(self.hidden)
        for name, member in value.items():
            masked, reason = self._mask(name)
            if reason is not None:
                # Names that differ remain different members.
                while masked in value or masked in shown:
                    masked += "*"
                self._hide(name, pointer(path, masked), reason)
            below = pointer(path, masked)
            if name == _BASE64 and self._declared is not None:
                # A secret within it is not found where it is short.
                shown[masked] = self._hide(member, below, "declared-secret")
            else:
                shown[masked] = self.show_value(member, self.find_schemas_of_member(schemas, name), below)
            if self._is_full:
                return self._hide_whole(value, path, count)
        return shown

    def _show_text(self, value: str, path: str) -> str:
        masked, reason = self._mask(value)
        if reason is not None:
            self._hide(value, path, reason)
        return masked

    def _show_number(self, value: float | Decimal, path: str) -> Any:
        _, reason = self._mask(str(value))
        return value if reason is None else self._hide(value, path, reason)

    def _mask(self, text: str) -> tuple[str, HiddenReason | None]:
        """Return a text with its secrets masked, and why; None where it has none."""
        known = self._masker.mask(text)
        masked = known if self._declared is None else self._declared.mask(known)
        if masked == text:
            return text, None
        return masked, "known-secret" if masked == known else "declared-secret"

    @property
    def _is_full(self) -> bool:
        return len(self.hidden) > MAX_HIDDEN or self._pointer_characters > _MAX_POINTER_CHARACTERS

    def _hide_whole(self, value: Any, path: str, count: int) -> str:
        """Hide an object or array in place of its parts: all that is hidden after the first `count`."""
        self._pointer_characters -= sum(len(part.pointer) for part in self.hidden[count:])
        del self.hidden[count:]
        self.is_cut = True
        return self._hide(value, path, "too-large")

    def _hide(self, value: Any, path: str, reason: HiddenReason) -> str:
        self.hidden.append(HiddenPart(path, reason, _measure(value)))
        self._pointer_characters += len(path)
        return MASK


def _measure(value: Any) -> int:
    """Return the length of a value as compact JSON, also of one that has too many levels to be written."""
    try:
        return len(exact_json.dumps(value))
    except RecursionError:
        pass
    size, rest = 0, [value]
    while rest:
        node = rest.pop()
        if isinstance(node, dict | list | tuple):
            # The brackets, and the commas between the members.
            size += 2 + max(len(node) - 1, 0)
            if isinstance(node, dict):
                size += sum(len(exact_json.dumps(name)) + 1 for name in node)
            rest += node.values() if isinstance(node, dict) else node
        else:
            size += len(exact_json.dumps(node))
    return size
