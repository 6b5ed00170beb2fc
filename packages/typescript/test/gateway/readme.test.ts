/** The programs of README.md run as they stand. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { chatServer } from "./chat_server.js";

const BUILD = fileURLToPath(new URL("..", import.meta.url));
const PAGE = readFileSync(join(BUILD, "..", "README.md"), "utf8");
const [BOOKS = "", OPENAI = "", ANTHROPIC = "", AI_SDK = ""] = [...PAGE.matchAll(/^```js\n([^]*?)^```/gm)].map((each) => each[1]);
const MODELS = process.env["MODEL_URL"];
// Within the package, where its name and the development packages are found.
const folder = mkdtempSync(join(BUILD, "readme-"));

after(() => rmSync(folder, { recursive: true }));

async function run(program: string, environment: Record<string, string> = {}): Promise<string> {
  const path = join(folder, `program-${crypto.randomUUID()}.mjs`);
  writeFileSync(path, program);
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [path], { env: { ...process.env, MODEL: "m", ...environment } });
  assert.equal(stderr, "");
  return stdout;
}

test("the first program prints what the page says", async () => {
  const [, printed] = /^```\n\$ [^\n]* node books\.mjs\n([^]*?)^```/m.exec(PAGE) ?? [];
  assert.ok(printed);
  assert.equal(await run(BOOKS), printed);
});

test("openai", async () => {
  const printed = await run(OPENAI, { OPENAI_BASE_URL: `${MODELS}/openai`, OPENAI_API_KEY: "k" });
  assert.equal(printed, "4 results, 2 errors\n");
});

test("anthropic", async () => {
  const printed = await run(ANTHROPIC, { ANTHROPIC_BASE_URL: `${MODELS}/anthropic`, ANTHROPIC_API_KEY: "k" });
  assert.equal(printed, "4 results, 2 errors\n");
});

test("Vercel AI SDK", async () => {
  const server = await chatServer([["library_searchBooks", { q: "sea-wolf" }]]);
  try {
    assert.equal(await run(AI_SDK, { OPENAI_BASE_URL: server.url }), "Done.\n");
    const { role, content } = server.bodies[1].messages.at(-1);
    assert.deepEqual([role, JSON.parse(content).total], ["tool", 1]);
  } finally {
    server.close();
  }
});
