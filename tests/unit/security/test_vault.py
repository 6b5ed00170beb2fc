"""What is sealed opens in its own context only, and survives the rotation of the key ring."""

import base64
import hashlib
import os
from dataclasses import replace
from uuid import uuid4

import pytest

from app.core.errors import GatewayError
from app.security.vault import DataKey, KeyRing, SealBroken, Vault
from tests.harness.cases import for_each

CONTEXT = ("credential", "tenant", "provider", "id", "slot", "1", "api_key", "", "https://api.example")


def entry(key_id: str) -> str:
    return f"{key_id}:{base64.b64encode(os.urandom(32)).decode()}"


def vault_with(ring: str, *rows: DataKey) -> Vault:
    vault = Vault(KeyRing.parse(ring))
    vault.load(rows)
    return vault


@pytest.fixture
def ring() -> str:
    return entry("k1")


@pytest.fixture
def rows(ring: str) -> list[DataKey]:
    maker = Vault(KeyRing.parse(ring))
    return [maker.new_data_key("data"), maker.new_data_key("digest")]


@pytest.fixture
def vault(ring: str, rows: list[DataKey]) -> Vault:
    return vault_with(ring, *rows)


class TestSealing:
    def test_opens_in_the_same_context(self, vault: Vault) -> None:
        assert vault.open(vault.seal(b"secret", context=CONTEXT), context=CONTEXT) == b"secret"

    def test_the_same_text_is_sealed_differently_each_time(self, vault: Vault) -> None:
        assert vault.seal(b"secret", context=CONTEXT) != vault.seal(b"secret", context=CONTEXT)

    @for_each("part", range(len(CONTEXT)))
    def test_any_other_part_of_the_context_does_not_open(self, vault: Vault, part: int) -> None:
        blob = vault.seal(b"secret", context=CONTEXT)
        other = (*CONTEXT[:part], CONTEXT[part] + "x", *CONTEXT[part + 1 :])
        with pytest.raises(SealBroken):
            vault.open(blob, context=other)

    @for_each("moved", [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), ()])
    def test_parts_do_not_flow_into_each_other(self, vault: Vault, moved: tuple[str, ...]) -> None:
        blob = vault.seal(b"secret", context=("a", "b", "c"))
        with pytest.raises(SealBroken):
            vault.open(blob, context=moved)

    def test_every_flipped_byte_is_noticed(self, vault: Vault) -> None:
        blob = vault.seal(b"secret", context=CONTEXT)
        for position in range(len(blob)):
            damaged = bytearray(blob)
            damaged[position] ^= 1
            with pytest.raises(SealBroken):
                vault.open(bytes(damaged), context=CONTEXT)

    @for_each("length", [0, 1, 16, 17, 28, 29, 30, 44])
    def test_truncated_blobs_are_rejected(self, vault: Vault, length: int) -> None:
        with pytest.raises(SealBroken):
            vault.open(vault.seal(b"secret", context=CONTEXT)[:length], context=CONTEXT)

    def test_the_error_is_ours_and_tells_nothing(self, vault: Vault) -> None:
        with pytest.raises(GatewayError) as broken:
            vault.open(vault.seal(b"canary", context=CONTEXT), context=("other",))
        assert broken.value.status == 500
        assert "canary" not in str(broken.value)
        assert broken.value.__cause__ is None

    def test_nothing_is_sealed_without_a_data_key(self, ring: str) -> None:
        with pytest.raises(SealBroken):
            Vault(KeyRing.parse(ring)).seal(b"x", context=CONTEXT)


class TestDigest:
    def test_is_stable_and_depends_on_purpose_parts_and_their_borders(self, vault: Vault) -> None:
        digests = [
            vault.digest("key", b"ab", b"c"),
            vault.digest("key", b"a", b"bc"),
            vault.digest("key", b"abc"),
            vault.digest("token", b"ab", b"c"),
        ]
        assert digests[0] == vault.digest("key", b"ab", b"c")
        assert len(set(digests)) == 4
        assert all(len(digest) == 32 for digest in digests)

    def test_survives_a_second_digest_key(self, ring: str, rows: list[DataKey], vault: Vault) -> None:
        before = vault.digest("key", b"a")
        vault.load([vault.new_data_key("digest"), *rows])
        assert vault.digest("key", b"a") == before


class TestRotation:
    def test_a_new_key_in_front_wraps_and_the_old_one_can_go(self, ring: str, rows: list[DataKey]) -> None:
        blob = vault_with(ring, *rows).seal(b"secret", context=CONTEXT)
        new = entry("k2")
        both = vault_with(f"{new},{ring}", *rows)
        assert both.open(blob, context=CONTEXT) == b"secret"
        rewrapped = [both.rewrap(row) for row in rows]
        assert {row.kek_id for row in rewrapped} == {"k2"}
        assert [row.id for row in rewrapped] == [row.id for row in rows]
        assert vault_with(new, *rewrapped).open(blob, context=CONTEXT) == b"secret"

    def test_a_row_whose_key_is_not_in_the_ring_is_rejected_by_name(self, rows: list[DataKey]) -> None:
        with pytest.raises(SealBroken, match="'k1'"):
            vault_with(entry("k9"), *rows)

    def test_a_key_of_the_same_id_but_other_bytes_is_rejected(self, rows: list[DataKey]) -> None:
        with pytest.raises(SealBroken):
            vault_with(entry("k1"), *rows)

    def test_a_data_key_does_not_change_its_id_or_purpose(self, ring: str, rows: list[DataKey]) -> None:
        for moved in (replace(rows[0], id=uuid4()), replace(rows[0], purpose="digest")):
            with pytest.raises(SealBroken):
                vault_with(ring, moved)

    def test_the_newest_data_key_seals_whatever_the_order_of_the_rows(self, ring: str, vault: Vault) -> None:
        older, newer = vault.new_data_key("data"), vault.new_data_key("data")
        older, newer = sorted((older, newer), key=lambda row: row.id.bytes)
        vault.load([newer, older])
        blob = vault.seal(b"x", context=CONTEXT)
        assert blob[1:17] == newer.id.bytes
        assert vault.is_current(blob)
        vault.load([older])
        assert not vault.is_current(blob)
        with pytest.raises(SealBroken):
            vault.open(blob, context=CONTEXT)

    def test_a_failed_load_keeps_what_was_held(self, vault: Vault, rows: list[DataKey]) -> None:
        blob = vault.seal(b"x", context=CONTEXT)
        with pytest.raises(SealBroken):
            vault.load([replace(rows[0], kek_id="gone")])
        assert vault.open(blob, context=CONTEXT) == b"x"


class TestKeyRing:
    def test_takes_both_base64_alphabets_with_and_without_padding(self) -> None:
        raw = os.urandom(31) + b"\xff"
        rows = []
        for text in (
            base64.b64encode(raw),
            base64.urlsafe_b64encode(raw),
            base64.b64encode(raw).rstrip(b"="),
        ):
            ring = f" a : {text.decode()} "
            rows.append(Vault(KeyRing.parse(ring)).new_data_key("data"))
        vault_with(f"a:{base64.b64encode(raw).decode()}", *rows)

    def test_a_generated_entry_is_accepted(self) -> None:
        assert KeyRing.parse(KeyRing.generate("new")).first == "new"

    @for_each(
        "key",
        [
            b"",
            b"x" * 16,
            hashlib.sha256(b"31").digest()[:31],
            hashlib.sha256(b"33").digest() + b"!",
            bytes(32),
            b"\xff" * 32,
            b"changeme-changeme-changeme-chang",
            b"0123456789abcdef0123456789abcdef",
            bytes(range(32)),
            bytes(range(32, 0, -1)),
            b"\x1e\xe1\xb9," * 8,
        ],
    )
    def test_weak_keys_are_rejected_without_being_shown(self, key: bytes) -> None:
        encoded = base64.b64encode(key).decode()
        with pytest.raises(ValueError, match="'weak'") as refused:
            KeyRing.parse(f"weak:{encoded}")
        assert not encoded or encoded not in str(refused.value)
        assert "openssl rand" in str(refused.value)

    @for_each("text", ["", "abc", "id:", ":abc", "a b:xyz", "id:not base64!", "x" * 33 + ":AAAA", ","])
    def test_what_is_no_ring_is_rejected_without_being_shown(self, text: str) -> None:
        with pytest.raises(ValueError, match="key") as refused:
            KeyRing.parse(text)
        assert "base64!" not in str(refused.value)

    def test_an_id_or_a_key_given_twice_is_rejected(self) -> None:
        one = entry("a")
        with pytest.raises(ValueError, match="twice"):
            KeyRing.parse(f"{one},{entry('a')}")
        with pytest.raises(ValueError, match="two ids"):
            KeyRing.parse(f"{one},b:{one.removeprefix('a:')}")

    def test_shows_ids_only(self) -> None:
        one = entry("a")
        assert repr(KeyRing.parse(one)) == "KeyRing(a)"
