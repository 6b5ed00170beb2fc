"""More documents that are meant to hurt, by what they try: each is refused, or none of it becomes a tool."""

from collections.abc import Callable
from typing import Any

import orjson

from tests.unit.openapi.conftest import document

Make = Callable[[], bytes]
JSON = b'{"openapi":"3.0.0","paths":{}}'


def whole(**given: Any) -> Make:
    return lambda: orjson.dumps({"openapi": "3.0.0", "info": {}, "paths": {}, **given})


def same(content: bytes) -> Make:
    return lambda: content


def deep(before: bytes, opening: bytes, closing: bytes, after: bytes, times: int) -> Make:
    return lambda: before + opening * times + b"1" + closing * times + after


MAGIC = {
    "png": b"\x89PNG\r\n\x1a\n", "pdf": b"%PDF-1.7\n", "elf": b"\x7fELF\x02\x01", "bzip2": b"BZh91AY&SY",
    "xz": b"\xfd7zXZ\x00", "zstd": b"\x28\xb5\x2f\xfd", "7z": b"7z\xbc\xaf\x27\x1c", "sqlite": b"SQLite format 3\x00",
    "wasm": b"\x00asm\x01", "class": b"\xca\xfe\xba\xbe", "ole": b"\xd0\xcf\x11\xe0", "gif": b"GIF89a",
    "tar": b"openapi.json\x00" + b"\x00" * 88 + b"0000644\x00", "mach-o": b"\xcf\xfa\xed\xfe",
}  # fmt: skip

BROKEN: dict[str, bytes] = {
    "nothing": b"", "white space": b" \n\t " * 100_000, "null": b"null", "a number": b"3", "a text": b'"openapi"',
    "a list of documents": b"[" + JSON + b"]", "two documents": JSON + JSON, "no end": JSON[:-1],
    "cut in a key": b'{"openapi":"3.0.0","pa', "cut in a number": b'{"openapi":3.', "cut in an escape": b'{"openapi":"\\u00',
    "a bad escape": b'{"openapi":"3.0.0","paths":{},"x":"\\q"}', "a tail": JSON + b"}" * 100_000,
     "half of UTF-16": JSON.decode().encode("utf-16")[:-3],
    "UTF-7": JSON.decode().encode("utf-7").replace(b"{", b"+AHs-"), "javascript": b"alert(1)", "xml": b"<?xml version='1.0'?><a/>",
    "an XML bomb": b'<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]><a>&c;</a>', "csv": b"a,b\n1,2\n" * 10_000,
    "a key of a million signs": b"{" + b'"' + b"k" * 1_000_000 + b'":1}', "a million minus signs": b"-" * 1_000_000,
    "a million quotes": b'"' * 1_000_001, "a million backslashes": b'{"openapi":"' + b"\\" * 1_000_001,
    "an open comment": b"/*" + b"x" * 1_000_000, "numbers of a million digits": b'{"openapi":' + b"9" * 1_000_000 + b"}",
}  # fmt: skip

KINDS: dict[str, Any] = {
    "text": "/a", "number": 1, "true": True, "list": ["/a"], "nested list": [[[]]],
}  # fmt: skip

VERSIONS: dict[str, Any] = {
    "list": ["3.0.0"], "map": {"3": 0}, "nothing": None, "empty": "", "word": "latest", "negative": -3, "one": "1.2",
    "huge": 10**18, "long": "9" * 100_000, "true": True, "four": 4,
}  # fmt: skip

_HEAD = b'{"openapi":"3.0.0","paths":{"/x":{"post":{"requestBody":{"content":{"application/json":{"schema":'
_TAIL = b"}}}}}}}"
NESTED: dict[str, Make] = {
    "lists of lists in a schema": deep(_HEAD, b'{"items":', b"}", _TAIL, 5_000),
    "allOf": deep(_HEAD, b'{"allOf":[', b"]}", _TAIL, 5_000),
    "not": deep(_HEAD, b'{"not":', b"}", _TAIL, 5_000),
    "properties": deep(_HEAD, b'{"properties":{"a":', b"}}", _TAIL, 5_000),
    "one beyond the limit": deep(b'{"openapi":"3.0.0","paths":{},"x":', b"[", b"]", b"}", 101),
    "half a million, never closed": lambda: _HEAD + b'{"items":' * 500_000,
    "callbacks in callbacks": deep(b'{"openapi":"3.0.0","paths":{"/x":{"post":', b'{"callbacks":{"a":{"b":{"post":', b"}}}}", b"}}}", 200),
    "YAML blocks": lambda: b"openapi: 3.0.0\npaths:\n" + b"".join(b" " * i + b"a:\n" for i in range(1, 3_000)),
    "YAML sequences in sequences": lambda: b"openapi: 3.0.0\nx:\n" + b"- " * 100_000 + b"1",
    "YAML flow in blocks": lambda: b"openapi: 3.0.0\nx: " + b"[{a: " * 50_000,
}  # fmt: skip

YAML: dict[str, Make] = {
    "an alias to nothing": same(b"openapi: 3.0.0\npaths: *nowhere\n"),
    "an alias as a key": same(b"a: &a x\nopenapi: 3.0.0\n*a : 1\n"),
    "a merge of a text": same(b"openapi: 3.0.0\npaths:\n  <<: text\n"),
    "a merge with itself": same(b"openapi: 3.0.0\npaths: &p\n  <<: *p\n"),
    "a list as a key": same(b"openapi: 3.0.0\n? [a, b]\n: 1\n"),
    "a map as a key": same(b"openapi: 3.0.0\n{a: 1}: 2\n"),
    "a directive for tags": same(b"%TAG ! tag:evil.example,2026:\n---\nopenapi: !x 3.0.0\n"),
    "an open quote": same(b'openapi: "' + b"x" * 1_000_000),
    "an open flow": same(b"openapi: 3.0.0\npaths: {" + b"a, " * 100_000),
    "bad indentation": same(b"openapi: 3.0.0\n  paths: {}\n"),
    "a NUL character": same(b"openapi: 3.0.0\x00\npaths: {}\n"),
    "a control character": same(b"openapi: 3.0.0\npaths: \x07\n"),
    "a block of 130 MiB": lambda: b"openapi: 3.0.0\nx: |\n" + b"  line\n" * 19_500_000,
    "a folded bomb": lambda: b"a: &a >\n" + b" x\n" * 300_000 + b"openapi: 3.0.0\nb: [" + b"*a, " * 300 + b"]",
    "anchors on anchors": lambda: b"a: &a {x: &b {y: &c [1]}}\nopenapi: 3.0.0\nb: [" + b"*a, *b, *c, " * 600_000 + b"]",
    "a doubling of lists": lambda: b"openapi: 3.0.0\nl0: &l0 [1, 1]\n" + b"".join(
        b"l%d: &l%d [*l%d, *l%d]\n" % (i, i, i - 1, i - 1) for i in range(1, 60)),
    "a doubling of merges": lambda: b"openapi: 3.0.0\nl0: &l0 {k: 1}\n" + b"".join(
        b"l%d: &l%d {a: *l%d, b: *l%d}\n" % (i, i, i - 1, i - 1) for i in range(1, 60)),
    "5.1 million keys": lambda: b"openapi: 3.0.0\nx:\n" + b"".join(b" k%d: 1\n" % i for i in range(5_100_000)),
    "a hundred documents": same(b"openapi: 3.0.0\n---\n" * 100),
}  # fmt: skip

REFUSED: dict[str, Make] = {
    **{f"{name} file": same(mark + b"\x00\x01" * 500) for name, mark in MAGIC.items()},
    **{f"broken: {name}": same(content) for name, content in BROKEN.items()},
    **{f"paths: {name}": whole(paths=value) for name, value in KINDS.items()},
    **{f"version: {name}": whole(openapi=value) for name, value in VERSIONS.items()},
    **{f"nested: {name}": make for name, make in NESTED.items()},
    **{f"yaml: {name}": make for name, make in YAML.items()},
}

REFERENCES = (
    "http://169.254.169.254/latest/meta-data/", "https://127.0.0.1:6379/", "http://[::1]/", "//evil.example/x.json",
    "file:///proc/self/environ", "ftp://a.example/x", "data:application/json,{}", "gopher://a.example/_x", "jar:file:///a!/b",
    "\\\\host\\share\\x.json", "..%2f..%2fetc%2fpasswd", "C:\\secret.json", "/etc/passwd", "~/.ssh/id_rsa", "$HOME/x",
    "#/components/schemas/Gone", "#nowhere", "#/", "urn:uuid:1", "", "?", "#/components/schemas/A/0/1/2/3",
)  # fmt: skip
SERVERS = (
    "javascript:alert(1)", "file:///etc/passwd", "data:text/plain,x", "ws://a.example", "https://", "https:///a",
    "https://a.example:99999", "https://a.example:0", "https://a b.example", "https://a.example\r\nX: y", "https://a.example\\@b.example",
    "https://{host}/", "https://[::1", "https://%61.example", "http:/a.example", "unix:/run/docker.sock", "https://a.example:port",
)  # fmt: skip
PATHS = (
    "/a\r\nHost: b", "/a\\..\\b", "/../a", "/a/%2e%2e/b", "/a/.%2E/b", "/%252e%252e/a", "/a/./b", "/" + "a" * 9_000,
)  # fmt: skip


def referring(reference: str) -> Make:
    schema = {"$ref": reference}
    body = {"content": {"application/json": {"schema": {"properties": {"a": schema}}}}}
    return lambda: orjson.dumps(document({"/x": {"post": {"requestBody": body}}}))


SKIPPED: dict[str, Make] = {
    **{f"server: {one!r}": lambda one=one: orjson.dumps(document({"/x": {"get": {}}}, servers=[{"url": one}])) for one in SERVERS},
    **{f"path: {one[:30]!r}": lambda one=one: orjson.dumps(document({one: {"get": {}}})) for one in PATHS},
    "a required header with a line break in its name": lambda: orjson.dumps(document(
        {"/x": {"get": {"parameters": [{"name": "a\r\nb", "in": "header", "required": True}]}}})),
    **{
        f"yaml: the tag {tag}": same(f"openapi: 3.0.0\npaths: {tag} x\n".encode())
        for tag in (
            "!!binary", "!!set", "!!timestamp", "!!python/name:os.system", "!!python/object/new:os.system", "!ruby/object:A",
            "!!js/function", "!env", "!<tag:yaml.org,2002:python/tuple>", "!!int", "!!float", "!!merge",
        )
    },
    "yaml: many tags": lambda: b"openapi: 3.0.0\npaths: {x: [" + b"!a [!b 1], " * 50_000 + b"]}\n",
    "a body that is a text": lambda: orjson.dumps(document({"/x": {"post": {"requestBody": "all"}}})),
}  # fmt: skip

ANY_VALUE: dict[str, Make] = {
    **{f"reference: {one}": referring(one) for one in REFERENCES},
    "a body that is a circle": lambda: orjson.dumps(document(
        {"/x": {"post": {"requestBody": {"$ref": "#/components/requestBodies/A"}}}},
        components={"requestBodies": {"A": {"$ref": "#/components/requestBodies/B"}, "B": {"$ref": "#/components/requestBodies/A"}}})),
    "a parameter that is a circle": lambda: orjson.dumps(document(
        {"/x": {"get": {"parameters": [{"$ref": "#/components/parameters/A"}]}}},
        components={"parameters": {"A": {"$ref": "#/components/parameters/A"}}})),
    "a media type that is a circle": lambda: orjson.dumps(document(
        {"/x": {"post": {"requestBody": {"content": {"application/json": {"$ref": "#/paths/~1x/post/requestBody/content/application~1json"}}}}}})),
    "anyOf in a circle": lambda: orjson.dumps(document(
        {"/x": {"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}}}},
        components={"schemas": {"A": {"anyOf": [{"$ref": "#/components/schemas/B"}]}, "B": {"not": {"$ref": "#/components/schemas/A"}}}})),
}  # fmt: skip
"""Documents whose references lead nowhere: what they should lead to is any value, with a note."""
