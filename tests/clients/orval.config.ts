/** Where orval reads the contract, and what sends the requests of its client. */

import { defineConfig } from "orval";

export default defineConfig({
  gateway: {
    input: "./gateway.json",
    output: {
      target: "./orval_client/gateway.ts",
      client: "fetch",
      override: { mutator: { path: "./orval_request.ts", name: "request" } },
    },
  },
});
