// Requests as swagger-client builds them: node swagger_client.cjs BUNDLE <cases >requests, both JSON lines.
// A case has the arguments of execute(), and may have `binary` (the body is base64) or `fileNames` (these fields
// are). A request is {url, method, headers, body (base64 or null)}, or {error}.
"use strict";

// The browser's bundle needs no other package; Node has all the browser features that it needs.
globalThis.window = globalThis;
globalThis.self = globalThis;
globalThis.File ??= require("node:buffer").File;
const client = require(require("node:path").resolve(process.argv[2]));
const lines = require("node:readline").createInterface({ input: process.stdin });

const file = (text) => new File([Buffer.from(text, "base64")], "file");

const files = (value) => (Array.isArray(value) ? value.map(file) : file(value));

function withFiles(fields, names) {
  const found = names.filter((name) => name in fields).map((name) => [name, files(fields[name])]);
  return { ...fields, ...Object.fromEntries(found) };
}

async function build({ binary, fileNames, ...request }) {
  if (binary) request.requestBody = file(request.requestBody);
  for (const place of ["requestBody", "parameters"]) {
    if (fileNames) request[place] = withFiles(request[place] || {}, fileNames);
  }
  const { url, method, body, ...made } = await client.execute({ ...request, http: (built) => built });
  // Values become texts, bodies become bytes and forms get their boundary as fetch() would do it.
  const headers = Object.fromEntries(Object.entries(made.headers).map(([name, value]) => [name, String(value)]));
  if (body === undefined) return { url, method, headers, body: null };
  const sent = new Response(body);
  if (body instanceof FormData) headers["Content-Type"] = sent.headers.get("content-type");
  return { url, method, headers, body: Buffer.from(await sent.arrayBuffer()).toString("base64") };
}

(async () => {
  for await (const line of lines) {
    const made = await build(JSON.parse(line)).catch((problem) => ({ error: String(problem) }));
    console.log(JSON.stringify(made));
  }
})();
