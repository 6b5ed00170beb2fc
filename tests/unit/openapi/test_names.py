"""Names of tools."""

import re

from hypothesis import given
from hypothesis import strategies as st

from app.openapi.conversion.names import tool_names
from tests.harness.cases import for_each

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def test_legal_ids_stay_whatever_stands_around_them() -> None:
    assert tool_names({"GET /a": "list-pets_1", "GET /b": "x" * 64}) == {
        "GET /a": "list-pets_1",
        "GET /b": "x" * 64,
    }


@for_each(
    ("key", "given_name", "name"),
    [
        ("GET /pets/{petId}", None, "get_pets_petId"),
        ("GET /", None, "get_root"),
        ("GET /a", "", "get_a"),
        ("GET /a", "  ", "get_a"),
        ("GET /a", "pets.list", "pets_list"),
        ("GET /a", "repos/get v1", "repos_get_v1"),
        ("GET /a", 7, "7"),
        ("GET /a", ["x"], "get_a"),
        ("GET /a", "получить", "get_a"),
        ("GET /a", "получить список_v1", "get_a"),
        ("GET /a", "café", "caf"),
        ("GET /日本", None, "get_root"),
    ],
)
def test_names_made_from_what_is_there(key: str, given_name: object, name: str) -> None:
    assert tool_names({key: given_name}) == {key: name}


def test_duplicates_and_collisions_get_a_digest_of_their_address() -> None:
    names = tool_names({"GET /a": "a.b", "GET /b": "a_b", "GET /c": "a_b", "GET /d": "a b"})
    assert names["GET /b"] == "a_b"
    assert len(set(names.values())) == 4
    assert all(re.fullmatch(r"a_b_[0-9a-f]{8}", names[key]) for key in ("GET /a", "GET /c", "GET /d"))


def test_long_names_with_a_common_beginning_stay_apart() -> None:
    names = tool_names({f"GET /{i}": "very_long_" * 10 + str(i) for i in range(50)})
    assert len(set(names.values())) == 50
    assert all(55 < len(name) <= 64 for name in names.values())


def test_adding_operations_behind_changes_no_name() -> None:
    before = {"GET /a": "x", "GET /b": "x", "GET /c": None, "POST /c": "x.y"}
    after = {**before, "GET /d": "x", "GET /e": "c", "PUT /c": "x.y"}
    assert tool_names(before).items() <= tool_names(after).items()


SOURCE_KEYS = st.builds("{} /{}".format, st.sampled_from(["GET", "PUT"]), st.text(max_size=90))


@given(st.dictionaries(SOURCE_KEYS, st.none() | st.integers() | st.text(max_size=90), max_size=30))
def test_names_are_legal_unique_and_the_same_each_time(operations: dict[str, object]) -> None:
    names = tool_names(operations)
    assert names.keys() == operations.keys()
    assert len(set(names.values())) == len(names)
    assert all(LEGAL.fullmatch(name) for name in names.values())
    assert tool_names(operations) == names
