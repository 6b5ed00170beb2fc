"""A sealed credential is bound to its owner, version and destinations."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from app.security.sealed_credentials import (
    SealedCredential,
    SealedVariable,
    open_credential,
    open_variable,
    seal_credential,
    seal_variable,
)
from app.security.vault import KeyRing, SealBroken, Vault
from tests.harness.cases import for_each


@pytest.fixture
def vault() -> Vault:
    vault = Vault(KeyRing.parse(KeyRing.generate("k")))
    vault.load([vault.new_data_key("data"), vault.new_data_key("digest")])
    return vault


@pytest.fixture
def credential(vault: Vault) -> SealedCredential:
    plain = SealedCredential(
        id=uuid4(),
        tenant_id=uuid4(),
        provider_id=uuid4(),
        slot="default",
        version=1,
        kind="oauth2",
        public={"token_url": "https://idp.example/token"},
        allowed_origins=("https://a.example", "https://b.example"),
        sealed=b"",
    )
    return seal_credential(plain, vault=vault, fields={"client_id": "id", "client_secret": "canary"})


def test_opens_as_it_was_sealed(vault: Vault, credential: SealedCredential) -> None:
    assert open_credential(credential, vault=vault) == {"client_id": "id", "client_secret": "canary"}


def test_the_order_of_origins_does_not_matter(vault: Vault, credential: SealedCredential) -> None:
    turned = replace(credential, allowed_origins=tuple(reversed(credential.allowed_origins)))
    assert open_credential(turned, vault=vault)["client_secret"] == "canary"


@for_each(
    "change",
    [
        {"id": UUID(int=1)},
        {"tenant_id": UUID(int=1)},
        {"provider_id": UUID(int=1)},
        {"slot": "other"},
        {"version": 2},
        {"version": 0},
        {"kind": "bearer"},
        {"public": {"token_url": "https://evil.example/token"}},
        {"public": {}},
        {"allowed_origins": ("https://evil.example",)},
        {"allowed_origins": ("https://a.example", "https://b.example", "https://evil.example")},
        {"allowed_origins": ("https://a.example",)},
        {"allowed_origins": ()},
    ],
    ids=str,
)
def test_moved_to_another_place_it_does_not_open(vault: Vault, credential: SealedCredential, change) -> None:
    with pytest.raises(SealBroken):
        open_credential(replace(credential, **change), vault=vault)


def test_the_secret_is_not_in_its_representation(credential: SealedCredential) -> None:
    assert "canary" not in repr(credential)
    assert "sealed" not in repr(credential)


def test_secret_variables_are_sealed_and_public_ones_are_not(vault: Vault) -> None:
    public = SealedVariable(
        id=uuid4(),
        tenant_id=uuid4(),
        name="HOST",
        secret=False,
        value=None,
        sealed=None,
        version=1,
        provider_id=None,
    )
    stored = seal_variable(public, vault=vault, value="a.example")
    assert (stored.value, stored.sealed) == ("a.example", None)
    secret = seal_variable(replace(public, secret=True), vault=vault, value="canary")
    assert secret.value is None
    assert b"canary" not in (secret.sealed or b"")
    assert open_variable(secret, vault=vault) == "canary"
    assert "canary" not in repr(secret)
    assert "a.example" not in repr(stored)


@for_each(
    "change",
    [
        {"id": UUID(int=1)},
        {"tenant_id": UUID(int=1)},
        {"provider_id": UUID(int=1)},
        {"name": "X"},
        {"version": 2},
    ],
    ids=str,
)
def test_a_variable_moved_to_another_place_does_not_open(vault: Vault, change) -> None:
    empty = SealedVariable(
        id=uuid4(),
        tenant_id=uuid4(),
        name="KEY",
        secret=True,
        value=None,
        sealed=None,
        version=1,
        provider_id=None,
    )
    sealed = seal_variable(empty, vault=vault, value="canary")
    with pytest.raises(SealBroken):
        open_variable(replace(sealed, **change), vault=vault)
