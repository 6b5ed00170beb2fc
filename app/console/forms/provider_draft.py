"""What somebody adds to the gateway, between the steps of "Add an API": a source, and how it is read.

A draft is stored nowhere. One that is only an address stands in the URL of the page. One with a document or a
secret is a hidden field of the form, compressed and sealed for the key that made it (decision 118), so that a
reload brings it back, and the page has neither the document nor the secret.
"""

import asyncio
import base64
import binascii
import json
import re
import shlex
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self
from urllib.parse import parse_qsl, urlsplit

import orjson
from starlette.datastructures import FormData, QueryParams, UploadFile

from app.console.http.multipart import multipart_body
from app.core import exact_json
from app.core.secret_names import may_name_secret
from app.security.vault import SealBroken, Vault

ADDRESSES: Final = ("url", "mcp", "graphql", "grpc")
"""The sources that are an address, which the gateway reads."""
DOCUMENTS: Final = ("file", "paste")
"""The sources that come from the browser."""
_CONTEXT: Final = "console-draft"
_JSON_TYPE, _YAML_TYPE, _ZIP_TYPE, _TOML_TYPE = (
    "application/json", "application/yaml", "application/zip", "application/toml"
)  # fmt: skip
_NAME_PARTS: Final = frozenset(
    {"api", "apis", "www", "docs", "com", "org", "net", "io", "dev", "app", "openapi", "swagger", "json",
     "yaml", "yml", "v1", "v2", "v3", "latest", "raw", "spec", "mcp", "graphql"}
)  # fmt: skip
_MAX_NAME: Final = 50


class DraftLost(Exception):
    """The hidden field of a draft cannot be opened: it is of another key, or damaged."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A source with its options; `files` are names and contents, `token` is sent where the source is read."""

    source: str = "url"
    url: str = field(default="", repr=False)
    name: str = ""
    base_url: str = ""
    server: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    allow_empty: bool = False
    redirect_origin: str = ""
    token: str = field(default="", repr=False)
    files: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)

    @classmethod
    def from_query(cls, query: QueryParams) -> Self:
        """Return the draft that a URL has."""
        return cls(
            source=_choose_source(query.get("source", "")),
            url=query.get("url", ""),
            name=query.get("name", ""),
            base_url=query.get("base_url", ""),
            server=query.get("server", ""),
            variables=_read_variables(query.getlist("variable")),
            allow_empty=query.get("allow_empty") == "1",
            redirect_origin=query.get("redirect_origin", ""),
        )

    @classmethod
    async def from_form(cls, form: FormData, *, vault: Vault, key_id: str) -> Self:
        """Return the draft of a submitted form: that of its hidden field, with the fields that were changed.

        Raise DraftLost for a field that is not of this key.
        """
        sealed = str(form.get("draft", ""))
        draft = await asyncio.to_thread(cls._open, sealed, vault, key_id) if sealed else cls()
        for name in ("source", "url", "name", "base_url", "server", "token"):
            if name in form:
                changed: dict[str, Any] = {name: str(form[name]).strip()}
                draft = replace(draft, **changed)
        draft = replace(draft, source=_choose_source(draft.source))
        variables = {
            name.removeprefix("variable."): str(value)
            for name, value in form.multi_items()
            if name.startswith("variable.") and value
        }
        draft = replace(
            draft,
            variables={**draft.variables, **variables},
            allow_empty=form.get("allow_empty") == "1",
            redirect_origin=str(form.get("redirect_origin", "")),
        )
        files = [one for one in form.getlist("file") if isinstance(one, UploadFile) and one.filename]
        if files:
            read = [(str(one.filename), await one.read()) for one in files]
            return replace(draft, source="file", files=tuple(read))
        text = str(form.get("text", ""))
        if text.strip():
            return replace(draft, source="paste", files=(("", text.encode()),))
        return draft

    @property
    def is_given(self) -> bool:
        """Whether there is a source to read."""
        return bool(self.url) if self.source in ADDRESSES else bool(self.files)

    @property
    def fits_url(self) -> bool:
        """Whether the draft may stand in the URL of a page: it has neither a document nor a secret."""
        if self.files or self.token or self.source not in ADDRESSES:
            return False
        try:
            return not any(map(_may_be_secret, (self.url, self.base_url)))
        except ValueError:
            return False

    @property
    def shown_source(self) -> str:
        """The source in words, without what could be secret."""
        if self.source in DOCUMENTS:
            return ", ".join(name for name, _ in self.files if name)
        if self.fits_url:
            return self.url
        return shown_url(self.url)

    @property
    def shown_base_url(self) -> str:
        """The base URL, "" where it could be secret."""
        try:
            return "" if _may_be_secret(self.base_url) else self.base_url
        except ValueError:
            return ""

    def as_query(self) -> dict[str, Any]:
        """Return the parameters of the URL that has this draft."""
        return {
            "source": "" if self.source == "url" else self.source,
            "url": self.url,
            "name": self.name,
            "base_url": self.base_url,
            "server": self.server,
            "variable": [f"{name}={value}" for name, value in self.variables.items()],
            "allow_empty": "1" if self.allow_empty else "",
            "redirect_origin": self.redirect_origin,
        }

    async def sealed(self, vault: Vault, key_id: str) -> str:
        """Return the draft as the text of a hidden field, which only forms of the same key can use."""
        return await asyncio.to_thread(self._seal, vault, key_id)

    def _seal(self, vault: Vault, key_id: str) -> str:
        header = {
            "source": self.source, "url": self.url, "name": self.name, "base_url": self.base_url,
            "server": self.server, "variables": dict(self.variables), "allow_empty": self.allow_empty,
            "redirect_origin": self.redirect_origin,
            "token": self.token, "files": [[name, len(content)] for name, content in self.files],
        }  # fmt: skip
        head = exact_json.dumps(header)
        plain = len(head).to_bytes(4, "big") + head + b"".join(content for _, content in self.files)
        blob = vault.seal(zlib.compress(plain, 6), context=(_CONTEXT, key_id))
        return base64.urlsafe_b64encode(blob).decode()

    @classmethod
    def _open(cls, text: str, vault: Vault, key_id: str) -> Self:
        try:
            blob = base64.urlsafe_b64decode(text)
            plain = zlib.decompress(vault.open(blob, context=(_CONTEXT, key_id)))
        except (binascii.Error, ValueError, SealBroken, zlib.error):
            raise DraftLost from None
        end = 4 + int.from_bytes(plain[:4], "big")
        header = orjson.loads(plain[4:end])
        files = []
        for name, size in header.pop("files"):
            files.append((name, plain[end : end + size]))
            end += size
        return cls(**header, files=tuple(files))

    def proposed_name(self) -> str:
        """Return a legal name for the provider, made of the file's name or the address."""
        if self.source in DOCUMENTS:
            return legal_name(self.files[0][0].rpartition(".")[0] if self.files else "")
        try:
            parts = urlsplit(self.url if "://" in self.url else f"//{self.url}")
            host, path = parts.hostname or "", parts.path
        except ValueError:
            return "api"
        words = [*reversed(host.split(".")), *path.split("/")] if not host[:1].isdigit() else path.split("/")
        for word in words[1:] if host and not host[:1].isdigit() and len(words) > 1 else words:
            stem = word.partition(".")[0].lower()
            if stem and stem not in _NAME_PARTS:
                return legal_name(stem)
        return "api"

    def request(self, name: str, credentials: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the arguments of `ApiClient.send` for a registration or its preview."""
        options = {
            "base_url": self.base_url or None,
            "server": int(self.server) if re.fullmatch(r"[0-9]{1,6}", self.server) else None,
            "server_variables": dict(self.variables) or None,
            "allow_empty": self.allow_empty or None,
            "redirect_origin": self.redirect_origin or None,
        }
        fields = {
            "options": {key: value for key, value in options.items() if value is not None},
            "credentials": dict(credentials or {}),
        }
        fields = {key: value for key, value in fields.items() if value}
        if self.source in ADDRESSES:
            return {"json": {"name": name, "source": self._build_address(), **fields}}
        value = self._read_value()
        if isinstance(value, list) or (isinstance(value, dict) and "manual_call_templates" in value):
            # A list: each entry has a name and credentials of its own.
            return {"json": value}
        if isinstance(value, dict) and not {"openapi", "swagger", "paths", "tools"} & value.keys():
            if {"call_template_type", "provider_type"} & value.keys():
                return {"json": {"name": name, "source": {"call_template": value}, **fields}}
            if "source" in value or "url" in value:
                return {"json": {**value, "name": name, **fields}}
        parts: list[tuple[str, str, str, bytes]] = [
            (key, "", _JSON_TYPE, exact_json.dumps(member)) for key, member in fields.items()
        ]
        parts.append(("name", "", "text/plain", name.encode()))
        parts += [
            ("file", name or "document", media_type(name, content), content) for name, content in self.files
        ]
        body, content_type = multipart_body(parts)
        return {"body": body, "headers": {"Content-Type": content_type}}

    def _build_address(self) -> dict[str, Any]:
        auth: dict[str, Any] = {}
        if self.token:
            auth = {
                "auth": {
                    "auth_type": "api_key",
                    "api_key": f"Bearer {self.token}",
                    "var_name": "Authorization",
                }
            }
        match self.source:
            case "mcp":
                server = {"transport": "http", "url": self.url}
                config = {"mcpServers": {"server": server}}
                return {"call_template": {"call_template_type": "mcp", "config": config, **auth}}
            case "graphql":
                return {"call_template": {"call_template_type": "graphql", "url": self.url, **auth}}
            case "grpc":
                return {
                    "call_template": {"call_template_type": "grpc", **_read_grpc_address(self.url), **auth}
                }
        return {"url": self.url, **auth}

    def _read_value(self) -> Any:
        """Return the value of one JSON document; None for anything else."""
        if len(self.files) != 1 or self.files[0][1].lstrip()[:1] not in (b"{", b"["):
            return None
        try:
            return orjson.loads(self.files[0][1])
        except orjson.JSONDecodeError:
            return None

    def commands(self, name: str, slots: list[dict[str, Any]]) -> str:
        """Return the same steps as lines of a shell."""
        options = ["--name", name]
        options += ["--base-url", self.base_url] if self.base_url else []
        options += ["--server", self.server] if self.server else []
        options += ["--redirect-origin", self.redirect_origin] if self.redirect_origin else []
        for variable, value in self.variables.items():
            options += ["--server-variable", f"{variable}={value}"]
        source, lines = self.url, []
        if self.source in DOCUMENTS or not self.fits_url:
            source = next((name for name, _ in self.files if name), "document.json")
        elif self.source != "url":
            source = f"{name}.json"
            body = {"name": name, "source": self._build_address()}
            lines.append(f"echo {shlex.quote(json.dumps(body))} > {shlex.quote(source)}")
            options = []
        add = ["utcp-gateway", "providers", "add", source, *options]
        lines += [shlex.join([*add, "--preview"]), shlex.join(add)]
        for slot in slots:
            if slot["exact_kind"] == "mutual_tls":
                continue
            kind = slot["exact_kind"] if slot["exact_kind"] not in ("any", "unsupported") else "api_key"
            lines.append(
                shlex.join(["utcp-gateway", "credentials", "set", name, slot["slot"], "--kind", kind])
            )
        return "\n".join([*lines, shlex.join(["utcp-gateway", "tools", "list", "--provider", name])])


def _choose_source(text: str) -> str:
    return text if text in (*ADDRESSES, *DOCUMENTS) else ADDRESSES[0]


def legal_name(text: str) -> str:
    """Return a name of a provider that is as near to a text as can be: lower case letters, digits, dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_MAX_NAME].strip("-") or "api"


def shown_url(url: str) -> str:
    """Return a URL without user name, password and query, which may be secret."""
    start, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{start}{mark}{host.rpartition('@')[2]}{slash}{path}".partition("?")[0] if mark else ""


def media_type(name: str, content: bytes) -> str:
    """Return the media type of a document by its first bytes and its name."""
    if content[:4] == b"PK\x03\x04":
        return _ZIP_TYPE
    if name.endswith(".toml"):
        return _TOML_TYPE
    return _JSON_TYPE if content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") else _YAML_TYPE


def _may_be_secret(url: str) -> bool:
    """Return whether a URL has a user name, a password or a secret parameter; raise ValueError for none."""
    parts = urlsplit(url if "://" in url else f"//{url}")
    return bool(parts.username or parts.password) or _has_secret(parts.query)


def _has_secret(query: str) -> bool:
    return any(may_name_secret(name) for name, _ in parse_qsl(query, keep_blank_values=True))


def _read_grpc_address(text: str) -> dict[str, Any]:
    """Return host, port and TLS of `grpcs://host:port`, `grpc://host:port` or `host:port`."""
    try:
        parts = urlsplit(text if "://" in text else f"grpcs://{text}")
        port = parts.port
    except ValueError:
        return {"host": text, "port": 443, "use_ssl": True}
    secure = parts.scheme in ("grpcs", "https")
    return {"host": parts.hostname or "", "port": port or (443 if secure else 80), "use_ssl": secure}


def _read_variables(pairs: list[str]) -> dict[str, str]:
    pieces = (pair.partition("=") for pair in pairs)
    return {name: value for name, mark, value in pieces if mark}
