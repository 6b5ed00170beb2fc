// client_v1.py with the released TypeScript client: registers a manual, lists, searches and calls, prints JSON.
//
// Arguments: the manual's URL, the token, a JSON list of [tool, arguments] calls, further variables as JSON, and `stream`.

import { UtcpClient } from "@utcp/sdk";
import "@utcp/http";

const [url, token, calls, more, mode] = process.argv.slice(2);
const print = console.log;
for (const name of ["log", "warn", "error"]) {
  console[name] = () => {};
}
const variables = { gw_GATEWAY_TOKEN: token };
for (const [name, value] of Object.entries(JSON.parse(more))) {
  variables[`gw_${name}`] = value;
}
const client = await UtcpClient.create(process.cwd(), { variables });
const registered = await client.registerManual({
  name: "gw",
  call_template_type: "http",
  http_method: "GET",
  url,
  headers: { Authorization: `Bearer ${token}` },
  ...(mode === "stream" ? { allowed_communication_protocols: ["http", "streamable_http"] } : {}),
});
const found = await client.searchTools("book catalogue", 5);
const results = [];
for (const [tool, args] of JSON.parse(calls)) {
  try {
    if (mode === "stream") {
      const pieces = [];
      for await (const piece of client.callToolStreaming(`gw.${tool}`, args)) {
        pieces.push(piece);
      }
      results.push({ ok: pieces });
    } else {
      results.push({ ok: await client.callTool(`gw.${tool}`, args) });
    }
  } catch (error) {
    const body = error.response?.data;
    results.push({ error: `${error.name}: ${error.message} ${body ? JSON.stringify(body) : ""}` });
  }
}
print(
  JSON.stringify({
    success: registered.success,
    errors: registered.errors,
    tools: registered.manual.tools.map((tool) => tool.name),
    found: found.map((tool) => tool.name),
    results,
  }),
);
process.exit(0);
