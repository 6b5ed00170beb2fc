/** The client of @hey-api/openapi-ts. */

import { client } from "./hey_api_client/client.gen";
import { callTool, listTools, previewProvider, registerProvider, searchTools } from "./hey_api_client/sdk.gen";
import type { Registration, UrlRegistrationInput, UrlSource } from "./hey_api_client/types.gen";
import { type Found, type Journey, required, run } from "./journey";

async function program({ url, key, registration }: Journey): Promise<Found> {
  client.setConfig({ baseUrl: url, auth: key });

  const short: UrlRegistrationInput = { name: registration.name, url: registration.source.url };
  const preview = await previewProvider({ body: short });
  const previewed = required(preview.data, preview.error);

  const source: UrlSource = registration.source;
  const body: Registration = { name: registration.name, source };
  const registered = await registerProvider({ body });
  const provider = required(registered.data, registered.error);

  const hits = await searchTools({ query: { q: "search books", provider: registration.name } });
  const found = required(hits.data, hits.error).items.map((tool) => tool.name);

  const name = `${registration.name}.searchBooks`;
  const headers = { Accept: "application/json" };
  const called = await callTool({ path: { name }, body: { q: "sea", limit: 3 }, headers });
  const wrong = await callTool({ path: { name }, body: { limit: "many" }, headers });
  const problem = required(wrong.error, wrong.data);

  const paged: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await listTools({ query: { provider: registration.name, limit: 3, cursor } });
    const { items, next_cursor } = required(page.data, page.error);
    paged.push(...items.map((tool) => tool.name));
    cursor = next_cursor ?? undefined;
  } while (cursor !== undefined);

  return {
    previewed: "name" in previewed ? previewed.name : "",
    registered: "name" in provider ? provider.name : "",
    found,
    called: required(called.data, called.error),
    rejected: {
      status: problem.status,
      detail: problem.detail,
      pointers: (problem.errors ?? []).map((error) => error.pointer),
    },
    paged,
  };
}

void run(program);
