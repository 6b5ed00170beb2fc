"""What of a call template is shown, and what is sealed."""

import pytest

from app.core.errors import InvalidInput, UnsetVariable
from app.protocols.call_templates import read_template
from app.providers.credentials.permissions import UNRESTRICTED
from app.providers.credentials.template_secrets import split_template
from app.providers.credentials.variable_scope import MisplacedSecret, scope_of
from app.storage.models import Variable


def variable(name, value=None):
    return Variable(name=name, secret=value is None, value=value)


def scope(*rows):
    return scope_of("my_gw", rows, environment={}, permissions=UNRESTRICTED)


def split(scope_=None, **template):
    read = read_template({"call_template_type": "http", "url": "https://api.example.com/x", **template})
    return split_template(read.model, scope=scope_ or scope(), at="/t")


def test_split_template_seals_headers_userinfo_and_query_values_but_plain_headers():
    found = split(url="https://u:p%40w@api.example.com/x?key=a%20b&key=c&q={term}&flag",
                  headers={"X-Any": "v", "accept": "a/b", "User-Agent": "me"})  # fmt: skip
    assert found.fields["url"] == "https://api.example.com/x?q={term}&flag"
    assert found.fields["headers"] == {"accept": "a/b", "User-Agent": "me"}
    assert found.static.secrets == {
        "headers": {"X-Any": "v"},
        "query": {"key": ["a b", "c"]},
        "basic": ["u", "p@w"],
    }
    assert "p@w" not in repr(found)
    assert "secrets" not in repr(found.static)


def test_plain_header_that_names_a_variable_is_sealed():
    found = split(scope(variable("A")), headers={"Accept": "$A"})
    assert found.static.secrets["headers"] == {"Accept": "${A}"}
    assert "headers" not in found.fields


def test_query_of_a_url_that_begins_with_a_variable_is_sealed():
    found = split(scope(variable("BASE", "https://h.example:8443/v1")), url="${BASE}/x?k=v")
    assert found.fields["url"] == "${BASE}/x"
    assert found.static.secrets["query"] == {"k": ["v"]}


@pytest.mark.parametrize("header", ["Host", "Content-Length", "bad header", "Connection"])
def test_header_that_no_template_may_set_is_rejected(header):
    with pytest.raises(InvalidInput) as caught:
        split(headers={header: "x"})
    assert caught.value.errors[0].pointer == f"/t/headers/{header}"


def test_line_break_in_a_header_value_is_rejected_without_the_value():
    with pytest.raises(InvalidInput) as caught:
        split(headers={"X-A": "secret\r\nX-B: 1"})
    assert "secret" not in repr(caught.value.errors) + caught.value.detail


def test_unset_variables_are_all_reported_with_their_pointers():
    with pytest.raises(UnsetVariable) as caught:
        split(url="https://${H}/x", headers={"X": "$G"})
    assert {fault.pointer for fault in caught.value.errors} == {"/t/url", "/t/headers/X"}


def test_secret_variable_in_a_url_is_misplaced():
    with pytest.raises(MisplacedSecret) as caught:
        split(scope(variable("H")), url="https://x.example/${H}/y")
    assert caught.value.errors[0].pointer == "/t/url"
