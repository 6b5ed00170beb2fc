"""API keys: their form, checksum and digest; scopes; what a principal may pass on."""

import math
import os
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.security.keys import ALPHABET, KEY_ID_PATTERN, KEY_LENGTH, SECRET_LENGTH, digest, mint, parse
from app.security.principal import Grant, Principal
from app.security.scopes import SCOPES, missing_scopes
from app.security.vault import KeyRing, Vault
from app.storage.models import TENANT
from tests.harness.cases import for_each


@pytest.fixture(scope="module")
def vault():
    vault = Vault(KeyRing({"k1": os.urandom(32)}))
    vault.load([vault.new_data_key("digest")])
    return vault


def principal(*scopes, **limits):
    return Principal(key_id="k", name="n", tenant_id=TENANT, scopes=frozenset(scopes), **limits)


def test_a_key_has_prefix_id_secret_and_checksum():
    minted = mint()
    assert re.fullmatch(r"ugw_[A-Za-z2-9]{12}_[A-Za-z2-9]{38}", minted.text.reveal())
    assert parse(minted.text.reveal()).key_id == minted.key_id
    assert re.match(KEY_ID_PATTERN, minted.key_id)


def test_the_secret_has_at_least_180_random_bits_without_look_alikes():
    assert SECRET_LENGTH * math.log2(len(set(ALPHABET))) >= 180
    assert not set("0O1Il") & set(ALPHABET)


def test_no_two_keys_are_alike():
    assert len({mint().text.reveal() for _ in range(500)}) == 500


def test_a_key_does_not_show_itself():
    minted = mint()
    assert minted.text.reveal() not in repr(minted)
    assert minted.text.reveal() not in repr(parse(minted.text.reveal()))


def test_one_wrong_character_anywhere_is_noticed():
    text = mint().text.reveal()
    for place in range(len(text)):
        wrong = text[:place] + ("a" if text[place] != "a" else "b") + text[place + 1 :]
        assert parse(wrong) is None


def test_two_characters_in_the_wrong_order_are_noticed():
    text = mint().text.reveal()
    for place in range(17, len(text) - 1):
        swapped = text[:place] + text[place + 1] + text[place] + text[place + 2 :]
        assert swapped == text or parse(swapped) is None


@for_each("change", [lambda t: t + "\n", lambda t: " " + t, lambda t: t.upper(), lambda t: t[:-1], lambda t: t + t])  # fmt: skip
def test_other_spellings_are_rejected(change):
    assert parse(change(mint().text.reveal())) is None


@given(st.text(max_size=120))
def test_any_text_can_be_parsed(text):
    assert parse(text) is None


@given(st.text(alphabet=ALPHABET, min_size=38, max_size=38))
def test_random_text_of_the_right_form_lacks_the_checksum(text):
    assert parse(f"ugw_{text[:12]}_{text}") is None


def test_the_digest_depends_on_the_whole_key_and_on_the_vault(vault):
    first, second = mint().text.reveal(), mint().text.reveal()
    other = Vault(KeyRing({"k1": os.urandom(32)}))
    other.load([other.new_data_key("digest")])
    assert digest(first, vault=vault) == digest(first, vault=vault)
    assert len({digest(first, vault=vault), digest(second, vault=vault), digest(first, vault=other)}) == 3
    assert first.encode() not in digest(first, vault=vault)


def test_lengths_agree():
    assert len(mint().text.reveal()) == KEY_LENGTH


def test_admin_holds_every_scope_and_others_only_their_own():
    assert all(principal("admin").has_scope(scope) for scope in SCOPES)
    assert principal("tools:read").has_scope("tools:read")
    assert not principal("tools:read").has_scope("tools:call")
    assert not principal("tools:read").has_scope("admin")
    assert missing_scopes(["admin"], held=frozenset(SCOPES) - {"admin"}) == ("admin",)


def test_limits_must_all_hold_and_bind_admins():
    limited = principal("admin", providers=frozenset({"library"}), tags=frozenset({"safe"}))
    assert limited.may_use("library", ["safe", "new"])
    assert not limited.may_use("library", ["new"])
    assert not limited.may_use("shop", ["safe"])
    assert not principal("admin", providers=frozenset()).may_use("library", [])
    assert principal("tools:call").may_use("anything", [])


A, B = frozenset({"a"}), frozenset({"b"})


@for_each(
    ("own", "wanted", "covered"),
    [
        ({}, {}, True),
        ({}, {"providers": A}, True),
        ({"providers": A}, {}, False),
        ({"providers": A}, {"providers": A}, True),
        ({"providers": A | B}, {"providers": A}, True),
        ({"providers": A}, {"providers": A | B}, False),
        ({"providers": A}, {"providers": frozenset()}, True),
        ({"tags": A}, {"providers": A}, False),
        ({"tags": A}, {"tags": A | B}, False),
        ({"providers": A, "tags": B}, {"providers": A, "tags": B}, True),
    ],
)
def test_a_grant_is_covered_only_by_the_same_or_wider_limits(own, wanted, covered):
    assert principal("admin", **own).covers_restrictions(Grant(frozenset({"admin"}), **wanted)) is covered


def test_a_grant_may_not_outlive_its_maker():
    end = datetime(2030, 1, 1, tzinfo=UTC)
    maker = principal("admin", expires_at=end)
    assert maker.covers_expiry(Grant(frozenset(), expires_at=end))
    assert not maker.covers_expiry(Grant(frozenset(), expires_at=end + timedelta(seconds=1)))
    assert not maker.covers_expiry(Grant(frozenset()))
    assert principal("admin").covers_expiry(Grant(frozenset()))
