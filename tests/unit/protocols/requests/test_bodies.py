"""Bodies by content type; the multipart ones are read back by a parser that is not ours."""

import base64
from email import message_from_bytes, policy

import orjson
import pytest

from app.core.errors import InvalidArguments, InvalidInput
from app.protocols.requests.plan_compiler import compile_plan
from tests.harness.cases import for_each

PNG = b"\x89PNG\r\n\x1a\n\x00--boundary"
B64 = base64.b64encode(PNG).decode()


def place(value, content_type, **encoding):
    body = {"input": "body", "content_type": content_type, "required": True, "encoding": encoding}
    plan = compile_plan({"url": "https://h.example", "http_method": "POST", "parameters": [], "body": body})
    request = plan.prepare({"body": value})
    return request.body, dict(request.headers)["Content-Type"]


def refused(value, content_type, **encoding):
    with pytest.raises(InvalidArguments) as caught:
        place(value, content_type, **encoding)
    return caught.value.errors[0].pointer


def parts(value, **encoding):
    body, media = place(value, "multipart/form-data", **encoding)
    message = message_from_bytes(b"Content-Type: " + media.encode() + b"\r\n\r\n" + body, policy=policy.HTTP)
    assert not message.defects
    return [
        (
            part.get_param("name", header="content-disposition"),
            part.get_filename(),
            part["content-type"],
            part.get_payload(decode=True),
        )
        for part in message.iter_parts()
    ]


@for_each("value", [{"a": [1, None]}, [1], "text", 1.5, True, False, None, "", {}])
@for_each("media", ["application/json", "application/vnd.api+json", "application/json; charset=utf-8"])
def test_json_takes_any_json_value(value, media):
    body, header = place(value, media)
    assert (orjson.loads(body), header) == (value, media)


def test_a_part_of_another_type_is_text_where_the_plan_says_so():
    encoding = {"content_type": "application/sdp", "text": True}
    assert parts({"sdp": "v=0"}, sdp=encoding) == [("sdp", None, "application/sdp", b"v=0")]


@pytest.mark.parametrize(("wildcard", "header"), [("*/*", "application/json"), ("text/*", "text/plain")])
def test_wildcards_become_concrete(wildcard, header):
    assert place("x", wildcard)[1] == header
    assert place(B64, "image/*") == (PNG, "application/octet-stream")


class TestUrlencoded:
    MEDIA = "application/x-www-form-urlencoded"

    @for_each(
        ("value", "encoding", "expected"),
        [
            ({"a": "x y&z", "b": 1, "c": True, "d": None}, {}, b"a=x+y%26z&b=1&c=true"),
            ({"a": [1, 2]}, {}, b"a=1&a=2"),
            ({"a": {"b": 1}}, {}, b"a=%7B%22b%22%3A1%7D"),
            ({"a": {"b": 1, "c": {"d": [2]}}}, {"a": {"style": "deepObject", "explode": True}},
             b"a%5Bb%5D=1&a%5Bc%5D%5Bd%5D%5B0%5D=2"),
            ({"a": {"R": 1, "G": 2}}, {"a": {"style": "form", "explode": True}}, b"R=1&G=2"),
            ({"a": [1, 2]}, {"a": {"style": "form", "explode": False}}, b"a=1,2"),
            ({"a": [1, 2]}, {"a": {"style": "pipeDelimited", "explode": False}}, b"a=1%7C2"),
            ({"a": [1, 2]}, {"a": {"content_type": "application/json"}}, b"a=%5B1%2C2%5D"),
            ({"a": "x/y"}, {"a": {"allow_reserved": True}}, b"a=x/y"),
            ({"ü[]": "é"}, {}, b"%C3%BC%5B%5D=%C3%A9"),
            ({}, {}, b""),
            ({"a": []}, {}, b""),
        ],
    )  # fmt: skip
    def test_fields(self, value, encoding, expected):
        assert place(value, self.MEDIA, **encoding) == (expected, self.MEDIA)

    @pytest.mark.parametrize("value", ["a=b", [1], 1])
    def test_only_objects(self, value):
        assert refused(value, self.MEDIA) == "/body"


class TestMultipart:
    def test_scalars_lists_and_objects(self):
        value = {"s": "ü", "n": 1, "b": True, "l": ["x", {"y": 1}, None], "o": {"a": None}, "z": None}
        assert parts(value) == [
            ("s", None, None, "ü".encode()),
            ("n", None, None, b"1"),
            ("b", None, None, b"true"),
            ("l", None, None, b"x"),
            ("l", None, "application/json", b'{"y":1}'),
            ("o", None, "application/json", b'{"a":null}'),
        ]

    def test_a_list_of_json_type_is_one_part(self):
        json = {"content_type": "application/json"}
        assert parts({"l": [1, 2]}, l=json) == [("l", None, "application/json", b"[1,2]")]

    def test_files_are_base64_and_have_a_file_name(self):
        octets = {"content_type": "application/octet-stream"}
        assert parts({"f": B64}, f=octets) == [("f", "f", "application/octet-stream", PNG)]
        images = {"content_type": "image/png, image/jpeg"}
        assert parts({"f": [B64, B64]}, f=images) == [("f", "f", "image/png", PNG)] * 2
        wild = {"content_type": "image/*"}
        assert parts({"f": B64}, f=wild) == [("f", "f", "application/octet-stream", PNG)]

    def test_files_may_name_themselves(self):
        value = {
            "f": {"data": f"data:image/png;base64,{B64}", "filename": "a.png", "content_type": "image/png"}
        }
        encoding = {"content_type": "application/octet-stream"}
        assert parts(value, f=encoding) == [("f", "a.png", "image/png", PNG)]
        assert refused({"f": {"filename": "x"}}, "multipart/form-data", f=encoding) == "/body/f/data"
        evil = {"f": {"data": B64, "content_type": "image/png\r\nX: y"}}
        assert refused(evil, "multipart/form-data", f=encoding) == "/body/f/content_type"

    def test_names_cannot_begin_a_header(self):
        name = 'a"\r\nX-Evil: 1\r\n\r\n'
        body, _ = place({name: "v"}, "multipart/form-data")
        assert b'name="a%22%0D%0AX-Evil: 1%0D%0A%0D%0A"\r\n\r\nv\r\n' in body

    def test_the_boundary_is_new_each_time(self):
        first, second = place({"a": 1}, "multipart/form-data"), place({"a": 1}, "multipart/form-data")
        assert first[1] != second[1]

    def test_only_objects(self):
        assert refused("x", "multipart/form-data") == "/body"
        assert refused({"f": "%%%"}, "multipart/form-data", f={"content_type": "image/png"}) == "/body/f"


@for_each(
    "text",
    [
        B64,
        B64.rstrip("="),
        base64.urlsafe_b64encode(PNG).decode(),
        f"data:x/y;base64,{B64}",
        f"{B64[:8]}\n{B64[8:]}",
    ],
)
def test_binary_bodies_are_base64(text):
    assert place(text, "application/octet-stream") == (PNG, "application/octet-stream")
    assert place(text, "application/pdf")[0] == PNG


@for_each("value", ["not base64!", {"a": 1}, 3, "é", "A"])
def test_what_is_no_base64_is_rejected(value):
    assert refused(value, "application/octet-stream") == "/body"


@for_each(
    ("value", "media", "expected"),
    [
        ("<a>ü</a>", "application/xml", "<a>ü</a>".encode()),
        ("<a/>", "application/soap+xml; charset=utf-8", b"<a/>"),
        ("é", "text/plain; charset=iso-8859-1", b"\xe9"),
        (True, "text/plain", b"true"),
        ({"a": 1}, "text/plain", b'{"a":1}'),
        ('{"a":1}\n', "application/x-ndjson", b'{"a":1}\n'),
    ],
)
def test_text(value, media, expected):
    assert place(value, media) == (expected, media)


def test_text_that_does_not_fit_is_rejected():
    assert refused({"a": 1}, "application/xml") == "/body"
    assert refused("日", "text/plain; charset=iso-8859-1") == "/body"


@for_each("media", ["", "json", "text/plain\r\nX: y", "text/plain; charset=klingon", "a b/c"])
def test_content_types_that_cannot_be_sent_are_rejected_at_compile_time(media):
    with pytest.raises(InvalidInput):
        place("x", media)
    with pytest.raises(InvalidInput):
        place({}, "multipart/form-data", f={"content_type": media})
