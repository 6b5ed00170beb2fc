"""Converts security requirements to an OR of ANDs of credential slots, and security schemes to slots.

OAS 3.x Security Scheme and Security Requirement Objects; Swagger 2.0 `securityDefinitions`.
"""

import hashlib
import re
from dataclasses import dataclass, replace
from typing import Any

from app.core import exact_json
from app.openapi.conversion.results import SchemeKind, SecuritySchemeSlot
from app.openapi.conversion.servers import absolute, origin
from app.openapi.conversion.text import clean, label
from app.openapi.model import Json
from app.openapi.reading.document import OpenApiDocument
from app.openapi.reading.refs import RefProblem, escape_token
from app.security.requirements import SecurityRequirements, SlotRequirement, security_json

_SLOT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]+")
_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
# The maximum in a real document is 26 alternatives of two credentials (Google's Data Portability).
_MAX_ALTERNATIVES = 40
_MAX_NEEDS = 8
_MAX_SCOPES = 50
_AUTH_SCHEME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,40}")
_HTTP_KINDS: dict[str, SchemeKind] = {"basic": "basic", "bearer": "bearer", "digest": "digest"}
# The flow whose token URL works without a person comes first; the names of 2.0 follow those of 3.x.
_FLOWS = (
    "clientCredentials",
    "application",
    "authorizationCode",
    "accessCode",
    "password",
    "deviceAuthorization",
)
# Fields of a Security Scheme Object and of an OAuth Flow Object that describe how a credential is obtained.
_HINTS = {
    "bearerFormat": "Format of the token",
    "openIdConnectUrl": "OpenID Connect metadata",
    "oauth2MetadataUrl": "Metadata of the authorization server",
}
_FLOW_HINTS = {
    "authorizationUrl": "Authorization URL",
    "deviceAuthorizationUrl": "Device authorization URL",
    "refreshUrl": "Refresh URL",
}


@dataclass(frozen=True, slots=True)
class SlotAlternatives:
    """An OR of ANDs of slots; `keys` are the (name, location) of its API keys, which are never inputs of a
    tool.

    `size` is the number of bytes of the alternatives as JSON.
    """

    alternatives: SecurityRequirements
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
        self._schemes = document.get_mapping(*path)
        self._slots: dict[str, SecuritySchemeSlot] = {}
        self._deprecated: set[str] = set()

    def requirements(self, operation: Json, pointer: str, *, notes: list[str]) -> SlotAlternatives:
        """Return what an operation requires: its own `security`, else the document's. No alternatives:
        nothing.
        """
        listed, pointer = operation.get("security"), f"{pointer}/security"
        if listed is None:
            listed, pointer = self._document.raw.get("security"), "/security"
        key = ("security", id(listed))
        if key not in self._document.memo:
            remarks: list[str] = []
            alternatives = self._read(listed, pointer, remarks)
            size = len(exact_json.dumps(security_json(alternatives)))
            slot_alternatives = SlotAlternatives(alternatives, self._list_keys(alternatives), size)
            self._document.memo[key] = listed, (slot_alternatives, remarks)
        read: tuple[SlotAlternatives, list[str]] = self._document.memo[key][1]
        notes.extend(read[1])
        return read[0]

    def _list_keys(self, alternatives: SecurityRequirements) -> frozenset[tuple[str, str]]:
        slots = (self._slots[need.slot] for alternative in alternatives for need in alternative)
        return frozenset(
            (slot.parameter.lower() if slot.location == "header" else slot.parameter, slot.location)
            for slot in slots
            if slot.parameter is not None and slot.location is not None
        )

    def used(self, needs: list[tuple[SecurityRequirements, str]]) -> tuple[SecuritySchemeSlot, ...]:
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
                    scopes, _ = slots_used.setdefault(need.slot, ({}, origin(url)))
                    scopes.update(dict.fromkeys(need.scopes))
        return tuple(
            replace(self._slots[slot], scopes=tuple(scopes), origin_hint=hint)
            for slot, (scopes, hint) in slots_used.items()
        )

    def _read(self, listed: Any, pointer: str, notes: list[str]) -> SecurityRequirements:
        if listed is None:
            return ()
        if isinstance(listed, dict):
            notes.append("`security` is not a list; it was read as its only alternative")
            listed = [listed]
        if not isinstance(listed, list):
            notes.append(f"`security` at {pointer} is not a list; no credential is sent")
            return ()
        if len(listed) > _MAX_ALTERNATIVES:
            notes.append(f"only the first {_MAX_ALTERNATIVES} alternatives of `security` were taken")
        alternatives: list[tuple[SlotRequirement, ...]] = []
        for alternative in listed[:_MAX_ALTERNATIVES]:
            if not isinstance(alternative, dict):
                notes.append(f"an alternative of `security` at {pointer} is not an object and was left out")
                continue
            if len(alternative) > _MAX_NEEDS:
                notes.append(f"an alternative of more than {_MAX_NEEDS} credentials was left out")
                continue
            needs = tuple(self._build_need(name, scopes) for name, scopes in alternative.items())
            if needs not in alternatives:
                alternatives.append(needs)
        # OAS 3.2: "consumers SHOULD refrain from usage" of a scheme that is deprecated.
        alternatives.sort(key=lambda needs: any(need.slot in self._deprecated for need in needs))
        return tuple(alternatives)

    def _build_need(self, name: str, scopes: Any) -> SlotRequirement:
        slot = self._add_slot(name)
        is_certificate = self._slots[slot].kind == "mutual_tls"
        return SlotRequirement(slot, _read_scopes(scopes), certificate=is_certificate)

    def _add_slot(self, name: str) -> str:
        slot = name = self._find_component(name)
        # A name of dots alone would be a dot segment in `/credentials/{slot}`.
        if not _SLOT.fullmatch(name) or not name.strip("."):
            digest = hashlib.sha256(name.encode()).hexdigest()[:8]
            slot = f"{_ILLEGAL.sub('_', name).strip('_')[:55] or 'slot'}_{digest}"
        if slot not in self._slots:
            self._slots[slot] = self._read_scheme(slot, name)
        return slot

    def _read_scheme(self, slot_name: str, name: str) -> SecuritySchemeSlot:
        pointer = f"{self._at}/{escape_token(name)}"
        slot = SecuritySchemeSlot(slot_name, name[:200])
        try:
            node = self._document.references.follow_described(self._schemes.get(name), location=pointer).node
        except RefProblem:
            node = None
        if not isinstance(node, dict):
            self._document.warnings.add(pointer, "a security scheme that operations require is not defined")
            return slot
        slot = replace(
            slot,
            description=_build_description(node, is_v2=self._v2),
            scheme_type=label(node.get("type")) or "undefined",
        )
        if node.get("deprecated") is True:
            self._deprecated.add(slot.name)
        return self._with_kind(slot, node, pointer)

    def _find_component(self, name: str) -> str:
        """Return the name of the scheme that a requirement means.

        OAS 3.2: a name that no scheme of the document has may be the URI of one.
        """
        if name in self._schemes or self._v2 or not ("#" in name or "/" in name):
            return name
        try:
            tokens = self._document.references.parse_reference(name, location="/security")
        except RefProblem:
            return name
        return tokens[2] if len(tokens) == 3 and tokens[:2] == ("components", "securitySchemes") else name

    def _with_kind(self, slot: SecuritySchemeSlot, node: Json, pointer: str) -> SecuritySchemeSlot:
        """Return the slot with what the security scheme at the pointer says of its kind."""
        kind = str(node.get("type")).lower()
        # An extension of Amazon API Gateway, which all public documents of AWS services have.
        if str(node.get("x-amazon-apigateway-authtype")).lower() == "awssigv4":
            declared = self._read_api_key(slot, node, pointer) if kind == "apikey" else slot
            return replace(declared, kind="aws_sigv4", scheme_type="awsSigv4")
        if kind == "apikey":
            return self._read_api_key(slot, node, pointer)
        if kind == "basic":
            return replace(slot, kind="basic")
        if kind == "http":
            return self._read_http(slot, node, pointer)
        if kind == "mutualtls":
            return replace(slot, kind="mutual_tls")
        if kind in ("oauth2", "openidconnect"):
            return self._read_oauth2(slot, node, pointer)
        self._document.warnings.add(pointer, "a security scheme of this type is not supported")
        return slot

    def _read_api_key(self, slot: SecuritySchemeSlot, node: Json, pointer: str) -> SecuritySchemeSlot:
        name, location = node.get("name"), node.get("in")
        legal = isinstance(name, str) and 0 < len(name) <= 256 and (
            location == "query" or (location in ("header", "cookie") and _FIELD.fullmatch(name) is not None)
        )  # fmt: skip
        if not legal:
            self._document.warnings.add(
                pointer, "an API key without a legal name and location is not supported"
            )
            return slot
        return replace(slot, kind="api_key", location=location, parameter=name)

    def _read_http(self, slot: SecuritySchemeSlot, node: Json, pointer: str) -> SecuritySchemeSlot:
        scheme = str(node.get("scheme", "")).strip()
        slot = replace(slot, scheme_type=f"http {scheme.lower()[:40]}".strip())
        known = _HTTP_KINDS.get(scheme.lower())
        if known is not None:
            return replace(slot, kind=known)
        if not _AUTH_SCHEME.fullmatch(scheme):
            self._document.warnings.add(pointer, "an http scheme without a legal name is not supported")
            return slot
        return replace(slot, kind="bearer", http_scheme=scheme)

    def _read_oauth2(self, slot: SecuritySchemeSlot, node: Json, pointer: str) -> SecuritySchemeSlot:
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
                    self._document.warnings.add(
                        pointer, "a token URL that is not absolute http(s) was left out"
                    )
        names = tuple(str(flow)[:40] for flow in flows)[:10]
        declared = node.get("openIdConnectUrl") or node.get("oauth2MetadataUrl")
        metadata_url = absolute(self._document, declared) if token_url is None else None
        if declared and token_url is None and metadata_url is None:
            self._document.warnings.add(pointer, "a metadata URL that is not absolute http(s) was left out")
        return replace(slot, kind="oauth2", token_url=token_url, metadata_url=metadata_url, flows=names)


def _build_description(node: Json, *, is_v2: bool) -> str:
    """Return the description of a security scheme, followed by what its other fields tell a person who has to
    get the credential.
    """
    texts = [clean(node.get("description"), max_length=1_000)[0]]
    if node.get("deprecated") is True:
        texts.append("Deprecated.")
    for key, text in _HINTS.items():
        if value := label(node.get(key)):
            texts.append(f"{text}: {value}.")
    flows = {str(node.get("flow")): node} if is_v2 else node.get("flows")
    for flow, flow_node in list(flows.items())[:10] if isinstance(flows, dict) else ():
        for key, text in _FLOW_HINTS.items():
            if isinstance(flow_node, dict) and (value := label(flow_node.get(key))):
                texts.append(f"{text} of the flow {label(flow)}: {value}.")
    return clean("\n".join(dict.fromkeys(filter(None, texts))), max_length=2_000)[0]


def _read_scopes(listed: Any) -> tuple[str, ...]:
    if not isinstance(listed, list):
        return ()
    return tuple(dict.fromkeys(one[:200] for one in listed[:_MAX_SCOPES] if isinstance(one, str)))
