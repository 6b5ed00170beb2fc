"""The pure parts: what of a template is sealed, which variable a name means, where a credential goes."""

import pytest

from app.credentials.model import GivenCredential
from app.credentials.origins import is_origin, origin_of
from app.credentials.permissions import UNBOUNDED
from app.credentials.slots import Binding, SlotBook, complete, fill_matching
from app.credentials.template_secrets import split_template
from app.credentials.variable_scope import MisplacedSecret, scope_of
from app.errors import InvalidInput, UnsetVariable
from app.models import Variable, new_id
from app.protocols.call_templates import read_template
from app.registration.report import report, verdict
from app.registration.request_model import RefusedEntry
from app.registration.request_parser import read_registrations
from app.registration.source_reader import laid_over


def variable(name, value=None, *, own=False):
    return Variable(name=name, secret=value is None, value=value, provider_id=new_id() if own else None)


def scope(*rows, provider="my_gw", environment=None, fetched=False, reach=UNBOUNDED):
    return scope_of(provider, rows, environment=environment or {}, reach=reach, fetched=fetched)


def split(scope_=None, **template):
    read = read_template({"call_template_type": "http", "url": "https://api.example.com/x", **template})
    return split_template(read.model, scope=scope_ or scope(), at="/t")


def test_headers_userinfo_and_query_values_are_taken_out_and_plain_headers_stay():
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


def test_a_plain_header_with_a_variable_is_sealed_all_the_same():
    found = split(scope(variable("A")), headers={"Accept": "$A"})
    assert found.static.secrets["headers"] == {"Accept": "${A}"}
    assert "headers" not in found.fields


def test_the_query_of_a_url_that_a_variable_begins_is_sealed():
    found = split(scope(variable("BASE", "https://h.example:8443/v1")), url="${BASE}/x?k=v")
    assert found.fields["url"] == "${BASE}/x"
    assert found.static.secrets["query"] == {"k": ["v"]}


@pytest.mark.parametrize("header", ["Host", "Content-Length", "bad header", "Connection"])
def test_headers_that_no_template_sets_are_refused(header):
    with pytest.raises(InvalidInput) as caught:
        split(headers={header: "x"})
    assert caught.value.errors[0].pointer == f"/t/headers/{header}"


def test_line_breaks_in_a_header_value_are_refused_and_not_repeated():
    with pytest.raises(InvalidInput) as caught:
        split(headers={"X-A": "secret\r\nX-B: 1"})
    assert "secret" not in repr(caught.value.errors) + caught.value.detail


def test_the_provider_goes_before_the_tenant_and_the_tenant_before_the_environment():
    rows = (variable("A", "tenant"), variable("A", "own", own=True), variable("B", "tenant"))
    found = scope(*rows, environment={"A": "env", "B": "env", "C": "env"})
    assert [found.find(name).value for name in "ABC"] == ["own", "tenant", "env"]
    assert found.find("D") is None


def test_both_spellings_of_a_namespace_are_understood():
    assert scope(variable("KEY")).find("my__gw_KEY").name == "KEY"
    assert scope(variable("my__gw_KEY")).find("KEY").name == "my__gw_KEY"
    assert scope(variable("KEY")).rewritten("Bearer $my__gw_KEY") == "Bearer ${KEY}"


def test_a_fetched_text_reaches_only_its_own_and_namespaced_variables():
    narrow = scope(
        variable("KEY"), variable("my__gw_B"), variable("C", own=True), environment={"E": "1"}
    ).narrowed()
    assert narrow.find("KEY") is None
    assert narrow.find("my__gw_KEY") is None
    assert narrow.find("E") is None
    assert narrow.find("B").name == "my__gw_B"
    assert narrow.find("C").name == "C"


def test_every_unset_variable_is_named_with_its_place():
    with pytest.raises(UnsetVariable) as caught:
        split(url="https://${H}/x", headers={"X": "$G"})
    assert {fault.pointer for fault in caught.value.errors} == {"/t/url", "/t/headers/X"}


def test_a_secret_variable_in_the_url_is_misplaced():
    with pytest.raises(MisplacedSecret) as caught:
        split(scope(variable("H")), url="https://x.example/${H}/y")
    assert caught.value.errors[0].pointer == "/t/url"


@pytest.mark.parametrize(("url", "origin"), [
    ("HTTPS://API.Example.com:443/x", "https://api.example.com"), ("http://a.example:8080", "http://a.example:8080"),
    ("http://[::1]:80/", "http://[::1]"), ("https://bücher.example/", "https://xn--bcher-kva.example"),
    ("ftp://a.example/", None), ("/relative", None), ("https://{host}/x", None), ("https://a b/", None),
    ("https://u@a.example/", None), ("https://a.example:99999/", None), ("https://a.example\\@b.example/", None),
])  # fmt: skip
def test_origins_are_those_that_a_call_would_have(url, origin):
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    "text", ["https://a.example/x", "https://a.example?x", "https://a.example#x", "a.example", "*"]
)
def test_an_origin_is_nothing_more(text):
    assert not is_origin(text)


def test_equal_credentials_share_a_slot_and_a_slot_stays_with_its_content():
    def key(value):
        return GivenCredential("api_key", {"name": "X"}, {"value": value})

    book = SlotBook(lambda given: given.secrets["value"], known={"b": "default"}, taken={"default-2"})
    assert [book.place(key(value), origin="https://o.example") for value in "abab"] == [
        "default-3", "default", "default-3", "default"]  # fmt: skip
    assert book.entries()[0].origins == ("https://o.example",)


def test_a_bearer_key_fits_a_bearer_scheme_and_a_key_only_its_own_place():
    bearer = GivenCredential(
        "api_key", {"location": "header", "name": "authorization"}, {"value": "Bearer x"}
    )
    slots = [
        {"slot": "b", "kind": "bearer"},
        {"slot": "q", "kind": "api_key", "location": "query", "name": "k"},
    ]
    assert fill_matching(bearer, slots) == ["b"]
    assert fill_matching(
        GivenCredential("api_key", {"location": "query", "name": "K"}, {"value": "x"}), slots
    ) == ["q"]


def test_a_token_url_in_the_clear_is_for_allowed_loopback_only():
    given = GivenCredential("oauth2", {"token_url": "http://127.0.0.1:9/token"}, {})
    named = ("http://127.0.0.1:9",)
    assert (
        complete(given, slot=None, binding=Binding(named, (), loopback_tokens=True), at="").allowed_origins
        == named
    )
    with pytest.raises(InvalidInput):
        complete(given, slot=None, binding=Binding(named, ()), at="")
    other = GivenCredential("oauth2", {"token_url": "http://example.com/token"}, {})
    with pytest.raises(InvalidInput):
        complete(other, slot=None, binding=Binding(named, (), loopback_tokens=True), at="")


def test_a_bad_entry_of_a_list_loses_no_other():
    found = read_registrations([{"provider_type": "http", "url": "https://a.example"},
                                {"name": "b", "provider_type": "http", "url": "https://b.example"}], name=None)  # fmt: skip
    assert isinstance(found.entries[0], RefusedEntry)
    assert found.entries[1].name == "b"


def test_variables_of_a_utcp_configuration_go_to_the_entries_that_name_them():
    raw = {"variables": {"KEY": "k", "OTHER": "o"},
           "manual_call_templates": [{"name": "a", "call_template_type": "http", "url": "https://x/${KEY}"}]}  # fmt: skip
    entry = read_registrations(raw, name=None).entries[0]
    assert {name: given.value for name, given in entry.variables.items()} == {"KEY": "k"}


def test_the_pointer_of_a_bad_credential_has_no_trace_of_the_union():
    raw = {
        "name": "a",
        "source": {"url": "https://x"},
        "credentials": {"k": {"kind": "api_key", "value": "***"}},
    }
    with pytest.raises(InvalidInput) as caught:
        read_registrations(raw, name=None)
    assert [fault.pointer for fault in caught.value.errors] == ["/credentials/k/value"]


def test_a_renamed_tool_counts_as_accepted():
    counts = report([verdict("a", name="a"), verdict("b c", name="b_c"), verdict("d", reason="no")])["counts"]
    assert counts == {"operations": 3, "accepted": 2, "renamed": 1, "skipped": 1}


@pytest.mark.parametrize(("name", "whole"), [("read", True), ("cost$", True), ("x${AWS_KEY}", False)])
def test_what_a_server_calls_its_tools_names_no_variables(name, whole):
    part = {"call_template_type": "mcp", "config": {"mcpServers": {"s": {"url": "${BASE}/mcp"}}}}
    laid = laid_over(part, {"name": name, "tool_call_template": {"tool_name": name}})["tool_call_template"]
    assert laid == ({**part, "tool_name": name} if whole else None)
