"""Which slot a credential gets, and where it goes by default."""

import pytest

from app.core.errors import InvalidInput
from app.providers.credentials.model import CredentialDraft, CredentialSlot
from app.providers.credentials.slots import Binding, SlotAllocator, complete, matching_slots


def test_allocator_shares_slots_between_equal_credentials_and_retains_known_ones():
    def key(value):
        return CredentialDraft("api_key", {"name": "X"}, {"value": value})

    allocator = SlotAllocator(
        lambda draft: draft.secrets["value"], known={"b": "default"}, taken={"default-2"}
    )
    assert [allocator.assign(key(value), origin="https://o.example") for value in "abab"] == [
        "default-3", "default", "default-3", "default"]  # fmt: skip
    assert allocator.assignments[0].origins == ("https://o.example",)


def test_bearer_key_matches_a_bearer_slot_and_other_keys_their_own_parameter():
    bearer = CredentialDraft(
        "api_key", {"location": "header", "name": "authorization"}, {"value": "Bearer x"}
    )
    slots = [
        CredentialSlot("b", "bearer"),
        CredentialSlot("q", "api_key", location="query", parameter="k"),
    ]
    assert matching_slots(bearer, slots) == ["b"]
    assert matching_slots(
        CredentialDraft("api_key", {"location": "query", "name": "K"}, {"value": "x"}), slots
    ) == ["q"]


def test_token_url_without_tls_is_allowed_on_loopback_only():
    given = CredentialDraft("oauth2", {"token_url": "http://127.0.0.1:9/token"}, {})
    named = ("http://127.0.0.1:9",)
    assert (
        complete(given, slot=None, binding=Binding(named, (), loopback_tokens=True), at="").allowed_origins
        == named
    )
    with pytest.raises(InvalidInput):
        complete(given, slot=None, binding=Binding(named, ()), at="")
    other = CredentialDraft("oauth2", {"token_url": "http://example.com/token"}, {})
    with pytest.raises(InvalidInput):
        complete(other, slot=None, binding=Binding(named, (), loopback_tokens=True), at="")
