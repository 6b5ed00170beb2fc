"""A secret shows itself nowhere but through `reveal`."""

import copy
import json
import pickle
from dataclasses import dataclass

import orjson
import pytest

from app.security.secret import Secret
from tests.harness.cases import for_each

CANARY = "s3cr3t-canary"


def test_reveal_gives_the_text() -> None:
    assert Secret(CANARY).reveal() == CANARY


def test_no_way_of_printing_shows_it() -> None:
    @dataclass
    class Holder:
        secret: Secret

    secret = Secret(CANARY)
    shown = [str(secret), repr(secret), f"{secret}", f"{secret:>40}", f"{secret} {secret!r}"]
    shown += [f"{secret}", repr([secret]), repr(Holder(secret)), str({"k": secret})]
    assert all(CANARY not in text for text in shown)
    assert f"{secret:>40}" == "***"


@for_each("leak", [pickle.dumps, copy.copy, copy.deepcopy, json.dumps, orjson.dumps, vars, iter, hash])
def test_it_is_not_pickled_copied_serialised_or_hashed(leak) -> None:
    with pytest.raises(TypeError) as refused:
        leak(Secret(CANARY))
    assert CANARY not in str(refused.value)


def test_equality_is_by_value_and_only_among_secrets() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert Secret("ü\ud800") == Secret("ü\ud800")
