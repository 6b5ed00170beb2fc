"""Which credentials a registration stores, and where they go."""

from dataclasses import replace

import pytest

from app.core.errors import Forbidden, InvalidInput
from app.providers.credentials.model import (
    EGRESS_SLOT,
    CredentialDraft,
    CredentialSlot,
    MissingConsent,
    SlotAssignment,
)
from app.providers.credentials.permissions import RegistrationPermissions
from app.providers.registration.plan import plan_registration
from tests.harness.cases import for_each
from tests.unit.providers.registration.documents import API, API_KEY, parsed_document

KEY = CredentialDraft("api_key", {"location": None, "name": None}, {"value": "v"})


async def test_credential_takes_location_name_and_origin_from_its_slot(reader, context):
    plan = plan_registration(
        parsed_document(schemes=API_KEY), context(credentials={"key": KEY}), reader=reader
    )
    assert plan.credentials["key"] == CredentialDraft(
        "api_key", {"location": "header", "name": "X-Key"}, {"value": "v"}, (API,)
    )
    assert plan.origins == (API,)
    assert plan.needs_consent == ()


async def test_credential_of_an_unknown_slot_is_rejected(reader, context):
    with pytest.raises(InvalidInput) as caught:
        plan_registration(
            parsed_document(schemes=API_KEY), context(credentials={"other": KEY}, at="/0"), reader=reader
        )
    assert caught.value.errors[0].pointer == "/0/credentials/other"
    assert caught.value.errors[0].expected == ["key"]


async def test_credential_for_tools_of_several_origins_needs_allowed_origins(reader, context):
    parsed = parsed_document("/pets", "/owners", schemes=API_KEY)
    elsewhere = replace(parsed.tools[1], origin="https://other.example")
    parsed = replace(parsed, tools=(parsed.tools[0], elsewhere))
    with pytest.raises(InvalidInput) as caught:
        plan_registration(parsed, context(credentials={"key": KEY}), reader=reader)
    assert caught.value.errors[0].pointer == "/credentials/key/allowed_origins"
    bound = replace(KEY, allowed_origins=(API,))
    plan = plan_registration(parsed, context(credentials={"key": bound}), reader=reader)
    assert plan.needs_consent == (MissingConsent("key", ("https://other.example",)),)


async def test_inline_credential_of_a_fetched_manual_with_variables_goes_to_named_origins_only(
    reader, context
):
    draft = CredentialDraft("oauth2", {"token_url": "https://idp.example/t"}, {"client_secret": "${SECRET}"})
    parsed = replace(
        parsed_document(schemes=API_KEY),
        inline=(SlotAssignment("key", draft, "f", ("https://evil.example",)),),
        named_origins=(API,),
        is_fetched=True,
    )
    plan = plan_registration(parsed, context(), reader=reader)
    assert plan.credentials == {}
    assert plan.needs_consent[0] == MissingConsent("key", ("https://evil.example",), "https://idp.example/t")


@for_each("member", ["token_url", "metadata_url"])
async def test_a_token_source_at_another_origin_needs_consent(reader, context, member):
    url = "https://idp.example/.well-known/openid-configuration"
    slot = CredentialSlot("key", "oauth2", **{member: url})
    parsed = replace(parsed_document("/pets", schemes=API_KEY), slots=(slot,), named_origins=(API,))
    plan = plan_registration(parsed, context(), reader=reader)
    assert plan.needs_consent == (MissingConsent("key", (), url),)


async def test_storing_a_credential_takes_the_scope(reader, context):
    permissions = RegistrationPermissions(may_write_credentials=False, may_use_shared_secrets=True)
    parsed = parsed_document(schemes=API_KEY)
    assert plan_registration(parsed, context(permissions=permissions), reader=reader).credentials == {}
    with pytest.raises(Forbidden):
        plan_registration(parsed, context(permissions=permissions, credentials={"key": KEY}), reader=reader)


async def test_secret_options_are_a_credential_that_no_origin_gets(reader, context):
    secrets = {"proxy_url": "http://u:p@proxy.example"}
    plan = plan_registration(parsed_document(), context(option_secrets=secrets), reader=reader)
    assert plan.credentials == {EGRESS_SLOT: CredentialDraft("static", {}, secrets, ())}
