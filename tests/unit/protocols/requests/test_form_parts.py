"""Files in multipart forms: contents, names, types and headers, read back by a parser that is not ours."""

import base64
from email import message_from_bytes, policy

import orjson
import pytest

from app.core.errors import InvalidArguments, InvalidInput
from app.protocols.requests.plan_compiler import compile_plan
from tests.harness.cases import for_each

PNG = b"\x89PNG\r\n\x1a\n\x00--boundary"
B64 = base64.b64encode(PNG).decode()
FILE = {"content_type": "application/octet-stream", "file": True}


def place(value, *, encoding=None, **rest):
    body = {"content_type": "multipart/form-data", "encoding": encoding or {}, **rest}
    plan = compile_plan({"url": "https://h.example", "http_method": "POST", "parameters": [], "body": body})
    request = plan.prepare({"body": value})
    head = b"Content-Type: " + dict(request.headers)["Content-Type"].encode() + b"\r\n\r\n"
    message = message_from_bytes(head + request.body, policy=policy.HTTP)
    assert not message.defects
    return list(message.iter_parts())


def parts(value, **rest):
    return [
        (
            part.get_param("name", header="content-disposition"),
            part.get_filename(),
            str(part["content-type"]).replace('"', "") if part["content-type"] else None,
            part.get_payload(decode=True),
        )
        for part in place(value, **rest)
    ]


def rejected(value, **rest):
    with pytest.raises(InvalidArguments) as caught:
        place(value, **rest)
    return caught.value.errors[0].pointer


@for_each(
    ("file", "expected"),
    [
        (B64, ("f", "f", "application/octet-stream", PNG)),
        ({"data": B64}, ("f", "f", "application/octet-stream", PNG)),
        ({"data": B64, "filename": "größe.png"}, ("f", "größe.png", "application/octet-stream", PNG)),
        ({"text": "a,é\n", "filename": "a.csv", "content_type": "text/csv"},
         ("f", "a.csv", "text/csv", "a,é\n".encode())),
        ({"text": "é", "content_type": "text/plain; charset=iso-8859-1"},
         ("f", "f", "text/plain; charset=iso-8859-1", b"\xe9")),
        ({"text": ""}, ("f", "f", "application/octet-stream", b"")),
        (f"data:image/png;base64,{B64}", ("f", "f", "image/png", PNG)),
        ({"data": f"data:image/png;base64,{B64}", "filename": ""}, ("f", "f", "image/png", PNG)),
        ({"data": f"data:image/png;base64,{B64}", "content_type": "image/x"}, ("f", "f", "image/x", PNG)),
    ],
)  # fmt: skip
def test_a_file_is_base64_or_an_object(file, expected):
    assert parts({"f": file}, encoding={"f": FILE}) == [expected]


def test_several_files_of_one_field():
    files = [B64, {"text": "x", "filename": "x.txt"}, None, {"data": B64, "filename": "y.bin"}]
    octets = "application/octet-stream"
    assert parts({"f": files}, encoding={"f": FILE}) == [
        ("f", "f", octets, PNG), ("f", "x.txt", octets, b"x"), ("f", "y.bin", octets, PNG),
    ]  # fmt: skip
    assert rejected({"f": [B64, {"data": "%%"}]}, encoding={"f": FILE}) == "/body/f/1/data"


def test_a_textual_or_json_type_leaves_a_file_base64():
    csv = {"content_type": "text/csv", "file": True}
    content = base64.b64encode(b"a,b").decode()
    assert parts({"f": content}, encoding={"f": csv}) == [("f", "f", "text/csv", b"a,b")]
    json = {"content_type": "application/json", "file": True}
    text = base64.b64encode(b'{"a":1}').decode()
    assert parts({"f": [text]}, encoding={"f": json}) == [("f", "f", "application/json", b'{"a":1}')]


def test_a_file_chooses_among_the_types_of_the_document():
    images = {"f": {"content_type": "image/png, image/x-*, text/*", "file": True}}
    chosen = {"data": B64, "content_type": "text/plain; charset=utf-8"}
    assert parts({"f": chosen}, encoding=images)[0][2] == "text/plain; charset=utf-8"
    assert parts({"f": B64}, encoding=images)[0][2] == "image/png"
    # The type of a `data:` URL that the document does not have is not sent.
    assert parts({"f": f"data:image/gif;base64,{B64}"}, encoding=images)[0][2] == "image/png"
    assert (
        rejected({"f": {"data": B64, "content_type": "image/gif"}}, encoding=images) == "/body/f/content_type"
    )
    assert rejected({"f": {"data": B64, "content_type": "text/*"}}, encoding=images) == "/body/f/content_type"


@for_each(
    ("file", "pointer"),
    [
        ({}, "/body/f/data"),
        ({"filename": "x"}, "/body/f/data"),
        ({"data": B64, "text": "x"}, "/body/f/text"),
        ({"text": 1}, "/body/f/text"),
        ({"data": B64, "filename": 1}, "/body/f/filename"),
        ({"data": B64, "name": "x"}, "/body/f/name"),
        ({"data": B64, "content_type": "a/b\r\nX: y"}, "/body/f/content_type"),
        ({"data": B64, "headers": {"X-Other": "1"}}, "/body/f/headers/X-Other"),
        ({"data": B64, "headers": []}, "/body/f/headers"),
        ({"text": "日", "content_type": "text/plain; charset=iso-8859-1"}, "/body/f/text"),
        ({"text": "x", "content_type": "text/plain; charset=klingon"}, "/body/f/content_type"),
        ("no base64!", "/body/f"),
    ],
)
def test_what_is_no_file_is_rejected_with_its_pointer(file, pointer):
    assert rejected({"f": file}, encoding={"f": FILE}) == pointer


def test_file_names_cannot_begin_a_header():
    [part] = place({"f": {"data": B64, "filename": 'a"\r\nX-Evil: 1'}}, encoding={"f": FILE})
    assert part["X-Evil"] is None


HEADERS = {
    "f": {**FILE, "headers": {"X-Kind": {"required": True}, "X-Size": {"value": 7}}},
    "n": {"headers": {"X-Fixed": {"value": "a"}}},
}


class TestHeaders:
    def test_of_a_file_are_given_with_it(self):
        file = {"data": B64, "headers": {"x-kind": "k"}}
        [part] = place({"f": file}, encoding=HEADERS)
        assert (part["X-Kind"], part["X-Size"]) == ("k", "7")
        file["headers"] = {"X-Kind": True, "X-Size": 8}
        [part] = place({"f": file}, encoding=HEADERS)
        assert (part["X-Kind"], part["X-Size"]) == ("true", "8")

    def test_that_are_missing_or_cannot_be_sent_are_rejected(self):
        assert rejected({"f": B64}, encoding=HEADERS) == "/body/f/headers/X-Kind"
        evil = {"data": B64, "headers": {"X-Kind": "a\r\nX-Evil: 1"}}
        assert rejected({"f": evil}, encoding=HEADERS) == "/body/f/headers/X-Kind"
        structured = {"data": B64, "headers": {"X-Kind": ["a"]}}
        assert rejected({"f": structured}, encoding=HEADERS) == "/body/f/headers/X-Kind"

    def test_whose_names_cannot_be_sent_are_rejected_in_the_template(self):
        with pytest.raises(InvalidInput) as caught:
            place({}, encoding={"f": {**FILE, "headers": {"X\r\nY": {"value": 1}}}})
        assert caught.value.errors[0].pointer == "/body/encoding/f/headers/X\r\nY"

    def test_of_other_parts_are_those_of_the_document(self):
        [part] = place({"n": 1}, encoding=HEADERS)
        assert part["X-Fixed"] == "a"


def test_a_form_of_one_part_takes_its_value():
    encoding = {"file": FILE}
    assert parts(B64, encoding=encoding, single_part="file") == [
        ("file", "file", "application/octet-stream", PNG)
    ]
    many = [B64, {"text": "x", "filename": "x"}]
    assert [one[1] for one in parts(many, encoding=encoding, single_part="file")] == ["file", "x"]
    assert parts("text", single_part="file") == [("file", None, None, b"text")]
    assert rejected({"data": "%%"}, encoding=encoding, single_part="file") == "/body/data"


def test_files_of_any_name():
    assert parts({"a.png": B64, "n": "x"}, encoding={"n": {}}, other_fields=FILE) == [
        ("a.png", "a.png", "application/octet-stream", PNG),
        ("n", None, None, b"x"),
    ]


def test_files_inside_json_are_base64_strings():
    nested = {"o": {"nested_files": True}}
    value = {"o": {"g": {"text": "é"}, "h": [{"data": B64}], "i": {"text": "x", "more": 1}, "j": B64}}
    [part] = place(value, encoding=nested)
    assert orjson.loads(part.get_payload(decode=True)) == {
        "g": "w6k=", "h": [B64], "i": {"text": "x", "more": 1}, "j": B64,
    }  # fmt: skip
    named = {"o": {"g": {"text": "x", "filename": "y"}}}
    assert rejected(named, encoding=nested) == "/body/o/g/filename"
