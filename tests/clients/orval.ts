/** The client of orval. */

import { type Found, type Journey, run } from "./journey";
import { callTool, listTools, previewProvider, registerProvider, searchTools } from "./orval_client/gateway";
import type { Registration, UrlRegistrationInput, UrlSource } from "./orval_client/gateway";
import { configure } from "./orval_request";

async function program({ url, key, registration }: Journey): Promise<Found> {
  configure(url, key);

  const short: UrlRegistrationInput = { name: registration.name, url: registration.source.url };
  const preview = await previewProvider(short);
  if (preview.status !== 200) throw new Error(JSON.stringify(preview));

  const source: UrlSource = registration.source;
  const body: Registration = { name: registration.name, source };
  const registered = await registerProvider(body);
  if (registered.status !== 201) throw new Error(JSON.stringify(registered));

  const hits = await searchTools({ q: "search books", provider: registration.name });
  if (hits.status !== 200) throw new Error(JSON.stringify(hits));

  const name = `${registration.name}.searchBooks`;
  const options = { headers: { Accept: "application/json" } };
  const called = await callTool(name, { q: "sea", limit: 3 }, undefined, options);
  if (called.status !== 200) throw new Error(JSON.stringify(called));
  const wrong = await callTool(name, { limit: "many" }, undefined, options);
  if (wrong.status !== 422) throw new Error(JSON.stringify(wrong));

  const paged: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await listTools({ provider: registration.name, limit: 3, cursor });
    if (page.status !== 200) throw new Error(JSON.stringify(page));
    paged.push(...page.data.items.map((tool) => tool.name));
    cursor = page.data.next_cursor ?? undefined;
  } while (cursor !== undefined);

  return {
    previewed: "name" in preview.data ? preview.data.name : "",
    registered: registered.data.name,
    found: hits.data.items.map((tool) => tool.name),
    called: "data" in called ? called.data : undefined,
    rejected: {
      status: wrong.data.status,
      detail: wrong.data.detail,
      pointers: (wrong.data.errors ?? []).map((error) => error.pointer),
    },
    paged,
  };
}

void run(program);
