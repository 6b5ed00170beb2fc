"""Documents in other encodings than UTF-8, and compressed: uploaded, and fetched from a URL."""

import gzip
import random
import zlib

import brotli
import orjson
import pytest
import yaml

from tests.harness.cases import for_each

from .documents import openapi

UNICODE = ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
TYPES = ["application/json", "application/yaml", "text/plain", "application/vnd.oai.openapi+json"]


def written(url):
    return orjson.dumps(openapi(url)).decode()


@for_each("encoding", UNICODE)
@for_each("media_type", TYPES)
async def test_any_unicode_encoding_is_registered_with_any_media_type(admin, upstream, encoding, media_type):
    body = written(upstream.url).encode(encoding)
    name = f"{encoding}-{TYPES.index(media_type)}"
    made = await admin.post(f"/providers?name={name}", content=body, headers={"Content-Type": media_type})
    assert made.status_code == 201, made.text
    assert (await admin.post(f"/providers/{name}/refresh")).json()["difference"]["changed"] == []


@for_each("encoding", UNICODE)
async def test_a_yaml_file_in_any_unicode_encoding_is_registered(admin, upstream, encoding):
    body = yaml.safe_dump(openapi(upstream.url)).encode(encoding)
    files = {"file": ("pets.yaml", body, "application/json")}
    made = await admin.post(f"/providers?name={encoding}", files=files)
    assert made.status_code == 201, made.text


@pytest.mark.parametrize(
    ("coding", "compress"),
    [("gzip", gzip.compress), ("x-gzip", gzip.compress), ("deflate", zlib.compress), ("br", brotli.compress)],
)
async def test_a_body_with_a_content_coding_is_decoded(admin, upstream, coding, compress):
    headers = {"Content-Type": "application/json", "Content-Encoding": coding}
    body = compress(written(upstream.url).encode("utf-16"))
    made = await admin.post("/providers?name=pets", content=body, headers=headers)
    assert made.status_code == 201, made.text
    canonical = compress(orjson.dumps({"name": "two", "source": {"document": openapi(upstream.url)}}))
    preview = await admin.post("/providers/preview", content=canonical, headers=headers)
    assert preview.status_code == 200, preview.text


@pytest.mark.parametrize("compress", [gzip.compress, brotli.compress], ids=["gzip", "br"])
async def test_a_large_body_with_a_content_coding_is_decoded(admin, upstream, compress):
    document = openapi(upstream.url)
    document["info"]["description"] = random.Random(1).randbytes(200_000).hex()
    coding = "gzip" if compress is gzip.compress else "br"
    headers = {"Content-Type": "application/json", "Content-Encoding": coding}
    body = compress(orjson.dumps(document))
    made = await admin.post("/providers?name=pets", content=body, headers=headers)
    assert made.status_code == 201, made.text


async def test_other_content_codings_are_rejected_with_those_that_are_decoded(admin):
    headers = {"Content-Type": "application/json", "Content-Encoding": "compress"}
    rejected = await admin.post("/providers?name=pets", content=b"x", headers=headers)
    assert rejected.status_code == 415
    assert "gzip" in rejected.headers["Accept-Encoding"]


@pytest.mark.parametrize("body", [b"no gzip", gzip.compress(b"{}" * 100)[:-9]], ids=["no gzip", "cut off"])
async def test_a_body_that_is_not_in_its_content_coding_is_rejected(admin, body):
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    rejected = await admin.post("/providers?name=pets", content=body, headers=headers)
    assert rejected.status_code == 400, rejected.text


@pytest.fixture(scope="module")
def bomb():
    return gzip.compress(b'{"openapi":"3.0.0","x":"' + b"a" * 300_000_000 + b'"}', compresslevel=1)


@pytest.mark.parametrize("how", ["coding", "file", "multipart"])
async def test_a_compressed_bomb_is_rejected(admin, bomb, how):
    headers = {
        "Content-Type": "application/json",
        **({"Content-Encoding": "gzip"} if how == "coding" else {}),
    }
    given = (
        {"files": {"file": ("bomb.gz", bomb)}}
        if how == "multipart"
        else {"content": bomb, "headers": headers}
    )
    rejected = await admin.post("/providers?name=pets", **given)
    assert rejected.status_code == 413, rejected.text


@pytest.mark.parametrize("send", ["body", "multipart"])
async def test_a_gzip_file_is_registered(admin, upstream, send):
    packed = gzip.compress(written(upstream.url).encode())
    if send == "body":
        headers = {"Content-Type": "application/gzip"}
        made = await admin.post("/providers?name=pets", content=packed, headers=headers)
    else:
        made = await admin.post("/providers?name=pets", files={"file": ("pets.json.gz", packed)})
    assert made.status_code == 201, made.text


@for_each("encoding", UNICODE)
async def test_a_fetched_document_may_be_a_gzip_file_in_any_unicode_encoding(admin, upstream, encoding):
    upstream.pages["/pets.json.gz"] = gzip.compress(written(upstream.url).encode(encoding))
    made = await admin.post("/providers", json={"name": encoding, "url": f"{upstream.url}/pets.json.gz"})
    assert made.status_code == 201, made.text
    again = await admin.post(f"/providers/{encoding}/refresh")
    assert again.json()["difference"]["changed"] == []
