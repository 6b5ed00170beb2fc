/** A server in the role of a gateway, on a real socket: it answers as it is told to, or ends the connection. */

import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

export interface Answer {
  status?: number;
  /** JSON, or the body itself where it is a Buffer. */
  body?: unknown;
  headers?: Record<string, string>;
  mediaType?: string;
  /** Ends the connection in place of a response. */
  drop?: boolean;
  /** Sends the headers and the body, but not its end. */
  open?: boolean;
  /** Never responds. */
  silent?: boolean;
}

export interface Received {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
}

/** Takes one of `answers` for each request, and keeps what it received. */
export interface Peer {
  url: string;
  answers: Answer[];
  received: Received[];
  /** Resolves when a connection was closed by the client while its response was open or silent. */
  left: Promise<void>;
  close(): Promise<void>;
}

export function problem(status: number, slug: string, members: Record<string, unknown> = {}, retryAfter?: number | string): Answer {
  return {
    status,
    body: { type: `urn:utcp-gateway:problem:${slug}`, title: slug, status, detail: "It failed.", ...members },
    headers: retryAfter === undefined ? {} : { "Retry-After": String(retryAfter) },
    mediaType: "application/problem+json",
  };
}

export async function peer(): Promise<Peer> {
  let leave: () => void = () => undefined;
  const left = new Promise<void>((resolve) => (leave = resolve));
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const { method = "", url = "", headers } = request;
    state.received.push({ method, path: url, headers, body: Buffer.concat(parts).toString() });
    const answer = state.answers.shift();
    if (!answer || answer.drop) {
      request.socket.destroy();
      return;
    }
    if (answer.open || answer.silent) response.on("close", leave);
    if (answer.silent) return;
    const body = Buffer.isBuffer(answer.body) ? answer.body : Buffer.from(JSON.stringify(answer.body));
    response.writeHead(answer.status ?? 200, { "Content-Type": answer.mediaType ?? "application/json", ...answer.headers });
    response.write(body);
    if (!answer.open) response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const state: Peer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    answers: [],
    received: [],
    left,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return state;
}
