/** What the package is: its size, its dependencies, its types. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { VERSION } from "@utcp-gateway/client";
import { build } from "esbuild";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const MAX_BYTES = 10_000;

test("all of it is less than 10 kB, minified and compressed", async () => {
  const { outputFiles } = await build({
    stdin: { contents: 'export * from "@utcp-gateway/client";', resolveDir: ROOT },
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    // It fails where anything but the platform of browsers is imported.
    platform: "browser",
    target: "es2022",
  });
  const size = gzipSync(outputFiles[0]?.contents ?? assert.fail(), { level: 9 }).length;
  assert.ok(size > 1000 && size < MAX_BYTES, `${size} bytes`);
});

test("there are no dependencies at run time", () => {
  const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as Record<string, unknown>;
  for (const name of ["dependencies", "peerDependencies", "optionalDependencies"]) assert.equal(manifest[name], undefined);
  assert.equal(manifest["version"], VERSION);
});

test("the types are those of the contract", () => {
  const folder = mkdtempSync(join(tmpdir(), "models-"));
  try {
    const target = join(folder, "models.ts");
    execFileSync(process.execPath, [join(ROOT, "scripts", "generate-models.mjs"), target]);
    assert.equal(readFileSync(target, "utf8"), readFileSync(join(ROOT, "src", "models.ts"), "utf8"));
  } finally {
    rmSync(folder, { recursive: true });
  }
});
