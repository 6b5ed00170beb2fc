"""The fields of every object of OpenAPI 2.0, 3.0, 3.1 and 3.2 (the tables "Fixed Fields" of each specification),
each with a value, and where a document has the object.

A value is placed into `base`, the object without it; `around` are further parts of the document, by JSON pointer.
"""

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

POST = "/paths/~1a/post"
QUERY = {"name": "q", "in": "query", "schema": {"type": "array"}}
BODY = f"{POST}/requestBody/content"
JSON_SCHEMA = f"{BODY}/application~1json/schema"
RESPONSE = f"{POST}/responses/200"


@dataclass(frozen=True)
class Sample:
    """A field's value, in a base and at a place other than those of its object where they are given."""

    value: Any
    base: Json | None = None
    at: str | None = None
    around: Json = field(default_factory=dict)


@dataclass(frozen=True)
class SpecificationObject:
    """An object: its place, what it is without a field, the rest of the document, and the fields of 3.0."""

    at: str
    fields: Json
    base: Json = field(default_factory=dict)
    around: Json = field(default_factory=dict)
    since_31: Json = field(default_factory=dict)
    since_32: Json = field(default_factory=dict)
    only_30: Json = field(default_factory=dict)

    def of(self, version: str) -> Json:
        """Return the fields of a version of 3.x, with their values."""
        found = {**self.fields, **(self.only_30 if version == "3.0" else self.since_31)}
        return found | (self.since_32 if version == "3.2" else {})


DOCS = {"url": "https://docs.example.com"}
OPERATION: Json = {"operationId": "op"}
KEY = {"type": "apiKey", "in": "header", "name": "X-Key"}
ARRAY = {"type": "array", "items": {"type": "string"}}
FORM = f"{BODY}/application~1x-www-form-urlencoded"
FORM_SCHEMA: Json = {f"{FORM}/schema": {"type": "object", "properties": {"f": ARRAY}}}
PARTS = f"{BODY}/multipart~1mixed"
PART_SCHEMA: Json = {f"{PARTS}/schema": {"type": "array"}}
XML = f"{BODY}/application~1xml/schema"
OAUTH = "/components/securitySchemes/k"
OAUTH_USED: Json = {f"{POST}/security": [{"k": []}]}
SELF = "https://self.example.com/api"

# The servers of a document are in the report where there is something to choose.
VARYING: Json = {"url": "https://{v}.example.com", "variables": {"v": {"default": "d"}}}

OBJECTS_3 = {
    "OpenAPI": SpecificationObject(
        "",
        base={
            "openapi": "3.0.0",
            "info": {},
            "servers": [{"url": "https://api.example.com"}],
            "paths": {"/a": {"post": OPERATION}},
        },
        fields={
            "openapi": "3.0.0",
            "info": {"title": "T"},
            "servers": [{"url": "https://other.example.com"}],
            "paths": {"/b": {"post": OPERATION}},
            "components": Sample(
                {"schemas": {"A": {"type": "string"}}},
                around={JSON_SCHEMA: {"$ref": "#/components/schemas/A"}},
            ),
            "security": Sample([{"k": []}], around={OAUTH: KEY}),
            "tags": Sample([{"name": "x", "parent": "y"}], around={f"{POST}/tags": ["x"]}),
            "externalDocs": DOCS,
        },
        since_31={"jsonSchemaDialect": "https://d.example.com", "webhooks": {"w": {"post": {}}}},
        since_32={
            "$self": Sample(
                SELF,
                around={
                    JSON_SCHEMA: {"$ref": f"{SELF}#/components/schemas/A"},
                    "/components/schemas/A": {"type": "string"},
                },
            )
        },
    ),
    "Info": SpecificationObject(
        "/info",
        {
            "title": "T",
            "description": "D",
            "termsOfService": "https://t.example.com",
            "contact": {"name": "N"},
            "license": {"name": "L"},
            "version": "7",
        },
        since_31={"summary": "S"},
    ),
    "Server": SpecificationObject(
        "/servers/0",
        {
            "url": "https://other.example.com",
            "description": Sample("D", base=VARYING),
            "variables": Sample({"v": {"default": "d"}}, base={"url": "https://{v}.example.com"}),
        },
        base={"url": "https://api.example.com"},
        since_32={"name": Sample("N", base=VARYING)},
    ),
    "Server Variable": SpecificationObject(
        "/servers/0/variables/v",
        {"enum": ["e"], "default": "d", "description": "D"},
        base={"enum": ["f"]},
        around={"/servers/0/url": "https://{v}.example.com"},
    ),
    "Components": SpecificationObject(
        "/components",
        {
            "schemas": Sample(
                {"A": {"type": "string"}}, around={JSON_SCHEMA: {"$ref": "#/components/schemas/A"}}
            ),
            "responses": Sample(
                {"R": {"content": {"application/json": {"schema": {"type": "string"}}}}},
                around={RESPONSE: {"$ref": "#/components/responses/R"}},
            ),
            "parameters": Sample(
                {"P": QUERY}, around={f"{POST}/parameters/0": {"$ref": "#/components/parameters/P"}}
            ),
            "examples": Sample(
                {"E": {"value": "e"}},
                around={
                    f"{POST}/parameters/0": {**QUERY, "examples": {"e": {"$ref": "#/components/examples/E"}}}
                },
            ),
            "requestBodies": Sample(
                {"B": {"content": {"text/plain": {}}}},
                around={f"{POST}/requestBody": {"$ref": "#/components/requestBodies/B"}},
            ),
            "headers": Sample(
                {"H": {"schema": {"const": "h"}}},
                around={
                    f"{BODY}/multipart~1form-data": {
                        "schema": {"properties": {"f": {"type": "string"}}},
                        "encoding": {"f": {"headers": {"X-H": {"$ref": "#/components/headers/H"}}}},
                    }
                },
            ),
            "securitySchemes": Sample({"k": KEY}, around=OAUTH_USED),
            "links": {"L": {"operationId": "op"}},
            "callbacks": {"C": {"{$request.body#/u}": {"post": {}}}},
        },
        since_31={
            "pathItems": Sample(
                {"I": {"get": {}}}, around={"/paths/~1b": {"$ref": "#/components/pathItems/I"}}
            )
        },
        since_32={
            "mediaTypes": Sample(
                {"M": {"schema": {"type": "string"}}},
                around={f"{BODY}/application~1json": {"$ref": "#/components/mediaTypes/M"}},
            )
        },
    ),
    "Path Item": SpecificationObject(
        "/paths/~1a",
        {
            "$ref": Sample("#/paths/~1b", base={}, around={"/paths/~1b/get": OPERATION}),
            "summary": "S",
            "description": "D",
            **{
                method: {"operationId": method}
                for method in ("get", "put", "delete", "options", "head", "patch", "trace")
            },
            "post": {"operationId": "another"},
            "servers": [{"url": "https://other.example.com"}],
            "parameters": [QUERY],
        },
        base={"post": OPERATION},
        since_32={
            "query": {"operationId": "query"},
            "additionalOperations": {"COPY": {"operationId": "copy"}},
        },
    ),
    "Operation": SpecificationObject(
        POST,
        {
            "tags": ["t"],
            "summary": "S",
            "description": "D",
            "externalDocs": DOCS,
            "operationId": "another",
            "parameters": [QUERY],
            "requestBody": {"content": {"text/plain": {}}},
            "responses": {"200": {"content": {"application/json": {"schema": {"type": "string"}}}}},
            "callbacks": {"c": {"{$request.body#/u}": {"post": {}}}},
            "deprecated": True,
            "security": Sample([{"k": []}], around={OAUTH: KEY}),
            "servers": [{"url": "https://other.example.com"}],
        },
        base=OPERATION,
    ),
    "Parameter": SpecificationObject(
        f"{POST}/parameters/0",
        {
            "name": "other",
            "in": "header",
            "description": "D",
            "required": True,
            "deprecated": True,
            "allowEmptyValue": Sample(True, base={**QUERY, "schema": {"type": "boolean"}}),
            "style": "pipeDelimited",
            "explode": False,
            "allowReserved": True,
            "schema": {"type": "integer"},
            "example": "e",
            "examples": {"e": {"value": "e"}},
            "content": Sample(
                {"application/json": {"schema": {"type": "object"}}}, base={"name": "q", "in": "query"}
            ),
        },
        base=QUERY,
    ),
    "Request Body": SpecificationObject(
        f"{POST}/requestBody",
        {
            "description": "D",
            "content": {"application/json": {"schema": {"type": "string"}}},
            "required": True,
        },
        base={"content": {"text/plain": {}}},
    ),
    "Media Type": SpecificationObject(
        FORM,
        {
            "schema": {"type": "object", "properties": {"g": {}}},
            "example": {"f": ["e"]},
            "examples": {"e": {"value": {"f": ["e"]}}},
            "encoding": {"f": {"style": "pipeDelimited"}},
        },
        base={"schema": {"type": "object", "properties": {"f": ARRAY}}},
        since_32={
            "itemSchema": Sample({"type": "object"}, base={}, at=f"{BODY}/application~1jsonl"),
            "prefixEncoding": Sample(
                [{"contentType": "image/png"}], base={"schema": {"type": "array"}}, at=PARTS
            ),
            "itemEncoding": Sample(
                {"contentType": "image/png"}, base={"schema": {"type": "array"}}, at=PARTS
            ),
        },
    ),
    "Encoding": SpecificationObject(
        f"{FORM}/encoding/f",
        {
            "contentType": "application/json",
            "headers": Sample(
                {"X-H": {"schema": {"const": "h"}}},
                at=f"{BODY}/multipart~1form-data/encoding/f",
                around={f"{BODY}/multipart~1form-data/schema": {"properties": {"f": {"type": "string"}}}},
            ),
            "style": "pipeDelimited",
            "explode": False,
            "allowReserved": True,
        },
        around=FORM_SCHEMA,
        since_32={
            "encoding": {"g": {"contentType": "text/plain"}},
            "prefixEncoding": Sample(
                [{"contentType": "image/png"}],
                base={"contentType": "multipart/mixed"},
                at=f"{PARTS}/itemEncoding",
                around=PART_SCHEMA,
            ),
            "itemEncoding": Sample(
                {"contentType": "image/png"},
                base={"contentType": "multipart/mixed"},
                at=f"{PARTS}/itemEncoding",
                around=PART_SCHEMA,
            ),
        },
    ),
    "Responses": SpecificationObject(
        f"{POST}/responses",
        {"default": {"content": {"application/json": {"schema": {"type": "string"}}}}},
    ),
    "Response": SpecificationObject(
        RESPONSE,
        {
            "description": "D",
            "headers": {"X-H": {"schema": {}}},
            "content": {"application/json": {"schema": {"type": "string"}}},
            "links": {"l": {"operationId": "op"}},
        },
        since_32={"summary": "S"},
    ),
    "Example": SpecificationObject(
        f"{POST}/parameters/0/examples/e",
        {"summary": "S", "description": "D", "value": "v", "externalValue": "https://e.example.com"},
        around={f"{POST}/parameters/0/{key}": value for key, value in QUERY.items()},
        since_32={"dataValue": "d", "serializedValue": "q=d"},
    ),
    "Header": SpecificationObject(
        f"{BODY}/multipart~1form-data/encoding/f/headers/X-H",
        {
            "description": "D",
            "required": True,
            "deprecated": True,
            "style": "simple",
            "explode": True,
            "schema": {"const": "other"},
            "example": "e",
            "examples": {"e": {"value": "e"}},
            "content": {"text/plain": {}},
        },
        base={"schema": {"const": "h"}},
        around={f"{BODY}/multipart~1form-data/schema": {"properties": {"f": {"type": "string"}}}},
    ),
    "Tag": SpecificationObject(
        "/tags/0",
        {"name": "t", "description": "D", "externalDocs": DOCS},
        base={"parent": "p"},
        around={f"{POST}/tags": ["t"]},
        since_32={
            "summary": "S",
            "kind": "nav",
            "parent": Sample("p", base={"name": "t"}),
        },
    ),
    "Reference": SpecificationObject(
        f"{POST}/parameters/0",
        {"$ref": "#/components/parameters/P"},
        around={"/components/parameters/P": QUERY},
        since_31={
            "summary": Sample("S", base={"$ref": "#/components/parameters/P"}),
            "description": Sample("D", base={"$ref": "#/components/parameters/P"}),
        },
    ),
    "Security Scheme": SpecificationObject(
        OAUTH,
        {
            "type": "apiKey",
            "description": "D",
            "name": "X-Other",
            "in": "query",
            "scheme": Sample("bearer", base={"type": "http"}),
            "bearerFormat": Sample("JWT", base={"type": "http", "scheme": "bearer"}),
            "flows": Sample(
                {"clientCredentials": {"tokenUrl": "https://t.example.com"}}, base={"type": "oauth2"}
            ),
            "openIdConnectUrl": Sample("https://o.example.com", base={"type": "openIdConnect"}),
        },
        base=KEY,
        around=OAUTH_USED,
        since_32={
            "oauth2MetadataUrl": Sample("https://m.example.com", base={"type": "oauth2", "flows": {}}),
            "deprecated": True,
        },
    ),
    "OAuth Flows": SpecificationObject(
        f"{OAUTH}/flows",
        {
            flow: {"tokenUrl": "https://t.example.com"}
            for flow in ("implicit", "password", "clientCredentials", "authorizationCode")
        },
        around={**OAUTH_USED, f"{OAUTH}/type": "oauth2"},
        since_32={"deviceAuthorization": {"tokenUrl": "https://t.example.com"}},
    ),
    "OAuth Flow": SpecificationObject(
        f"{OAUTH}/flows/authorizationCode",
        {
            "authorizationUrl": "https://a.example.com",
            "tokenUrl": "https://t.example.com",
            "refreshUrl": "https://r.example.com",
            "scopes": {"s": "S"},
        },
        around={**OAUTH_USED, f"{OAUTH}/type": "oauth2"},
        since_32={"deviceAuthorizationUrl": "https://d.example.com"},
    ),
    "XML": SpecificationObject(
        f"{XML}/properties/a/xml",
        {
            "name": "n",
            "namespace": "https://n.example.com",
            "prefix": Sample("p", base={"namespace": "https://n.example.com"}),
            "attribute": True,
            "wrapped": True,
        },
        around={XML: {"type": "object", "xml": {"name": "r"}, "properties": {"a": ARRAY}}},
        since_32={"nodeType": "element"},
    ),
}

#: Keywords of Schema Objects: in 3.0 a subset of JSON Schema and fields of its own, since 3.1 all of 2020-12.
COMPONENT = "/components/schemas/A"


def refers(reference: str) -> Json:
    """A document whose body is the schema that a reference leads to."""
    return {JSON_SCHEMA: {"$ref": reference}}


OBJECTS_3["Schema"] = SpecificationObject(
    JSON_SCHEMA,
    {
        "title": "T",
        "multipleOf": 2,
        "maximum": 1,
        "minimum": 1,
        "maxLength": 1,
        "minLength": 1,
        "pattern": "a",
        "maxItems": 1,
        "minItems": 1,
        "uniqueItems": True,
        "maxProperties": 1,
        "minProperties": 1,
        "required": ["a"],
        "enum": [1],
        "type": "string",
        "allOf": [{"type": "string"}],
        "oneOf": [{"type": "string"}],
        "anyOf": [{"type": "string"}],
        "not": {"type": "string"},
        "items": {"type": "string"},
        "properties": {"a": {}},
        "additionalProperties": False,
        "description": "D",
        "format": "date",
        "default": 1,
        "readOnly": Sample(True, at=f"{JSON_SCHEMA}/properties/a"),
        "writeOnly": Sample(True, at=f"{RESPONSE}/content/application~1json/schema/properties/a"),
        "externalDocs": DOCS,
        "example": 1,
        "deprecated": True,
        "xml": Sample({"name": "n"}, base={"type": "string"}, at=f"{XML}/properties/a", around={f"{XML}/xml": {"name": "r"}}),
    },
    only_30={"nullable": Sample(True, base={"type": "string"}), "exclusiveMaximum": Sample(True, base={"maximum": 1}),
             "exclusiveMinimum": Sample(True, base={"minimum": 1})},
    since_31={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": Sample("https://s.example.com/a", at=COMPONENT, around=refers("https://s.example.com/a")),
        "$anchor": Sample("n", at=COMPONENT, around=refers("#n")),
        "$dynamicAnchor": Sample("n", at=COMPONENT, around=refers("#n")),
        "$ref": Sample("#/components/schemas/A", around={COMPONENT: {"type": "string"}}),
        "$dynamicRef": Sample("#n", around={COMPONENT: {"$dynamicAnchor": "n"}}),
        "$defs": Sample({"d": {"type": "string"}}, at=COMPONENT, around=refers("#/components/schemas/A/$defs/d")),
        "$comment": "C",
        "$vocabulary": {},
        "exclusiveMaximum": 1,
        "exclusiveMinimum": 1,
        "maxContains": 1,
        "minContains": 1,
        "dependentRequired": {"a": ["b"]},
        "dependentSchemas": {"a": {"type": "string"}},
        "const": 1,
        "examples": [1],
        "prefixItems": [{"type": "string"}],
        "contains": {"type": "string"},
        "patternProperties": {"a": {}},
        "propertyNames": {"maxLength": 1},
        "if": {"type": "string"},
        "then": {"type": "string"},
        "else": {"type": "string"},
        "unevaluatedItems": False,
        "unevaluatedProperties": False,
        "contentEncoding": "base64",
        "contentMediaType": "image/png",
        "contentSchema": {"type": "string"},
    },
)  # fmt: skip

PETS: Json = {
    f"/components/schemas/{name}": {"type": "object", "properties": {"kind": {"type": "string"}}}
    for name in ("Cat", "Dog")
}
ONE_OF: Json = {"oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}]}
OBJECTS_3["Schema"].fields["discriminator"] = Sample({"propertyName": "kind"}, base=ONE_OF, around=PETS)
OBJECTS_3["Discriminator"] = SpecificationObject(
    f"{JSON_SCHEMA}/discriminator",
    {"propertyName": "kind", "mapping": {"tabby": "Cat"}},
    base={"propertyName": "kind"},
    around={JSON_SCHEMA: ONE_OF, **PETS},
    since_32={"defaultMapping": "Cat"},
)

PARAMETER_2: Json = {"name": "q", "in": "query", "type": "array", "items": {"type": "string"}}
SCHEMA_2 = f"{POST}/parameters/0/schema"
WHOLE: Json = {f"{POST}/parameters/0/name": "b", f"{POST}/parameters/0/in": "body"}
XML_2: Json = {**WHOLE, f"{POST}/consumes": ["application/xml"]}
SIMPLE_2: Json = {
    "format": "date", "items": {"type": "integer"}, "collectionFormat": "pipes", "default": ["d"], "maximum": 1,
    "exclusiveMaximum": Sample(True, base={**PARAMETER_2, "maximum": 1}), "minimum": 1,
    "exclusiveMinimum": Sample(True, base={**PARAMETER_2, "minimum": 1}), "maxLength": 1, "minLength": 1,
    "pattern": "a", "maxItems": 1, "minItems": 1, "uniqueItems": True, "enum": [["e"]], "multipleOf": 2,
}  # fmt: skip
OBJECTS_2 = {
    "Swagger": SpecificationObject(
        "",
        base={
            "swagger": "2.0",
            "info": {},
            "host": "api.example.com",
            "schemes": ["https"],
            "paths": {"/a": {"post": OPERATION}},
        },
        fields={
            "swagger": "2.0",
            "info": {"title": "T"},
            "host": "other.example.com",
            "basePath": "/b",
            "schemes": ["http"],
            "consumes": Sample(["text/plain"], around={**WHOLE, SCHEMA_2: {"type": "string"}}),
            "produces": Sample(["text/plain"], around={f"{RESPONSE}/schema": {"type": "string"}}),
            "paths": {"/b": {"post": OPERATION}},
            "definitions": Sample(
                {"A": {"type": "string"}}, around={**WHOLE, SCHEMA_2: {"$ref": "#/definitions/A"}}
            ),
            "parameters": Sample(
                {"P": PARAMETER_2}, around={f"{POST}/parameters/0": {"$ref": "#/parameters/P"}}
            ),
            "responses": Sample(
                {"R": {"schema": {"type": "string"}}}, around={RESPONSE: {"$ref": "#/responses/R"}}
            ),
            "securityDefinitions": Sample({"k": KEY}, around=OAUTH_USED),
            "security": Sample([{"k": []}], around={"/securityDefinitions/k": KEY}),
            "tags": [{"name": "t", "description": "D"}],
            "externalDocs": DOCS,
        },
    ),
    "Info": SpecificationObject(
        "/info",
        {
            "title": "T",
            "description": "D",
            "termsOfService": "https://t.example.com",
            "contact": {"name": "N"},
            "license": {"name": "L"},
            "version": "7",
        },
    ),
    "Path Item": SpecificationObject(
        "/paths/~1a",
        {
            "$ref": Sample("#/paths/~1b", base={}, around={"/paths/~1b/get": OPERATION}),
            **{
                method: {"operationId": method}
                for method in ("get", "put", "delete", "options", "head", "patch")
            },
            "post": {"operationId": "another"},
            "parameters": [PARAMETER_2],
        },
        base={"post": OPERATION},
    ),
    "Operation": SpecificationObject(
        POST,
        {
            "tags": ["t"],
            "summary": "S",
            "description": "D",
            "externalDocs": DOCS,
            "operationId": "another",
            "consumes": Sample(["text/plain"], around={**WHOLE, SCHEMA_2: {"type": "string"}}),
            "produces": Sample(["text/plain"], around={f"{RESPONSE}/schema": {"type": "string"}}),
            "parameters": [PARAMETER_2],
            "responses": {"200": {"schema": {"type": "string"}}},
            "schemes": ["http"],
            "deprecated": True,
            "security": Sample([{"k": []}], around={"/securityDefinitions/k": KEY}),
        },
        base=OPERATION,
    ),
    "Parameter": SpecificationObject(
        f"{POST}/parameters/0",
        {
            "name": "other",
            "in": "header",
            "description": "D",
            "required": True,
            "schema": Sample({"type": "string"}, base={"name": "b", "in": "body"}),
            "type": "string",
            "allowEmptyValue": Sample(True, base={"name": "q", "in": "query", "type": "boolean"}),
            **SIMPLE_2,
        },
        base=PARAMETER_2,
    ),
    "Items": SpecificationObject(
        f"{POST}/parameters/0/items",
        {
            "type": "string",
            **{
                key: value if not isinstance(value, Sample) else Sample(True, base={key[9:].lower(): 1})
                for key, value in SIMPLE_2.items()
                if key not in ("items", "collectionFormat")
            },
            "items": Sample({"type": "array", "items": {}}, base={"type": "array"}),
            "collectionFormat": Sample("pipes", base={"type": "array", "items": {}}),
        },
        around={f"{POST}/parameters/0/{key}": value for key, value in PARAMETER_2.items() if key != "items"},
    ),
    "Responses": SpecificationObject(f"{POST}/responses", {"default": {"schema": {"type": "string"}}}),
    "Response": SpecificationObject(
        RESPONSE,
        {
            "description": "D",
            "schema": {"type": "string"},
            "headers": {"X": {"type": "string"}},
            "examples": {"a/b": 1},
        },
    ),
    "Tag": SpecificationObject(
        "/tags/0",
        {"name": Sample("t", base={"parent": "p"}), "description": "D", "externalDocs": DOCS},
        around={f"{POST}/tags": ["t"]},
    ),
    "Reference": SpecificationObject(
        f"{POST}/parameters/0", {"$ref": "#/parameters/P"}, around={"/parameters/P": PARAMETER_2}
    ),
    "Schema": SpecificationObject(
        SCHEMA_2,
        {
            key: value
            for key, value in OBJECTS_3["Schema"].fields.items()
            if key not in ("oneOf", "anyOf", "not", "writeOnly", "deprecated", "readOnly", "xml")
        }
        | {
            "discriminator": "kind",
            "$ref": Sample("#/definitions/A", around={"/definitions/A": {"type": "string"}}),
            "exclusiveMaximum": Sample(True, base={"maximum": 1}),
            "exclusiveMinimum": Sample(True, base={"minimum": 1}),
            "readOnly": Sample(True, at=f"{SCHEMA_2}/properties/a", around=WHOLE),
            "xml": Sample(
                {"name": "n"}, base={"type": "string"}, at=f"{SCHEMA_2}/properties/a", around=XML_2
            ),
        },
        around=WHOLE,
    ),
    "XML": SpecificationObject(
        f"{SCHEMA_2}/properties/a/xml",
        OBJECTS_3["XML"].fields,
        around={**XML_2, SCHEMA_2: {"type": "object", "xml": {"name": "r"}, "properties": {"a": ARRAY}}},
    ),
    "Security Scheme": SpecificationObject(
        "/securityDefinitions/k",
        {
            "type": "apiKey",
            "description": "D",
            "name": "X-Other",
            "in": "query",
            **{
                key: Sample(value, base={"type": "oauth2", "flow": "accessCode"})
                for key, value in {
                    "flow": "application",
                    "authorizationUrl": "https://a.example.com",
                    "tokenUrl": "https://t.example.com",
                    "scopes": {"s": "S"},
                }.items()
            },
        },
        base=KEY,
        around=OAUTH_USED,
    ),
}
