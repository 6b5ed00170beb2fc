"""Origins of URLs, and texts that are origins."""

from app.providers.credentials.origins import is_origin, origin_of
from tests.harness.cases import for_each


@for_each(("url", "origin"), [
    ("HTTPS://API.Example.com:443/x", "https://api.example.com"), ("http://a.example:8080", "http://a.example:8080"),
    ("http://[::1]:80/", "http://[::1]"), ("https://bücher.example/", "https://xn--bcher-kva.example"),
    ("ftp://a.example/", None), ("/relative", None), ("https://{host}/x", None), ("https://a b/", None),
    ("https://u@a.example/", None), ("https://a.example:99999/", None), ("https://a.example\\@b.example/", None),
])  # fmt: skip
def test_origin_of_a_url_is_that_of_its_calls(url, origin):
    assert origin_of(url) == origin


@for_each("text", ["https://a.example/x", "https://a.example?x", "https://a.example#x", "a.example", "*"])
def test_text_with_more_than_an_origin_is_no_origin(text):
    assert not is_origin(text)
