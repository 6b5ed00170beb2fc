"""Parsed request bodies -> registrations."""

from dataclasses import replace

import pytest

from app.core.errors import InvalidInput
from app.providers.registration.model import RejectedEntry
from app.providers.registration.request_parser import read_registrations


def test_invalid_entry_of_a_list_is_rejected_alone():
    found = read_registrations([{"provider_type": "http", "url": "https://a.example"},
                                {"name": "b", "provider_type": "http", "url": "https://b.example"}], name=None)  # fmt: skip
    assert isinstance(found.entries[0], RejectedEntry)
    assert found.entries[1].name == "b"


def test_variables_of_a_utcp_configuration_go_to_the_entries_that_name_them():
    raw = {"variables": {"KEY": "k", "OTHER": "o"},
           "manual_call_templates": [{"name": "a", "call_template_type": "http", "url": "https://x/${KEY}"}]}  # fmt: skip
    entry = read_registrations(raw, name=None).entries[0]
    assert {name: given.value for name, given in entry.variables.items()} == {"KEY": "k"}


def test_pointer_of_an_invalid_credential_names_no_union_member():
    raw = {
        "name": "a",
        "source": {"url": "https://x"},
        "credentials": {"k": {"kind": "api_key", "value": "***"}},
    }
    with pytest.raises(InvalidInput) as caught:
        read_registrations(raw, name=None)
    assert [fault.pointer for fault in caught.value.errors] == ["/credentials/k/value"]


def test_url_form_is_the_canonical_form_with_a_url():
    short = {"name": "a", "url": "https://x", "tags": ["t"], "limits": {"total": 3}}
    canonical = {"name": "a", "source": {"url": "https://x"}, "tags": ["t"], "limits": {"total": 3}}
    found = read_registrations(short, name=None).entries[0]
    assert (
        replace(found, source=replace(found.source, at="/source"))
        == (read_registrations(canonical, name=None).entries[0])
    )
    assert read_registrations({"url": "https://x"}, name="b").entries[0].name == "b"


@pytest.mark.parametrize(
    ("raw", "pointer"),
    [
        ({"name": "a", "url": 7}, "/url"),
        ({"name": "a", "url": ""}, "/url"),
        ({"name": "a", "url": "https://x", "sauce": 1}, "/sauce"),
        ({"url": "https://x"}, "/name"),
    ],
)
def test_error_of_the_url_form_points_to_its_member(raw, pointer):
    with pytest.raises(InvalidInput) as caught:
        read_registrations(raw, name=None)
    assert [error.pointer for error in caught.value.errors] == [pointer]


def test_call_template_with_a_url_is_no_url_form():
    raw = {"name": "a", "call_template_type": "http", "url": "https://x", "auth": {"auth_type": "basic"}}
    assert read_registrations(raw, name=None).entries[0].source.value == raw
