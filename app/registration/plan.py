"""A reading -> a Draft: which credentials are stored, where they may go, and what lacks consent."""

from collections.abc import Iterable, Mapping
from typing import Any

from app.credentials.model import DISCOVERY_SLOTS, EGRESS_SLOT, GivenCredential, InlineCredential, Json
from app.credentials.origins import origin_of
from app.credentials.sealing import named_variables, spelled_as_stored
from app.credentials.slots import Binding, complete, tool_origins, without_consent
from app.errors import Fault, InvalidInput
from app.models import Credential
from app.registration.context import Subject
from app.registration.model import Draft
from app.registration.source_reader import Reading, SourceReader
from app.text import pointer


def draft(reading: Reading, subject: Subject, *, reader: SourceReader) -> Draft:
    """Completes every credential.

    Raises InvalidInput for a credential in a slot that the source does not have, or that nobody can tell
    where to send, and Forbidden where the caller may store none. What is stored already is left as it is.
    """
    tools, named = reading.tool_set.tools, reading.named_origins
    slots = {str(slot["slot"]): slot for slot in reading.tool_set.slots}
    ready: dict[str, GivenCredential] = {**reading.discovery}
    ready |= _egress(subject)
    unsent: list[Json] = []
    for slot, given in subject.given.items():
        at = pointer(subject.at, "credentials", slot)
        if slot in DISCOVERY_SLOTS and slot in ready:
            continue
        if slot not in slots:
            fault = Fault(at, "The source asks for no credential of this name.", expected=sorted(slots))
            raise InvalidInput("A credential does not belong here.", errors=[fault])
        binding = reader.binding(named, tool_origins(tools, slot))
        spelled = spelled_as_stored(given, scope=subject.scope, at=at)
        ready[slot] = complete(spelled, slot=slots[slot], binding=binding, at=at)
    for inline in reading.tool_set.inline:
        if inline.slot in ready or inline.slot in subject.stored:
            continue
        # Of tools that were fetched only their own values go where they say.
        theirs = () if reading.fetched else tool_origins(tools, inline.slot)
        bound = _bound(inline, reading, reader.binding(named, inline.origins or theirs))
        if bound is None:
            token_url = inline.given.public.get("token_url")
            unsent.append({"slot": inline.slot, "origins": [*inline.origins], "token_url": token_url})
        else:
            ready[inline.slot] = bound
    if ready:
        subject.reach.permit_sealing()
    stored = {slot: stored_destination(row) for slot, row in subject.stored.items()}
    lacking = without_consent(
        tools, slots=reading.tool_set.slots, credentials={**stored, **ready}, named=named
    )
    known = {entry["slot"] for entry in unsent}
    return Draft(
        tool_set=reading.tool_set,
        call_template=reading.call_template,
        named_origins=named,
        credentials=ready,
        needs_consent=(*unsent, *(entry for entry in lacking if entry["slot"] not in known)),
    )


def stored_destination(row: Credential) -> GivenCredential:
    """A stored credential as far as its destination goes: no secrets."""
    return GivenCredential(row.kind, row.public, {}, tuple(row.allowed_origins))  # type: ignore[arg-type]


def _bound(inline: InlineCredential, reading: Reading, binding: Binding) -> GivenCredential | None:
    """A credential that stood in a template, with where it may go; None where that needs consent.

    What a fetched manual says goes with its own values only: one that names the registrar's variables goes to
    the origin that the registrar named, and to no other token endpoint.
    """
    given = inline.given
    theirs = bool(inline.origins) and not inline.shared
    borrowed = reading.fetched and theirs and bool(named_variables(given.secrets))
    origins = inline.origins if theirs and not borrowed else reading.named_origins
    token_url = given.public.get("token_url")
    if borrowed and token_url and origin_of(str(token_url)) not in reading.named_origins:
        return None
    bound = GivenCredential(given.kind, given.public, given.secrets, origins or None)
    return complete(bound, slot=None, binding=binding, at="")


def _egress(subject: Subject) -> dict[str, GivenCredential]:
    if not subject.option_secrets or EGRESS_SLOT in subject.stored:
        return {}
    return {EGRESS_SLOT: egress_credential(subject.option_secrets)}


def egress_credential(secrets: Mapping[str, str]) -> GivenCredential:
    """The secret outbound settings; no origin may be sent them, because they are for the connection."""
    return GivenCredential("static", {}, dict(secrets), ())


def needed_slots(tool_set_slots: Iterable[Mapping[str, Any]], stored: Iterable[str]) -> list[str]:
    """The slots that have no credential yet."""
    have = set(stored)
    return [str(slot["slot"]) for slot in tool_set_slots if slot["slot"] not in have]
