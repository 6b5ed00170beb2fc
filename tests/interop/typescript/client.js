// client_v1.py with the released TypeScript client.

import { createInterface } from "node:readline";
import { UtcpClient } from "@utcp/sdk";
import "@utcp/http";

const print = console.log;
for (const name of ["log", "warn", "error"]) {
  console[name] = () => {};
}

async function run(url, token, calls, more, mode) {
  const variables = { gw_GATEWAY_TOKEN: token };
  for (const [name, value] of Object.entries(more)) {
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
  for (const [tool, args] of calls) {
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
  return {
    success: registered.success,
    errors: registered.errors,
    tools: registered.manual.tools.map((tool) => tool.name),
    found: found.map((tool) => tool.name),
    results,
  };
}

for await (const line of createInterface({ input: process.stdin })) {
  print(JSON.stringify(await run(...JSON.parse(line))));
}
process.exit(0);
