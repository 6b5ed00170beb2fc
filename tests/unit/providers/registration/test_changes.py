"""What becomes of stored tools when drafts take their place."""

from dataclasses import replace

import orjson

from app.providers.credentials.model import CredentialSlot
from app.providers.registration.changes import compare
from app.providers.registration.model import PendingDefinitions
from tests.unit.providers.registration.documents import API, API_KEY, parsed_document


def diff(before, after, *, origins=(API,)):
    existing = {tool.source_key: tool.definition for tool in before.tools}
    return compare(existing, after.tools, old_slots=before.slots, new_slots=after.slots, origins=origins)


def test_same_source_changes_nothing():
    found = diff(parsed_document(), parsed_document())
    assert found.unchanged == ("GET /pets",)
    assert found.changes == ()
    assert found.compatibility == "compatible"


def test_tools_are_added_and_removed():
    found = diff(parsed_document("/pets", "/owners"), parsed_document("/pets", "/visits"))
    assert (found.added, found.unchanged, found.removed) == (
        ("GET /visits",),
        ("GET /pets",),
        ("GET /owners",),
    )
    assert [(one.source_key, one.change, one.is_breaking) for one in found.changes] == [
        ("GET /visits", "added", False),
        ("GET /owners", "removed", True),
    ]
    assert found.compatibility == "breaking"


def test_new_description_is_a_compatible_change():
    after = parsed_document()
    after = replace(after, tools=(replace(after.tools[0], description="All pets."),))
    found = diff(parsed_document(), after)
    assert found.changed == ("GET /pets",)
    assert found.compatibility == "compatible"


def test_another_origin_needs_approval():
    found = diff(parsed_document(), parsed_document(server="https://other.example"))
    assert (found.pending_approval, found.changed) == (("GET /pets",), ())
    assert found.changes[0].to_json()["differences"][0]["aspect"] == "server"


def test_added_tool_at_a_new_origin_needs_approval():
    found = diff(parsed_document(), parsed_document("/pets"), origins=())
    assert found.pending_approval == ()
    found = diff(replace(parsed_document(), tools=()), parsed_document(), origins=("https://other.example",))
    assert (found.added, found.pending_approval) == ((), ("GET /pets",))


def test_tools_of_a_changed_slot_need_approval():
    after = parsed_document(schemes=API_KEY)
    moved = CredentialSlot("key", "api_key", scheme="key", location="query", parameter="key", scopes=())
    found = diff(parsed_document(schemes=API_KEY), replace(after, slots=(moved,)))
    assert found.changed_slots == {"key"}
    assert (found.pending_approval, found.unchanged) == (("GET /pets",), ())


def test_tools_of_a_pending_revision_survive_json():
    parsed = parsed_document("/pets", schemes=API_KEY)
    pending = PendingDefinitions(parsed.tools, parsed.slots)
    assert PendingDefinitions.from_json(orjson.loads(orjson.dumps(pending.to_json()))) == pending
