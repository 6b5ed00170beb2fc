/** Sends the requests of the client of orval, which knows neither the gateway's URL nor a key. */

let base = "";
let key = "";

/** Set the URL of the gateway and the API key of all requests. */
export function configure(url: string, apiKey: string): void {
  base = url;
  key = apiKey;
}

export async function request<T>(path: string, options: RequestInit): Promise<T> {
  const headers = new Headers(options.headers);
  headers.set("Authorization", `Bearer ${key}`);
  const response = await fetch(base + path, { ...options, headers });
  const text = await response.text();
  return { data: text && JSON.parse(text), status: response.status, headers: response.headers } as T;
}
