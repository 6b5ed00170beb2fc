"""Several files become one document, whose references are all local."""

import io
import time
import zipfile
from typing import Any

import orjson
import pytest

from app.core.errors import GatewayError, InvalidDocument, TooLarge
from app.formats.archive import DocumentLimits, pack_files, unpack
from app.openapi import ConvertOptions
from app.openapi.conversion.convert import convert
from tests.harness.cases import for_each

ROOT = b"""
openapi: 3.1.0
info: {title: Pets, version: "1"}
servers: [{url: "https://api.example.com"}]
paths:
  /pets: {$ref: paths/pets.yaml}
  /owners/{id}:
    get:
      operationId: getOwner
      parameters: [{$ref: "parameters.yaml#/Id"}]
      responses: {"200": {$ref: "responses.json#/default"}}
components:
  schemas:
    Local: {type: string, maxLength: 5}
"""
FILES = {
    "openapi.yaml": ROOT,
    "paths/pets.yaml": b"""
post:
  operationId: addPet
  requestBody: {content: {application/json: {schema: {$ref: "../schemas/pet.yaml#/Pet"}}}}
  responses: {default: {description: any}}
""",
    "schemas/pet.yaml": b"""
Pet:
  type: object
  required: [name]
  properties:
    name: {$ref: "../openapi.yaml#/components/schemas/Local"}
    default: {$ref: "#/Kind"}
    owner: {$ref: owner%20one.json}
    data: {type: object, default: {$ref: not-a-reference.yaml}}
Kind: {enum: [cat, dog]}
""",
    "schemas/owner one.json": b'{"type": "object", "properties": {"pets": {"items": {"$ref": "./pet.yaml#/Pet"}}}}',
    "parameters.yaml": b"Id: {name: id, in: path, required: true, schema: {type: integer}}",
    "responses.json": b'{"default": {"description": "ok", "content": {"application/json": {"schema": {"type": "array"}}}}}',
    "README.md": b"# Pets",
}


def bundled(files: dict[str, bytes], **options: Any) -> Any:
    return convert(pack_files(files), options=ConvertOptions(**options))


def zipped(*entries: tuple[zipfile.ZipInfo | str, bytes], deflated: bool = True) -> bytes:
    written = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED
    with zipfile.ZipFile(written, "w", kind) as opened:
        for name, content in entries:
            opened.writestr(name, content, compress_type=kind)
    return written.getvalue()


def test_files_that_refer_to_each_other_become_one_document() -> None:
    conversion = bundled(FILES)
    assert conversion.report.counts.accepted == 2, conversion.report
    assert conversion.missing == ()
    add, owner = sorted(conversion.tools, key=lambda tool: tool.name)
    assert owner.inputs["properties"]["id"]["type"] == "integer"
    assert owner.outputs == {"type": "array"}
    defs = add.inputs["$defs"]
    pet = next(one for one in defs.values() if "name" in one.get("properties", {}))
    assert pet["properties"]["name"] == {"$ref": "#/$defs/Local"}
    assert pet["properties"]["data"]["default"] == {"$ref": "not-a-reference.yaml"}
    kind = pet["properties"]["default"]["$ref"].removeprefix("#/$defs/")
    assert defs[kind] == {"enum": ["cat", "dog"]}


def test_the_same_files_give_the_same_bytes() -> None:
    assert pack_files(FILES) == pack_files(FILES)
    assert bundled(FILES).to_bytes() == bundled(FILES).to_bytes()


def test_a_file_that_is_not_there_leaves_its_part_out_and_is_named() -> None:
    files = {name: content for name, content in FILES.items() if name != "parameters.yaml"}
    conversion = bundled(files)
    assert len(conversion.tools) == 2
    assert conversion.missing == ("parameters.yaml",)
    [noted] = [one for one in conversion.report.operations if one.notes]
    assert any("another document" in note for note in noted.notes)


def test_a_file_that_cannot_be_read_leaves_its_part_out_and_is_a_warning() -> None:
    conversion = bundled({**FILES, "parameters.yaml": b"{{{"})
    assert len(conversion.tools) == 2
    assert any("parameters.yaml" in one.detail for one in conversion.report.warnings)


def test_the_root_is_the_document_nearest_to_the_top() -> None:
    files = {f"api/{name}": content for name, content in FILES.items()}
    assert bundled({**files, "api/examples/other.yaml": ROOT}).report.counts.accepted == 2


def test_of_several_documents_one_must_be_named() -> None:
    files = {**FILES, "admin.yaml": ROOT.replace(b"Pets", b"Admin")}
    with pytest.raises(InvalidDocument, match=r"admin\.yaml, openapi\.yaml"):
        bundled(files)
    assert bundled(files, root="admin.yaml").title == "Admin"
    with pytest.raises(InvalidDocument, match="contains no file"):
        bundled(files, root="absent.yaml")
    with pytest.raises(InvalidDocument, match="has neither"):
        bundled(files, root="parameters.yaml")
    with pytest.raises(InvalidDocument, match="None of the files"):
        bundled({"a.yaml": b"a: 1"})


def test_a_single_document_names_the_files_that_it_wants() -> None:
    options = ConvertOptions(url="https://api.example.com/docs/openapi.yaml", list_missing=True)
    conversion = convert(ROOT, options=options)
    assert conversion.missing == ("docs/paths/pets.yaml", "docs/parameters.yaml", "docs/responses.json")


def test_references_to_other_origins_and_out_of_the_archive_are_not_files() -> None:
    references = [
        "https://other.example/a.yaml",
        "//other.example/a.yaml",
        "../../etc/passwd",
        "file:///etc/passwd",
    ]
    paths = {f"/{n}": {"$ref": reference} for n, reference in enumerate(references)}
    document = {"openapi": "3.0.0", "info": {}, "paths": paths}
    assert bundled({"openapi.json": orjson.dumps(document)}).missing == ()
    options = ConvertOptions(url="https://api.example.com/a/openapi.json", list_missing=True)
    assert convert(orjson.dumps(document), options=options).missing == ()


def test_a_reference_to_an_identifier_in_the_document_is_no_file() -> None:
    url = "https://api.example.com/a/openapi.json"
    pet = {"$id": "schemas/pet", "type": "object", "properties": {"owner": {"$ref": "owner#/$defs/x"}}}
    schemas = {
        "Pet": pet,
        "Owner": {"$id": "https://api.example.com/a/schemas/owner", "$defs": {"x": {"type": "string"}}},
    }
    document = {"openapi": "3.1.0", "info": {}, "paths": {
        "/a": {"get": {"operationId": "a", "parameters": [
            {"name": "pet", "in": "query", "schema": {"$ref": "schemas/pet"}},
            {"name": "file", "in": "query", "schema": {"$ref": "schemas/file"}}]}}}, "components": {"schemas": schemas}}  # fmt: skip
    conversion = convert(orjson.dumps(document), options=ConvertOptions(url=url, list_missing=True))
    assert conversion.missing == ("a/schemas/file",)


def test_an_absolute_reference_to_the_own_origin_is_a_file() -> None:
    paths = {"/a": {"$ref": "https://api.example.com/x/a.yaml?v=1"}, "/b": {"$ref": "/b.yaml"}}
    document = orjson.dumps({"openapi": "3.0.0", "info": {}, "paths": paths})
    options = ConvertOptions(url="https://api.example.com/a/openapi.json", list_missing=True)
    assert convert(document, options=options).missing == ("x/a.yaml?v=1", "b.yaml")


def link() -> bytes:
    entry = zipfile.ZipInfo("openapi.yaml")
    entry.external_attr = 0o120777 << 16
    return zipped((entry, b"/etc/passwd"))


def encrypted() -> bytes:
    archive = bytearray(zipped(("openapi.yaml", ROOT)))
    archive[archive.rfind(b"PK\x01\x02") + 8] |= 1
    return bytes(archive)


def lying() -> bytes:
    """The directory says that a bomb is small."""
    archive = bytearray(zipped(("openapi.yaml", b"a" * (40 << 20))))
    at = archive.rfind(b"PK\x01\x02") + 24
    archive[at : at + 4] = (1000).to_bytes(4, "little")
    return bytes(archive)


def twice() -> bytes:
    with pytest.warns(UserWarning, match="Duplicate"):
        return zipped(("openapi.yaml", ROOT), ("openapi.yaml", ROOT))


HOSTILE = {
    "absolute path": lambda: zipped(("/etc/openapi.yaml", ROOT)),
    "path that climbs": lambda: zipped(("a/../../openapi.yaml", ROOT)),
    "backslashes": lambda: zipped(("..\\openapi.yaml", ROOT)),
    "drive": lambda: zipped(("C:/openapi.yaml", ROOT)),
    "control characters": lambda: zipped(("a\x1bb.yaml", ROOT)),
    "link": link,
    "encrypted": encrypted,
    "false size": lying,
    "one name twice": twice,
    "nested by name": lambda: zipped(("openapi.yaml", ROOT), ("more.zip", b"x")),
    "nested by content": lambda: zipped(("openapi.yaml", ROOT), ("more.yaml", zipped(("a", b"b")))),
    "bomb": lambda: zipped(("openapi.yaml", b"a" * (60 << 20))),
    "many bombs": lambda: zipped(*((f"{n}.yaml", b"a" * (1 << 20)) for n in range(100))),
    "many entries": lambda: zipped(*((f"{n}.yaml", b"") for n in range(12_000)), deflated=False),
    "only a directory's end": lambda: b"PK\x05\x06" + b"\x00" * 18,
    "cut off": lambda: zipped(("openapi.yaml", ROOT))[:-30],
    "noise": lambda: b"PK\x03\x04" + bytes(range(256)) * 40,
    "no document in it": lambda: zipped(("a.yaml", b"a: 1")),
    "empty": zipped,
    "much YAML": lambda: zipped(
        ("openapi.yaml", ROOT), *((f"paths/{n}.yaml", b"- [a, b]\n" * 60_000) for n in range(40))
    ),
}


@for_each("what", HOSTILE)
def test_a_hostile_archive_is_rejected_soon(what: str) -> None:
    archive = HOSTILE[what]()
    started = time.process_time()
    if what == "much YAML":
        # It is not referred to, so it is not even parsed.
        assert convert(archive).report.counts.operations == 1
    else:
        with pytest.raises(GatewayError) as refused:
            convert(archive)
        assert isinstance(refused.value, InvalidDocument | TooLarge)
    assert time.process_time() - started < 2


def test_yaml_of_all_files_together_is_bounded() -> None:
    paths = b"".join(b"  /%d: {$ref: %d.yaml}\n" % (n, n) for n in range(9))
    root = b"openapi: 3.0.0\ninfo: {}\npaths:\n" + paths
    large = {f"{n}.yaml": b"x: " + b"a" * 100_000 for n in range(9)}
    limits = DocumentLimits(yaml_size=500_000)
    with pytest.raises(TooLarge, match="YAML"):
        bundled({"openapi.yaml": root, **large}, limits=limits)


def test_noise_of_file_managers_is_no_file() -> None:
    archive = zipped(("openapi.yaml", ROOT), ("__MACOSX/._openapi.yaml", b"PK\x03\x04"), (".DS_Store", b"x"))
    assert list(unpack(archive, limits=DocumentLimits())) == ["openapi.yaml"]


SELF = {
    "openapi.json": {
        "openapi": "3.2.0",
        "$self": "https://apis.example.com/library",
        "servers": [{"url": "https://api.example.com"}],
        "paths": {"/a": {"post": {"requestBody": {"content": {"application/json": {"schema": {
            "properties": {
                "by_uri": {"$ref": "https://apis.example.com/shared#/components/schemas/A"},
                "relative": {"$ref": "shared#/components/schemas/B"},
                "by_path": {"$ref": "deep/other.json#/components/schemas/A"},
                "own": {"$ref": "https://apis.example.com/library#/components/schemas/C"},
            },
        }}}}}}},
        "components": {"schemas": {"C": {"type": "boolean"}}},
    },
    "deep/other.json": {
        "openapi": "3.2.0",
        "$self": "/shared",
        "components": {"schemas": {"A": {"type": "string"}, "B": {"$ref": "library#/components/schemas/C"}}},
    },
}  # fmt: skip


def test_files_are_named_by_their_own_uris() -> None:
    files = {path: orjson.dumps(value) for path, value in SELF.items()}
    files["deep/other.json"] = files["deep/other.json"].replace(
        b'"/shared"', b'"https://apis.example.com/shared"'
    )
    conversion = bundled(files, root="openapi.json")
    assert conversion.missing == ()
    [tool] = conversion.tools
    found = tool.inputs["properties"]["body"]["properties"]
    reached = {name: _reached(tool.inputs, schema) for name, schema in found.items()}
    assert reached == {"by_uri": "string", "relative": "boolean", "by_path": "string", "own": "boolean"}


def test_a_relative_uri_of_a_file_is_resolved_against_its_url() -> None:
    files = {path: orjson.dumps(value) for path, value in SELF.items()}
    url = "https://apis.example.com/openapi.json"
    conversion = bundled(files, root="openapi.json", url=url)
    assert conversion.missing == ()
    [tool] = conversion.tools
    assert _reached(tool.inputs, tool.inputs["properties"]["body"]["properties"]["by_uri"]) == "string"


def test_a_missing_file_is_wanted_where_the_own_uri_says() -> None:
    document = {**SELF["openapi.json"], "$self": "https://docs.example.com/v2/library"}
    schema = {"$ref": "shared.json#/A"}
    document["paths"] = {
        "/a": {"post": {"requestBody": {"content": {"application/json": {"schema": schema}}}}}
    }
    url = "https://docs.example.com/spec/openapi.json"
    options = ConvertOptions(url=url, list_missing=True)
    assert convert(orjson.dumps(document), options=options).missing == ("v2/shared.json",)
    document["$self"] = "https://apis.example.com/library"
    assert convert(orjson.dumps(document), options=options).missing == ("spec/shared.json",)


def _reached(inputs: dict[str, Any], schema: Any) -> Any:
    while "$ref" in schema:
        schema = inputs["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    return schema["type"]
