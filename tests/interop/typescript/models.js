// Reads each manual with the models of the released TypeScript client and its plugins.
//
// Arguments: paths of manuals. Prints a JSON object: for each path null, or [tool, error] of the tools that are rejected.

import { readFileSync } from "node:fs";
import { ToolSerializer, UtcpManualSerializer } from "@utcp/sdk";
import "@utcp/http";
import "@utcp/mcp";
import "@utcp/text";

const found = {};
for (const path of process.argv.slice(2)) {
  const raw = JSON.parse(readFileSync(path, "utf8"));
  found[path] = null;
  try {
    new UtcpManualSerializer().validateDict(raw);
  } catch (error) {
    found[path] = [["", String(error.message).slice(0, 500)]];
    for (const tool of raw.tools) {
      try {
        new ToolSerializer().validateDict(tool);
      } catch (one) {
        found[path].push([tool.name, String(one.message).slice(0, 500)]);
      }
    }
  }
}
console.log(JSON.stringify(found));
