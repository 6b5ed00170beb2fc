"""Converted documents -> ParsedSource."""

import pytest

from app.providers.credentials.model import (
    DEFAULT_SLOT,
    CredentialDraft,
    CredentialSlot,
    SlotAssignment,
    SlotRequirement,
)
from app.providers.registration.from_openapi import with_auth_tools
from tests.unit.providers.registration.documents import API, API_KEY, parsed_document


def test_tools_need_the_slots_of_their_security_schemes():
    parsed = parsed_document("/pets", schemes=API_KEY)
    assert parsed.slots == (
        CredentialSlot("key", "api_key", scheme="key", location="header", parameter="X-Key", scopes=()),
    )
    assert [tool.security for tool in parsed.tools] == [((SlotRequirement("key"),),)]
    assert [tool.origin for tool in parsed.tools] == [API]


def test_document_without_security_scheme_gets_an_optional_default_slot():
    parsed = parsed_document("/pets")
    assert parsed.slots == (CredentialSlot(DEFAULT_SLOT, "any"),)
    assert parsed.tools[0].security == ((SlotRequirement(DEFAULT_SLOT),), ())


def test_auth_tools_is_assigned_to_the_slot_that_it_matches():
    auth = CredentialDraft("api_key", {"location": "header", "name": "x-key"}, {"value": "v"})
    parsed = with_auth_tools(parsed_document(schemes=API_KEY), auth)
    assert parsed.inline == (SlotAssignment("key", auth, ""),)


def test_auth_tools_that_matches_no_slot_is_a_warning():
    auth = CredentialDraft("basic", {}, {"username": "u", "password": "p"})
    parsed = with_auth_tools(parsed_document(schemes=API_KEY), auth)
    assert parsed.inline == ()
    assert parsed.report.warnings[-1].detail.startswith("auth_tools fits no security scheme")


@pytest.mark.parametrize("kind", ["api_key", "bearer", "basic", "oauth2"])
def test_auth_tools_is_not_for_operations_of_a_document_that_declares_no_security(kind):
    auth = CredentialDraft(kind, {"location": "header", "name": "x-key"}, {"value": "v"})
    parsed = with_auth_tools(parsed_document("/pets"), auth)
    assert parsed.inline == ()
    assert "of which the document has none" in parsed.report.warnings[-1].detail
