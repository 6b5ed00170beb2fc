"""Converts security requirements to an OR of ANDs of credential slots, and security schemes to slots.

OAS 3.x Security Scheme and Security Requirement Objects; Swagger 2.0 `securityDefinitions`.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import orjson

from app.openapi.document import OpenApiDocument
from app.openapi.model import Json
from app.openapi.refs import RefProblem, escape
from app.openapi.servers import absolute, origin
from app.openapi.text import clean, label

_SLOT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]+")
_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
# The maximum in a real document is 26 alternatives of two credentials (Google's Data Portability).
_MAX_ALTERNATIVES = 40
_MAX_NEEDS = 8
_MAX_SCOPES = 50
# The flow whose token URL works without a person comes first; the names of 2.0 follow those of 3.x.
_FLOWS = (
    "clientCredentials",
    "application",
    "authorizationCode",
    "accessCode",
    "password",
    "deviceAuthorization",
)

Alternatives = list[list[Json]]


@dataclass(frozen=True, slots=True)
class SlotAlternatives:
    """An OR of ANDs of slots; `keys` are the (name, location) of its API keys, which are never inputs of a
    tool.

    `size` is the number of bytes of the alternatives as JSON.
    """

    alternatives: Alternatives
    keys: frozenset[tuple[str, str]] = frozenset()
    size: int = 0


class SecuritySlots:
    """The security schemes of a document as credential slots, created when an operation first requires
    them.
    """

    def __init__(self, document: OpenApiDocument) -> None:
        self._document = document
        self._v2 = document.version == "2.0"
        path = ("securityDefinitions",) if self._v2 else ("components", "securitySchemes")
        self._at = "".join(f"/{token}" for token in path)
        self._schemes = document.mapping(*path)
        self._slots: dict[str, Json] = {}

    def requirements(self, operation: Json, at: str, *, notes: list[str]) -> SlotAlternatives:
        """Return what an operation requires: its own `security`, else the document's. No alternatives:
        nothing.
        """
        listed, at = operation.get("security"), f"{at}/security"
        if listed is None:
            listed, at = self._document.raw.get("security"), "/security"
        key = ("security", id(listed))
        if key not in self._document.memo:
            remarks: list[str] = []
            alternatives = self._read(listed, at, remarks)
            size = len(orjson.dumps(alternatives))
            made = SlotAlternatives(alternatives, self._keys(alternatives), size)
            self._document.memo[key] = listed, (made, remarks)
        read: tuple[SlotAlternatives, list[str]] = self._document.memo[key][1]
        notes.extend(read[1])
        return read[0]

    def _keys(self, alternatives: Alternatives) -> frozenset[tuple[str, str]]:
        slots = (self._slots[need["slot"]] for alternative in alternatives for need in alternative)
        return frozenset(
            (slot["name"].lower() if slot["location"] == "header" else slot["name"], slot["location"])
            for slot in slots
            if slot["kind"] == "api_key"
        )

    def used(self, needs: list[tuple[Alternatives, str]]) -> list[Json]:
        """Return the slots that tools require, with the scopes of all tools and the origin of the first.

        `needs` contains the requirements and the URL of each tool, in order.
        """
        slots_used: dict[str, tuple[dict[str, None], str]] = {}
        seen: set[int] = set()
        for alternatives, url in needs:
            # Operations without `security` of their own share the document's list.
            if id(alternatives) in seen:
                continue
            seen.add(id(alternatives))
            for alternative in alternatives:
                for need in alternative:
                    scopes, _ = slots_used.setdefault(need["slot"], ({}, origin(url)))
                    scopes.update(dict.fromkeys(need["scopes"]))
        return [
            {**self._slots[slot], "scopes": list(scopes), "origin_hint": hint}
            for slot, (scopes, hint) in slots_used.items()
        ]

    def _read(self, listed: Any, at: str, notes: list[str]) -> Alternatives:
        if listed is None:
            return []
        if isinstance(listed, dict):
            notes.append("`security` is not a list; it was read as its only alternative")
            listed = [listed]
        if not isinstance(listed, list):
            notes.append(f"`security` at {at} is not a list; no credential is sent")
            return []
        if len(listed) > _MAX_ALTERNATIVES:
            notes.append(f"only the first {_MAX_ALTERNATIVES} alternatives of `security` were taken")
        alternatives: Alternatives = []
        for alternative in listed[:_MAX_ALTERNATIVES]:
            if not isinstance(alternative, dict):
                notes.append(f"an alternative of `security` at {at} is not an object and was left out")
                continue
            if len(alternative) > _MAX_NEEDS:
                notes.append(f"an alternative of more than {_MAX_NEEDS} credentials was left out")
                continue
            needs = [
                {"slot": self._slot(name), "scopes": _scopes(scopes)} for name, scopes in alternative.items()
            ]
            if needs not in alternatives:
                alternatives.append(needs)
        return alternatives

    def _slot(self, name: str) -> str:
        slot = name
        # A name of dots alone would be a dot segment in `/credentials/{slot}`.
        if not _SLOT.fullmatch(name) or not name.strip("."):
            digest = hashlib.sha256(name.encode()).hexdigest()[:8]
            slot = f"{_ILLEGAL.sub('_', name).strip('_')[:55] or 'slot'}_{digest}"
        if slot not in self._slots:
            self._slots[slot] = self._scheme(slot, name)
        return slot

    def _scheme(self, slot: str, name: str) -> Json:
        at = f"{self._at}/{escape(name)}"
        made: Json = {
            "slot": slot, "scheme": name[:200], "kind": "unsupported", "scheme_type": "undefined",
            "location": None, "name": None, "token_url": None, "scopes": [], "flows": [],
            "description": "", "origin_hint": None,
        }  # fmt: skip
        try:
            node = self._document.references.follow(self._schemes.get(name), at=at).node
        except RefProblem:
            node = None
        if not isinstance(node, dict):
            self._document.warnings.add(at, "a security scheme that operations require is not defined")
            return made
        made["description"] = clean(node.get("description"), max_length=1_000)[0]
        made["scheme_type"] = label(node.get("type")) or "undefined"
        made.update(self._kind(node, at))
        return made

    def _kind(self, node: Json, at: str) -> Json:
        kind = str(node.get("type")).lower()
        if kind == "apikey":
            return self._api_key(node, at)
        if kind == "basic":
            return {"kind": "basic"}
        if kind == "http":
            scheme = str(node.get("scheme", "")).lower()
            kinds = {"basic": "basic", "bearer": "bearer"}
            return {"kind": kinds.get(scheme, "unsupported"), "scheme_type": f"http {scheme[:40]}".strip()}
        if kind == "oauth2":
            return self._oauth2(node, at)
        self._document.warnings.add(at, "a security scheme of this type is not supported")
        return {}

    def _api_key(self, node: Json, at: str) -> Json:
        name, location = node.get("name"), node.get("in")
        legal = isinstance(name, str) and 0 < len(name) <= 256 and (
            location == "query" or (location in ("header", "cookie") and _FIELD.fullmatch(name) is not None)
        )  # fmt: skip
        if not legal:
            self._document.warnings.add(at, "an API key without a legal name and location is not supported")
            return {}
        return {"kind": "api_key", "location": location, "name": name}

    def _oauth2(self, node: Json, at: str) -> Json:
        flows = node.get("flows")
        if self._v2 or (not isinstance(flows, dict) and "flow" in node):
            flows = {str(node.get("flow")): node}
        flows = flows if isinstance(flows, dict) else {}
        token_url = None
        for flow in _FLOWS:
            declared = flows.get(flow)
            if isinstance(declared, dict) and token_url is None and declared.get("tokenUrl"):
                token_url = absolute(self._document, declared["tokenUrl"])
                if token_url is None:
                    self._document.warnings.add(at, "a token URL that is not absolute http(s) was left out")
        return {"kind": "oauth2", "token_url": token_url, "flows": [str(flow)[:40] for flow in flows][:10]}


def _scopes(listed: Any) -> list[str]:
    if not isinstance(listed, list):
        return []
    return list(dict.fromkeys(one[:200] for one in listed[:_MAX_SCOPES] if isinstance(one, str)))
