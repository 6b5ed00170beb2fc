"""Parsed request bodies -> registrations."""

import pytest

from app.errors import InvalidInput
from app.registration.model import RejectedEntry
from app.registration.request_parser import read_registrations


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
