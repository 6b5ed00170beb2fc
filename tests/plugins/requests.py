"""Requests in a form in which those of an SDK and those of the gateway are compared."""

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from email.message import Message
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

Json = dict[str, Any]

FORM = "application/x-www-form-urlencoded"

TRANSPORT_HEADERS = frozenset(
    {
        "accept",
        "accept-charset",
        "accept-encoding",
        "accept-language",
        "connection",
        "content-length",
        "content-type",
        "host",
        "transfer-encoding",
        "user-agent",
    }
)
"""They say how a request travels, or which response its program reads. The type of the body is compared by itself."""

RANDOM_HEADERS = frozenset({"idempotency-key"})
"""Their values are made up for each request, so that the recorded value is `(random)`."""

TELEMETRY_HEADERS = (
    # The gateway says by it that a request has passed it (RFC 8586), so that it does not call itself in a circle.
    "cdn-loop",
    # SDKs say by them which version of themselves, of their language and of their system sends the request.
    "x-stripe-client-user-agent", "x-goog-api-client", "x-asana-client-lib", "x-box-ua", "x-stainless-", "x-fern-",
    # How often it was retried, where it is a trace, whether it is a prefetch.
    "x-twilio-", "x-ms-client-request-id", "traceparent", "tracestate", "sec-fetch-mode",
)  # fmt: skip
"""Beginnings of the names of headers with which SDKs describe themselves."""


@dataclass(frozen=True, slots=True)
class SentRequest:
    """One request. `origin` is empty where it is not known which one the SDK would have called.

    `query`: values in their order, by name, percent-decoded. `path`: each segment with one form of percent-encoding.
    `headers`: names in lower case; without those of the transport and of telemetry. `body`: a JSON value; the fields of a form, or
    the parts of multipart/form-data, by name; otherwise text.
    """

    method: str
    origin: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    content_type: str | None
    body: Any

    def to_json(self) -> Json:
        """Return it as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, form: Json) -> "SentRequest":
        """Return the request that `to_json` wrote."""
        return cls(**form)


def normalized(method: str, target: str, headers: Sequence[tuple[str, str]], body: bytes) -> SentRequest:
    """Return a request of the recorder in the form that is compared."""
    parts = urlsplit(target)
    origin, path = _origin(parts.path)
    query: dict[str, list[str]] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        query.setdefault(name, []).append(value)
    kept = {name.lower(): value for name, value in headers}
    declared = kept.get("content-type")
    media_type, content = (None, None) if not body else _body(declared or "", body)
    compared = {
        name: "(random)"
        if name in RANDOM_HEADERS
        else _authorization(value)
        if name == "authorization"
        else value
        for name, value in sorted(kept.items())
        if name not in TRANSPORT_HEADERS and not name.startswith(TELEMETRY_HEADERS)
    }
    return SentRequest(method, origin, path, query, compared, media_type, content)


def differences(sdk: Any, gateway: Any, pointer: str = "") -> Iterator[str]:
    """Yield the JSON pointers of the values that differ; an object or a list that only one has is one value."""
    if isinstance(sdk, dict) and isinstance(gateway, dict):
        for name in sorted(sdk.keys() | gateway.keys()):
            inner = f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}"
            if name in sdk and name in gateway:
                yield from differences(sdk[name], gateway[name], inner)
            else:
                yield inner
    elif isinstance(sdk, list) and isinstance(gateway, list) and len(sdk) == len(gateway):
        for index, pair in enumerate(zip(sdk, gateway, strict=True)):
            yield from differences(*pair, f"{pointer}/{index}")
    elif sdk != gateway or isinstance(sdk, bool) != isinstance(gateway, bool):
        yield pointer


def unexplained(recorded: Json, operation: Json, sent: SentRequest, used: set[str]) -> list[str]:
    """Return the JSON pointers at which the gateway's request differs from the SDK's without a reason.

    `recorded` is a file of recorded/, `operation` one of its operations. The forms and pointers of its reasons that apply are added
    to `used`. A reason of the operation itself without a difference is in the list, too.
    """
    expected = SentRequest.from_json(operation["request"])
    for one in recorded["equivalent"]:
        changed = EQUIVALENCES[one["form"]](expected, sent)
        if changed is not expected:
            used.add(one["form"])
        expected = changed
    found = list(differences(expected.to_json(), sent.to_json()))
    own = [one["at"] for one in operation["differences"]]
    shared = {one["at"] for one in recorded["differences"]} - set(own)
    used |= shared.intersection(found)
    return [at for at in found if at not in shared and at not in own] + [at for at in own if at not in found]


def form_as_query(sdk: SentRequest, gateway: SentRequest) -> SentRequest:
    """Return a request whose form is in the query, where the SDK posts a form and the gateway sends GET."""
    if (sdk.method, sdk.content_type, gateway.method) != ("POST", FORM, "GET"):
        return sdk
    return replace(sdk, method="GET", query={**sdk.query, **sdk.body}, content_type=None, body=None)


def json_as_form(sdk: SentRequest, gateway: SentRequest) -> SentRequest:
    """Return a request whose JSON object of texts is a form, where the gateway sends a form."""
    if (sdk.content_type, gateway.content_type) != ("application/json", FORM):
        return sdk
    return replace(sdk, content_type=FORM, body={name: [value] for name, value in sdk.body.items()})


EQUIVALENCES: Final[Mapping[str, Callable[[SentRequest, SentRequest], SentRequest]]] = {
    "form-as-query": form_as_query,
    "json-as-form": json_as_form,
}
"""Two ways in which an API takes the same request, by name: what the SDK sends in the way of the gateway."""


def _origin(path: str) -> tuple[str, str]:
    origin = ""
    if path.startswith("/-/"):
        _, _, scheme, host, *rest = path.split("/")
        origin, path = f"{scheme}://{host}", "/" + "/".join(rest)
    return origin, "/".join(quote(unquote(segment), safe="") for segment in path.split("/"))


def _authorization(value: str) -> str:
    scheme, _, rest = value.partition(" ")
    if scheme.lower() == "basic":
        return f"Basic {base64.b64decode(rest).decode()}"
    return f"Bearer {rest}" if scheme.lower() == "bearer" else value


def _body(declared: str, body: bytes) -> tuple[str | None, Any]:
    message = Message()
    message["Content-Type"] = declared or "application/octet-stream"
    media_type = message.get_content_type()
    if media_type == "application/json" or media_type.endswith("+json"):
        return media_type, json.loads(body)
    if media_type == FORM:
        fields: dict[str, list[str]] = {}
        for name, value in parse_qsl(body.decode(), keep_blank_values=True):
            fields.setdefault(name, []).append(value)
        return media_type, fields
    if media_type == "multipart/form-data":
        return media_type, _parts(declared, body)
    return media_type if declared else None, body.decode(errors="replace")


def _parts(declared: str, body: bytes) -> Json:
    message = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {declared}\r\n\r\n".encode() + body)
    found: dict[str, list[Json]] = {}
    for part in message.iter_parts():
        name = str(part.get_param("name", header="content-disposition"))
        content = part.get_payload(decode=True)
        text = content.decode(errors="replace") if isinstance(content, bytes) else str(content)
        value: Any = json.loads(text) if part.get_content_type() == "application/json" else text
        found.setdefault(name, []).append({"filename": part.get_filename(), "value": value})
    return found
