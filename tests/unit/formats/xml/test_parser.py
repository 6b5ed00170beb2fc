"""XML of upstreams: what is parsed, and what is rejected because it could expand or fetch."""

import pytest

from app.formats.xml.parser import (
    MAX_DEPTH,
    MAX_NAMESPACE,
    InvalidXml,
    XmlElement,
    parse_xml,
)
from tests.harness.cases import for_each


def test_a_document_is_parsed_by_local_names() -> None:
    root = parse_xml(
        b"""<?xml version="1.0"?><!DOCTYPE p:a><p:a xmlns:p="urn:p" p:x="1" y="2">t<b>&lt;&#233;</b>u<!-- c -->
        <c xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:nil="true" xsi:type="k"/></p:a>"""
    )
    assert (root.name, root.attributes) == ("a", {"x": "1", "y": "2"})
    assert root.text.split() == ["tu"]
    assert [(one.name, one.text, one.is_nil, one.attributes) for one in root.children] == [
        ("b", "<é", False, {}),
        ("c", "", True, {}),
    ]


@pytest.mark.parametrize(
    ("document", "encoding"),
    [
        ('<?xml version="1.0" encoding="iso-8859-1"?><a>é</a>'.encode("latin-1"), None),
        ("<a>é</a>".encode("utf-16"), None),
        ('<?xml version="1.0" encoding="iso-8859-1"?><a>é</a>'.encode(), "utf-8"),
        (b"\xef\xbb\xbf<a>\xc3\xa9</a>", None),
    ],
)
def test_encodings(document: bytes, encoding: str | None) -> None:
    assert parse_xml(document, encoding=encoding) == XmlElement("a", texts=["é"])


BILLION = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 9))


@for_each(
    "document",
    [
        f'<!DOCTYPE a [<!ENTITY l0 "lol">{BILLION}]><a>&l8;</a>',
        '<!DOCTYPE a [<!ENTITY e "text">]><a/>',
        '<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>',
        '<!DOCTYPE a [<!ENTITY % e SYSTEM "http://example.com/x.dtd">%e;]><a/>',
        '<!DOCTYPE a SYSTEM "http://example.com/x.dtd"><a>&unknown;</a>',
        '<!DOCTYPE a [<!NOTATION n SYSTEM "n"><!ENTITY e SYSTEM "e" NDATA n>]><a/>',
        "<a>&nbsp;</a>",
        "<a><b></a>",
        "<p:a/>",
        "<a/><b/>",
        "",
        "text",
        "<a>\x00</a>",
        '<?xml version="1.0" encoding="klingon"?><a/>',
        f"{'<a>' * (MAX_DEPTH + 1)}{'</a>' * (MAX_DEPTH + 1)}",
    ],
)
def test_what_is_not_read(document: str) -> None:
    with pytest.raises(InvalidXml):
        parse_xml(document.encode())


def test_a_document_with_too_many_elements_is_not_read() -> None:
    with pytest.raises(InvalidXml):
        parse_xml(b"<a>" + b"<b/>" * 500_000 + b"</a>")


def test_default_values_of_attributes_are_not_read() -> None:
    declared = '<!DOCTYPE r [<!ATTLIST a b CDATA "default">]>'
    root = parse_xml(f'{declared}<r><a/><a b="own"/></r>'.encode())
    assert [one.attributes for one in root.children] == [{}, {"b": "own"}]


def test_a_long_namespace_name_is_not_read() -> None:
    name = "urn:" + "x" * (MAX_NAMESPACE - 4)
    assert parse_xml(f'<a xmlns="{name}"><b/></a>'.encode()).children == [XmlElement("b")]
    for document in (
        f'<a xmlns="{name}x"/>',
        f'<a xmlns:p="{name}x"/>',
        f'<!DOCTYPE a [<!ATTLIST a xmlns CDATA "{name}x">]><a/>',
    ):
        with pytest.raises(InvalidXml):
            parse_xml(document.encode())
