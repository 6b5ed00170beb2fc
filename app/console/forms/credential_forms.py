"""Forms of credentials, made from the API's own description of them: its OpenAPI document.

The form of a provider has one object for each of its slots; what is submitted for a slot is the body of
`PUT /providers/{name}/credentials/{slot}`. A secret that was submitted is never part of a page again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from starlette.datastructures import FormData

from app.console.forms.schema_form import FormView, Submission, build, parse
from app.console.forms.schema_form.fields import ArrayField, Field, ObjectField
from app.console.http.api_schemas import api_components, is_secret, without_null
from app.console.http.page import Page

Json = dict[str, Any]

_ORIGINS: Final = "allowed_origins"
_SHOWN_SECRETS: Final = 2
"""So many secrets of a kind are shown at once, beside what it requires; all else is folded away."""


@dataclass(frozen=True, slots=True)
class SlotForm:
    """The form of one slot. `main` are the fields that nearly everybody needs, `more` the others."""

    slot: Json
    kind: str
    main: Sequence[Field]
    more: Sequence[Field]
    chosen: bool
    """Whether the kind is chosen in the form, because the source does not say one."""

    @property
    def is_open(self) -> bool:
        """Whether the folded fields are shown: one has an error, or a list of them has items."""
        return any(_has_errors(one) or (isinstance(one, ArrayField) and one.items) for one in self.more)


@dataclass(frozen=True, slots=True)
class CredentialForms:
    """The forms of some slots of a provider: `slots` are those of the API (`SlotView`)."""

    slots: Sequence[Json]
    components: Json
    gettext: Callable[[str], str]
    with_origins: bool = False

    @classmethod
    async def load(cls, page: Page, slots: Sequence[Json], *, with_origins: bool = False) -> Self:
        """Return the forms in the language of a page; `with_origins`: also of where a credential is sent."""
        # A client certificate is an option of the provider; where metadata name the token endpoint, a token
        # will do, too.
        shown = [
            {**slot, "exact_kind": "any"} if slot.get("metadata_url") else slot
            for slot in slots
            if slot["exact_kind"] != "mutual_tls"
        ]
        return cls(shown, await api_components(page), page.gettext, with_origins)

    def views(
        self,
        values: Mapping[str, Any] | None = None,
        errors: Iterable[Mapping[str, Any]] = (),
        submission: Submission | None = None,
    ) -> list[SlotForm]:
        """Return the forms, with the values that are not secret; `errors` point below `/<slot>`."""
        if submission is not None:
            values = submission.value if isinstance(submission.value, dict) else {}
            # Its texts are what somebody typed, which may be secret.
            submission = replace(submission, texts={})
        shown = {
            slot["slot"]: self._drop_secrets(slot, (values or {}).get(slot["slot"]) or {})
            for slot in self.slots
        }
        view: FormView = build(
            self._build_schema(), shown, errors, submission, prefix="credential", gettext=self.gettext
        )
        fields = {one.label: one for one in view.root.members} if isinstance(view.root, ObjectField) else {}
        return [self._build_form(slot, fields[slot["slot"]]) for slot in self.slots if slot["slot"] in fields]

    def submitted(self, form: FormData) -> Submission:
        """Return what a form has for the slots; `is_edit` where a button has only changed the form."""
        items = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
        return parse(items, self._build_schema(), self.gettext)

    def filled_in(self, submission: Submission) -> Json:
        """Return the credentials that were filled in, by slot; each is a body of the API."""
        filled: Json = {}
        for slot in self.slots:
            values = submission.value if isinstance(submission.value, dict) else {}
            given = values.get(slot["slot"])
            if isinstance(given, dict) and (body := self._build_body(slot, given)) is not None:
                filled[slot["slot"]] = body
        return filled

    def _build_schema(self) -> Json:
        return {
            "type": "object",
            "properties": {slot["slot"]: self._build_slot_schema(slot) for slot in self.slots},
            "additionalProperties": False,
            "components": {"schemas": self.components},
        }

    def _build_slot_schema(self, slot: Json) -> Json:
        components = self.components
        kind = slot["exact_kind"]
        if kind == "static" and slot.get("values"):
            return _build_static_schema(slot["values"])
        kinds = _list_kinds(components)
        if kind in kinds:
            return self._without(components[kinds[kind]], ("kind",))
        return {"oneOf": [self._without(components[name], ()) for name in kinds.values()]}

    def _without(self, schema: Json, names: tuple[str, ...]) -> Json:
        left_out = names if self.with_origins else (*names, _ORIGINS)
        members = {
            name: _show_member(member)
            for name, member in schema["properties"].items()
            if name not in left_out
        }
        required = [name for name in schema.get("required", ()) if name in members]
        return {
            "type": "object",
            "title": schema.get("title", "").removesuffix("Input"),
            "properties": members,
            "required": required,
            "additionalProperties": False,
        }

    def _build_form(self, slot: Json, field: Field) -> SlotForm:
        kind = slot["exact_kind"]
        members = list(field.members) if isinstance(field, ObjectField) else [field]
        main: list[Field] = []
        more: list[Field] = []
        secrets = 0
        for member in members:
            is_secret = getattr(member, "control", "") == "password" or member.label in ("private_key", "key")
            secrets += is_secret
            is_main = (
                member.required
                or not isinstance(field, ObjectField)
                or (is_secret and secrets <= _SHOWN_SECRETS)
            )
            (main if is_main else more).append(member)
        return SlotForm(slot, kind, main, more, not isinstance(field, ObjectField))

    def _build_body(self, slot: Json, value: Json) -> Json | None:
        """Return the body of a slot that was filled in; None where no secret is there."""
        kind = slot["exact_kind"]
        if kind == "static" and slot.get("values"):
            names = {_name_static(one): one for one in slot["values"]}
            values = [
                {**names[name], "value": text} for name, text in value.items() if text and name in names
            ]
            return {"kind": "static", "values": values} if values else None
        kinds = _list_kinds(self.components)
        chosen = kind if kind in kinds else str(value.get("kind", ""))
        if chosen not in kinds:
            return None
        secrets = _list_secret_names(self.components[kinds[chosen]])
        if not any(value.get(name) for name in secrets):
            return None
        return {**value, "kind": chosen}

    def _drop_secrets(self, slot: Json, body: Json) -> Json:
        """Return what a form may show of a body: no secret."""
        kinds = _list_kinds(self.components)
        is_fixed = slot["exact_kind"] in kinds
        name = kinds.get(slot["exact_kind"] if is_fixed else str(body.get("kind", "")))
        if name is None or (slot["exact_kind"] == "static" and slot.get("values")):
            return {}
        left_out = {*_list_secret_names(self.components[name]), *(("kind",) if is_fixed else ())}
        shown = {key: value for key, value in body.items() if key not in left_out}
        if isinstance(shown.get("values"), list):
            shown["values"] = [
                {key: text for key, text in one.items() if key != "value"}
                for one in shown["values"]
                if isinstance(one, dict)
            ]
        return shown


def missing_slots(provider: Mapping[str, Any]) -> list[str]:
    """Return the slots that tools of a provider need and that have no credential."""
    report = provider["report"] or {}
    needed = {
        slot
        for one in report.get("operations", ())
        for alternative in one.get("security") or ()
        for slot in alternative
    }
    return [
        slot["slot"]
        for slot in provider["slots"]
        if not slot["stored"] and (slot["slot"] in needed or slot["exact_kind"] != "any")
    ]


def _list_kinds(components: Mapping[str, Any]) -> dict[str, str]:
    """Return the component of each kind of credential."""
    mapping = components["CredentialInput"]["discriminator"]["mapping"]
    return {kind: str(reference).rpartition("/")[2] for kind, reference in mapping.items()}


def _list_secret_names(schema: Mapping[str, Any]) -> list[str]:
    """Return the members that are secret: the API never returns them."""
    return [name for name, member in schema["properties"].items() if is_secret(member)]


def _show_member(member: Mapping[str, Any]) -> Json:
    """Return the schema of a member as its field shows it: the limits of secrets are for the API to judge."""
    shown = without_null(member)
    if is_secret(member):
        shown = {
            key: value for key, value in shown.items() if key not in ("pattern", "minLength", "maxLength")
        }
    return shown


def _name_static(value: Mapping[str, Any]) -> str:
    return f"{value['location']} {value['name']}"


def _build_static_schema(values: Iterable[Mapping[str, Any]]) -> Json:
    secret = {"type": "string", "format": "password", "writeOnly": True}
    return {
        "type": "object",
        "properties": {_name_static(one): secret for one in values},
        "additionalProperties": False,
    }


def _has_errors(field: Field) -> bool:
    inner: Iterable[Field] = field.members if isinstance(field, ObjectField) else ()
    return bool(field.errors) or any(_has_errors(one) for one in inner)
