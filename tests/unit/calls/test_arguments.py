"""Arguments are what the body says, or are refused."""

from decimal import Decimal

import orjson
import pytest

from app.calls.arguments.parsing import parse_arguments
from app.core import exact_json
from app.core.errors import BadRequest, InvalidArguments, TooLarge
from tests.harness.cases import for_each
from tests.harness.scaling import assert_linear


@for_each(
    ("body", "places"),
    [
        (b'{"n": 12345678901234567890123}', {"/n"}),
        (b'{"a/b": [1, {"c": -9223372036854775809}], "d": 18446744073709551616}', {"/a~1b/1/c", "/d"}),
        (b"18446744073709551616", {""}),
        (b'{"n":' + b"9" * 300 + b"}", {"/n"}),
        (b'{"n":' + b"[" * 990 + b"9" * 30 + b"]" * 990 + b"}", None),
    ],
)
def test_integers_beyond_64_bits_are_rejected_with_their_places(body, places):
    with pytest.raises(InvalidArguments, match="64 bits") as caught:
        parse_arguments(body)
    if places is not None:
        assert {fault.pointer for fault in caught.value.errors} == places


@for_each(
    ("body", "arguments"),
    [
        (b"", {}),
        (b'{"n": 18446744073709551615, "m": -9223372036854775808}', {"n": 2**64 - 1, "m": -(2**63)}),
        (b'{"n": 1234567890123456789}', {"n": 1234567890123456789}),
        (b'{"t": "12345678901234567890123", "u": ",12345678901234567890123"}', None),
        (
            b'{"f": 0.12345678901234567890123, "g": 12345678901234567890123.5, "h": 10000000000000000000000e1}',
            None,
        ),
    ],
)
def test_everything_else_stays_as_it_is(body, arguments):
    parsed = parse_arguments(body)
    assert arguments is None or parsed == arguments


def test_what_is_not_json_is_rejected():
    with pytest.raises(BadRequest, match="line 1, column 2"):
        parse_arguments(b"{")


def test_integer_scan_is_linear():
    def scan(number):
        parse_arguments(b'{"list": [' + b",".join([b"1234567890123456789"] * number) + b"]}")

    assert_linear(scan, 6_000)


@for_each(
    ("unit", "cost"),
    [
        (b"1", 1), (b'"x"', 1), (b'",[{:"', 1), (b'"\\\\"', 1), (b'"a\\",b"', 1), (b"[]", 5), (b"{}", 5), (b'{"a":1}', 11),
    ],
)  # fmt: skip
def test_more_values_than_allowed_are_rejected_before_they_are_made(unit, cost):
    limit = 300_000
    fits = (limit - 100) // cost
    assert len(parse_arguments(b'{"a": [' + b",".join([unit] * fits) + b"]}", limit)["a"]) == fits
    with pytest.raises(TooLarge) as caught:
        parse_arguments(b'{"a": [' + b",".join([unit] * (fits + 100)) + b"]}", limit)
    assert caught.value.extra == {"limit": limit}


@pytest.mark.parametrize(
    "text", [b"a," * 2_000_000, b"[{:" * 1_000_000, b'\\"' * 1_000_000, b"\\\\," * 1_000_000]
)
def test_what_a_string_holds_does_not_count(text):
    assert len(parse_arguments(b'{"a": "' + text + b'"}', 1000)) == 1


def test_what_is_not_json_is_rejected_however_much_it_is():
    with pytest.raises(BadRequest):
        parse_arguments(b'{"a": [1, \\" ' + b"," * 500_000, 1_000_000)
    with pytest.raises(BadRequest):
        parse_arguments(b'{"a": "' + b"," * 500_000, 1000)


@for_each(
    ("number", "kept"),
    [
        ("0.12345678901234567890123", Decimal("0.12345678901234567890123")),
        ("-12345678901234567.89", Decimal("-12345678901234567.89")),
        ("1.2345678901234567890e-5", Decimal("0.000012345678901234567890")),
        ("0.1", 0.1),
        ("1e300", 1e300),
        ("5e-324", 5e-324),
        ("0.3333333333333333", 0.3333333333333333),
        ("0e-999", 0.0),
    ],
)
def test_numbers_keep_their_digits(number, kept):
    [parsed] = parse_arguments(f"[{number}]".encode())
    assert (type(parsed), parsed) == (type(kept), kept)
    assert Decimal(exact_json.dumps([parsed]).decode()[1:-1]) == Decimal(number)


def test_digits_in_a_string_are_text():
    text = "x: 0.12345678901234567890123, 1e-999"
    assert parse_arguments(f'{{"t": "{text}"}}'.encode()) == {"t": text}


@for_each("number", ["1e400", "-1e400", "1e-400", "0." + "0" * 400 + "1", "0." + "1" * 1_000])
def test_magnitudes_that_no_double_has_are_rejected_with_their_places(number):
    with pytest.raises(InvalidArguments, match="too large, too small or too long") as caught:
        parse_arguments(f'{{"a": 1.5, "b/c": [0, {number}]}}'.encode())
    assert [error.pointer for error in caught.value.errors] == ["/b~1c/1"]


def test_what_is_not_json_and_has_such_a_number_is_not_json():
    with pytest.raises(BadRequest):
        parse_arguments(b'{"a": 1e400, "b": }')


def test_doubles_take_the_place_of_decimals():
    exact = parse_arguments(b'{"a": [0.12345678901234567890123, {"b": 1}], "c": "x"}')
    assert exact_json.without_decimals(exact) == {"a": [0.12345678901234567890123, {"b": 1}], "c": "x"}
    assert type(exact_json.without_decimals(exact)["a"][0]) is float
    plain = {"a": [0.5]}
    assert exact_json.without_decimals(plain) is plain


def test_decimals_are_written_and_read_again():
    written = exact_json.dumps({"b": Decimal("0.12345678901234567890123"), "a": 0.5}, orjson.OPT_SORT_KEYS)
    assert written == b'{"a":0.5,"b":0.12345678901234567890123}'
    assert exact_json.loads(written) == {"a": 0.5, "b": Decimal("0.12345678901234567890123")}
    with pytest.raises(TypeError):
        exact_json.dumps({"a": object()})
