"""The pool "real operations": tools of public APIs, as the gateway registers them.

Its documents are those of vendors.txt, and a sample of the other ones of the public corpus, by the rule of
README.md.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

import orjson

from app.catalog.annotations import Annotations, effects
from app.core.errors import GatewayError
from app.formats.utcp.names import choose_alias
from app.openapi import ConvertOptions
from app.openapi.conversion.convert import convert
from app.search.hits import ShownTool, json_members
from app.search.index import IndexedTool
from benchmarks.corpus.download import FOLDER, corpus, url_of

SAMPLE: Final = 155
"""Documents beside those of the vendors."""
_VENDORS: Final = Path(__file__).parent / "vendors.txt"
_MAX_BYTES: Final = 300_000
_MAX_OF_A_DOMAIN: Final = 2
_BASE_URL: Final = "https://gateway.example"


@dataclass(frozen=True, slots=True)
class Document:
    """A document of the pool: the name that it is registered by, and its file."""

    provider: str
    path: Path


def vendor_documents() -> list[Document]:
    """Return the documents of vendors.txt. Raises CorpusUnavailableError."""
    corpus()
    lines = (line.split() for line in _VENDORS.read_text().splitlines() if not line.startswith("#"))
    root = FOLDER / "package" / "api"
    return [Document(provider, root / f"{path}.json") for provider, path in lines]


def pool_documents() -> list[Document]:
    """Return the documents of the pool, those of the vendors first. Raises CorpusUnavailableError."""
    vendors = vendor_documents()
    return [*vendors, *_sampled(corpus(), vendors)]


def documents_in_order(files: Sequence[Path]) -> list[Document]:
    """Return documents of the corpus in the order of the SHA-256 of their paths, each with its own name."""
    root = FOLDER / "package" / "api"
    paths = {path.relative_to(root).with_suffix("").as_posix(): path for path in files}
    ordered = sorted(paths, key=lambda path: hashlib.sha256(path.encode()).digest())
    return [Document(provider_name(path), paths[path]) for path in ordered]


def _sampled(files: Sequence[Path], vendors: Sequence[Document]) -> Iterator[Document]:
    """Yield the documents of at most 300 kB that come first in `documents_in_order`, at most two of a domain,
    but none of a vendor's, nor one that would have the name of another.
    """
    root = FOLDER / "package" / "api"
    taken = {document.path for document in vendors}
    names = {document.provider for document in vendors}
    by_domain: Counter[str] = Counter()
    for document in documents_in_order([file for file in files if file not in taken]):
        domain = document.path.relative_to(root).with_suffix("").parts[0]
        if (
            by_domain[domain] == _MAX_OF_A_DOMAIN
            or document.provider in names
            or document.path.stat().st_size > _MAX_BYTES
        ):
            continue
        by_domain[domain] += 1
        names.add(document.provider)
        yield document
        if by_domain.total() == SAMPLE:
            return


def provider_name(path: str) -> str:
    """Return the name of a document of the sample: the first part of its domain, and its service if any."""
    domain, _, service = path.partition("/")
    name = f"{domain.partition('.')[0]}_{service}" if service else domain.rpartition(".")[0] or domain
    return re.sub("[^a-z0-9]+", "_", name.lower()).strip("_")


def converted(document: Document) -> Iterator[IndexedTool]:
    """Yield the tools of a document, as the gateway would index them; none where it is rejected."""
    try:
        conversion = convert(document.path.read_bytes(), options=ConvertOptions(url=url_of(document.path)))
    except GatewayError:
        return
    aliases: set[str] = set()
    for tool in conversion.tools:
        # What a model sees of a large tool is indexed, as `app.catalog.tools.tool_select` reads it.
        seen = tool if tool.slimmed is None else tool.slimmed
        alias = choose_alias(document.provider, tool.name, aliases)
        aliases.add(alias)
        yield pool_tool(
            document.provider,
            tool.name,
            alias=alias,
            description=seen.description,
            inputs=seen.inputs,
            tags=tool.tags,
            keywords=tool.keywords,
            language=conversion.language,
            title=conversion.title,
        )


def pool_tool(
    provider: str,
    name: str,
    *,
    alias: str,
    description: str,
    inputs: Mapping[str, Any],
    tags: Sequence[str] = (),
    keywords: Sequence[str] = (),
    language: str | None = None,
    title: str = "",
) -> IndexedTool:
    """Return a tool with the members of a hit, as `app.search.rows.make_indexed_tool` makes it of a row."""
    whole = f"{provider}.{name}"
    shown = ShownTool(
        name=whole,
        alias=alias,
        provider=provider,
        description=description,
        schema=inputs,
        inputs=orjson.dumps(inputs).decode(),
        effects=effects(Annotations(), requires_approval=False, deprecated=False),
        average_response_size=None,
        tags=tags,
        call_url=f"{_BASE_URL}/tools/{alias}/call",
    )
    return IndexedTool(
        id=uuid5(NAMESPACE_URL, whole),
        provider_id=uuid5(NAMESPACE_URL, provider),
        provider=provider,
        name=whole,
        alias=alias,
        description=description,
        inputs=inputs,
        tags=tags,
        registrar_tags=(),
        json_members=json_members(shown),
        keywords=keywords,
        language=language,
        provider_title=title,
    )


def real_operations() -> list[IndexedTool]:
    """Return all tools of the pool. Takes 20 s of CPU time. Raises CorpusUnavailableError."""
    return [tool for document in pool_documents() for tool in converted(document)]
