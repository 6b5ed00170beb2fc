/** The client of openapi-typescript and openapi-fetch. */

import createClient from "openapi-fetch";

import { type Found, type Journey, required, run } from "./journey";
import type { components, paths } from "./openapi_typescript/gateway";

async function program({ url, key, registration }: Journey): Promise<Found> {
  const gateway = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${key}` } });

  const short: components["schemas"]["UrlRegistrationInput"] = { name: registration.name, url: registration.source.url };
  const preview = await gateway.POST("/providers/preview", { body: short });
  const previewed = required(preview.data, preview.error);

  const source: components["schemas"]["UrlSource"] = registration.source;
  const body: components["schemas"]["Registration"] = { name: registration.name, source };
  const registered = await gateway.POST("/providers", { body });
  const provider = required(registered.data, registered.error);

  const hits = await gateway.GET("/tools/search", {
    params: { query: { q: "search books", provider: registration.name } },
  });
  const found = required(hits.data, hits.error).items.map((tool) => tool.name);

  const name = `${registration.name}.searchBooks`;
  const json = { Accept: "application/json" };
  const called = await gateway.POST("/tools/{name}/call", {
    params: { path: { name } },
    body: { q: "sea", limit: 3 },
    headers: json,
  });
  const wrong = await gateway.POST("/tools/{name}/call", {
    params: { path: { name } },
    body: { limit: "many" },
    headers: json,
  });
  const problem = required(wrong.error, wrong.data);

  const paged: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await gateway.GET("/tools", {
      params: { query: { provider: registration.name, limit: 3, cursor } },
    });
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
