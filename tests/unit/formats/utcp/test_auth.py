"""The auth objects of UTCP become credentials."""

import pytest

from app.core.errors import InvalidInput
from app.formats.utcp.auth import convert_auth
from tests.harness.cases import for_each

OAUTH = {"auth_type": "oauth2", "token_url": "https://a.example/t", "client_id": "i", "client_secret": "s"}


class TestAuth:
    def test_an_api_key(self):
        draft = convert_auth({"auth_type": "api_key", "api_key": "k", "var_name": "key", "location": "query"})
        assert (draft.kind, draft.public, draft.secrets) == (
            "api_key",
            {"location": "query", "name": "key"},
            {"value": "k"},
        )

    def test_a_bearer_token_stays_an_api_key(self):
        draft = convert_auth({"auth_type": "api_key", "api_key": "Bearer ${T}", "var_name": "Authorization"})
        assert draft.public == {"location": "header", "name": "Authorization"}
        assert draft.secrets == {"value": "Bearer ${T}"}

    def test_a_bearer_token_may_be_of_a_type_of_its_own(self):
        for auth in (
            {"auth_type": "bearer", "token": "${T}"},
            {"auth_type": "HTTP-Bearer", "token": "${T}"},
            {"token": "${T}"},
        ):
            draft = convert_auth(auth)
            assert (draft.kind, draft.public, draft.secrets) == ("bearer", {}, {"token": "${T}"})
        draft = convert_auth({"auth_type": "bearer", "token": "t", "scheme": "DPoP"})
        assert draft.public == {"scheme": "DPoP"}
        for wrong in ({"token": ""}, {"token": "a\nb"}, {"token": "t", "scheme": "a b"}, {}):
            with pytest.raises(InvalidInput):
                convert_auth({"auth_type": "bearer", **wrong})

    def test_basic_and_oauth2(self):
        basic = convert_auth({"auth_type": "basic", "username": "u", "password": "p:x"})
        assert (basic.kind, basic.public, basic.secrets) == (
            "basic",
            {},
            {"username": "u", "password": "p:x"},
        )
        oauth = convert_auth({**OAUTH, "scope": "read write"})
        assert oauth.kind == "oauth2"
        assert oauth.public == {
            "token_url": "https://a.example/t",
            "scope": "read write",
            "audience": None,
            "resource": None,
            "token_endpoint_auth_method": "auto",
        }
        assert oauth.secrets == {"client_id": "i", "client_secret": "s"}

    @pytest.mark.parametrize(
        ("auth", "public"),
        [
            ({"auth_type": "apiKey", "api_key": 5, "location": "Header", "var_name": None},
             {"location": "header", "name": "X-Api-Key"}),
            ({"api_key": "x", "location": None}, {"location": "header", "name": "X-Api-Key"}),
            ({**OAUTH, "scope": ["a", "b"]}, "a b"),
            ({**OAUTH, "scope": ""}, None),
        ],
    )  # fmt: skip
    def test_spelling_is_taken_lightly(self, auth, public):
        draft = convert_auth(auth)
        assert (draft.public["scope"] if draft.kind == "oauth2" else draft.public) == public

    @for_each(
        ("auth", "at"),
        [
            ({"auth_type": "oauth2_user", "access_token": "secret"}, "/auth/auth_type"),
            ({"auth_type": "api_key"}, "/auth/api_key"),
            ({"auth_type": "api_key", "api_key": "secret", "location": "body"}, "/auth/location"),
            ({"auth_type": "api_key", "api_key": "secret", "var_name": "Host"}, "/auth/var_name"),
            ({"auth_type": "api_key", "api_key": "secret", "var_name": "a\r\nb"}, "/auth/var_name"),
            (
                {"auth_type": "api_key", "api_key": "secret", "var_name": "a b", "location": "cookie"},
                "/auth/var_name",
            ),
            ({"auth_type": "api_key", "api_key": "secret\r\nX: y"}, "/auth/api_key"),
            ({"auth_type": "basic", "username": "secret:x", "password": "secret"}, "/auth/username"),
            ({**OAUTH, "token_url": "file:///secret"}, "/auth/token_url"),
            ("secret", "/auth"),
        ],
    )
    def test_faults_point_and_never_repeat_a_value(self, auth, at):
        with pytest.raises(InvalidInput) as caught:
            convert_auth(auth, at="/auth")
        assert [fault.pointer for fault in caught.value.errors] == [at]
        assert "secret" not in f"{caught.value} {caught.value.errors}"

    def test_secrets_hide_in_repr(self):
        draft = convert_auth({**OAUTH, "client_secret": "hunter2"})
        assert "hunter2" not in repr(draft)
