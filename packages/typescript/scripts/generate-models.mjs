// Writes src/models.ts: the types of what the client returns, of the schemas of openapi/gateway.json.
// Run it by `make client-models`. The argument is the file to write.
import { readFileSync, writeFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";

const RETURNED = [
  "ApprovalPage", "ApprovalResult", "ApprovalView", "ContinuationPart", "MeView", "Problem", "Ready", "ToolCallsResponse",
  "ToolDetails", "ToolExport", "ToolHit", "ToolPage", "ToolsetHit", "ToolsetPage", "ToolsetView",
  "WaitingForApproval",
];
const HEADER = "// Types of responses, generated from the contract; `make client-models` writes them anew.\n";
// What a later gateway may extend, or what types do not have.
const DROPPED = new Set([
  "enum", "const", "examples", "example", "title", "pattern", "minimum", "maximum", "minLength", "maxLength", "format", "default",
]);

/** The contract without paths, with the schemas of RETURNED and those that they refer to. */
export function reduced(contract) {
  const schemas = contract.components.schemas;
  const names = new Set(RETURNED);
  for (const name of names) {
    for (const [, found] of JSON.stringify(schemas[name]).matchAll(/"#\/components\/schemas\/([^"/]+)"/g)) names.add(found);
  }
  const kept = Object.fromEntries([...names].sort().map((name) => [name, lenient(schemas[name])]));
  return { openapi: contract.openapi, info: contract.info, paths: {}, components: { schemas: kept } };
}

function lenient(schema) {
  if (Array.isArray(schema)) return schema.map(lenient);
  if (typeof schema !== "object" || schema === null) return schema;
  const kept = {};
  for (const [name, value] of Object.entries(schema)) {
    if (name === "properties") {
      kept[name] = Object.fromEntries(Object.entries(value).map(([each, part]) => [each, lenient(part)]));
    } else if (name === "description") {
      kept[name] = value.split(/\s+/).join(" ").trim();
    } else if (!DROPPED.has(name)) {
      kept[name] = lenient(value);
    }
  }
  return kept;
}

const contract = JSON.parse(readFileSync(new URL("../../../openapi/gateway.json", import.meta.url), "utf8"));
const ast = await openapiTS(reduced(contract), { rootTypes: true, rootTypesNoSchemaPrefix: true, alphabetize: true });
const written = astToString(ast).replace(/\/\*\*\n \* This file was auto-generated[^]*?\*\/\n/, "");
writeFileSync(process.argv[2], HEADER + written);
