"""Which variable a `${NAME}` in a template means."""

from app.core.uuid7 import uuid7
from app.providers.credentials.permissions import UNRESTRICTED
from app.providers.credentials.variable_scope import scope_of
from app.storage.models import Variable


def variable(name, value=None, *, own=False):
    return Variable(name=name, secret=value is None, value=value, provider_id=uuid7() if own else None)


def scope(*rows, provider="my_gw", environment=None, fetched=False, permissions=UNRESTRICTED):
    return scope_of(
        provider, rows, environment=environment or {}, permissions=permissions, is_fetched=fetched
    )


def test_variables_of_the_provider_hide_those_of_tenant_and_environment():
    rows = (variable("A", "tenant"), variable("A", "own", own=True), variable("B", "tenant"))
    found = scope(*rows, environment={"A": "env", "B": "env", "C": "env"})
    assert [found.find(name).value for name in "ABC"] == ["own", "tenant", "env"]
    assert found.find("D") is None


def test_both_spellings_of_a_namespaced_variable_are_found():
    assert scope(variable("KEY")).find("my__gw_KEY").name == "KEY"
    assert scope(variable("my__gw_KEY")).find("KEY").name == "my__gw_KEY"
    assert scope(variable("KEY")).rewritten("Bearer $my__gw_KEY") == "Bearer ${KEY}"


def test_fetched_text_finds_own_and_namespaced_variables_only():
    narrow = scope(
        variable("KEY"), variable("my__gw_B"), variable("C", own=True), environment={"E": "1"}
    ).for_fetched_text()
    assert narrow.find("KEY") is None
    assert narrow.find("my__gw_KEY") is None
    assert narrow.find("E") is None
    assert narrow.find("B").name == "my__gw_B"
    assert narrow.find("C").name == "C"
