// What the drivers of SDKs of npm share; recording.py is the same for those of PyPI.
const recorder = process.env.RECORDER_URL;

// The key or token of every SDK; the gateway stores the same.
export const CREDENTIAL = "test-credential";

const shared = {};

// Return the address of the recorder that stands in for an address of the API.
export function at(url) {
  const [scheme, rest] = url.split("://");
  return `${recorder}/-/${scheme}/${rest}`;
}

// Say that the requests of all operations, or of several, differ at a JSON pointer, and why.
export function alwaysDiffers(pointer, reason) {
  shared[pointer] = reason;
}

// Record the request that `send` lets the SDK send, as that of a tool with these arguments.
export async function call(tool, args, send, { reply = {}, differs = {} } = {}) {
  await control("PUT", { tool, arguments: args, reply, differs, may_differ: shared, equivalent: {} });
  try {
    await send();
  } catch (error) {
    // An SDK that does not accept the response has sent its request all the same.
    if ((await control("GET")).requests === 0) throw error;
  }
}

async function control(method, content) {
  const body = content && JSON.stringify(content);
  return (await fetch(`${recorder}/_recorder/call`, { method, body })).json();
}
