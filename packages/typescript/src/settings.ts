/** Where the gateway is, and with which key requests are sent. */

const URL_VARIABLE = "UTCP_GATEWAY_URL";
const KEY_VARIABLE = "UTCP_GATEWAY_KEY";
export const VERSION = "0.1.0";

/** Whether tools are exported for constrained decoding; `auto` where nothing is lost. */
export type Strict = "auto" | boolean;

export interface GatewayOptions {
  /** URL of the gateway; without it the environment variable `UTCP_GATEWAY_URL`. */
  url?: string | undefined;
  /** API key; without it the environment variable `UTCP_GATEWAY_KEY`. */
  key?: string | undefined;
  /** Name of a toolset: then tools are those of this toolset. */
  toolset?: string | undefined;
  /** Milliseconds of a request with all of its retries (120,000). */
  timeout?: number | undefined;
  /** How often a request is repeated at most (3). */
  retries?: number | undefined;
  /** The default of `tools` and `run`, which need the same value (`auto`). */
  strict?: Strict | undefined;
  /** What sends the requests (the global `fetch`). */
  fetch?: typeof fetch | undefined;
}

/** The options of a gateway with their defaults. */
export interface Settings {
  url: string;
  toolset: string | undefined;
  timeout: number;
  retries: number;
  strict: Strict;
  fetch: typeof fetch;
}

interface Process {
  env?: Record<string, string | undefined>;
  versions?: { node?: string };
}

const nodeProcess = (globalThis as { process?: Process }).process;

/** Return the settings and the key; throw TypeError. No error has the key. */
export function readSettings(options: GatewayOptions): { settings: Settings; key: string | undefined } {
  const url = options.url || nodeProcess?.env?.[URL_VARIABLE];
  if (!url) throw new TypeError(`Give the gateway's URL, or set ${URL_VARIABLE}.`);
  const key = (options.key ?? nodeProcess?.env?.[KEY_VARIABLE]) || undefined;
  if (key && !/^[!-~]+$/.test(key)) {
    throw new TypeError("The API key has characters that no key has, such as blanks or line breaks.");
  }
  const { toolset, timeout = 120_000, retries = 3, strict = "auto" } = options;
  if (toolset !== undefined && !/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(toolset)) {
    throw new TypeError("This is no name of a toolset.");
  }
  if (!(timeout > 0) || !(retries >= 0)) {
    throw new TypeError("The timeout must be above 0, and retries must not be negative.");
  }
  // A browser's fetch may only be called as a function of its window.
  const send = options.fetch ?? ((input, init) => fetch(input, init));
  return { settings: { url: checkedUrl(url), toolset, timeout, retries, strict, fetch: send }, key };
}

function checkedUrl(url: string): string {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw new TypeError("The gateway's URL cannot be read.");
  }
  if (!/^https?:$/.test(parsed.protocol)) throw new TypeError("The gateway's URL begins with http:// or https:// and a host.");
  if (parsed.username || parsed.password || /[?#]/.test(url)) {
    throw new TypeError("The gateway's URL has no user, query or fragment.");
  }
  return url.replace(/\/+$/, "");
}

/** The header User-Agent; browsers send their own. */
export const AGENT: Record<string, string> = nodeProcess?.versions?.node
  ? { "User-Agent": `utcp-gateway-client/${VERSION} node/${nodeProcess.versions.node}` }
  : {};
