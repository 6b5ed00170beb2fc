/** What the programs of all generated clients have in common: their arguments, and their output. */

declare const process: { argv: string[]; exit(code: number): never };

/** A registration with the URL of an OpenAPI document, as the test passes it. */
export interface Registration {
  name: string;
  source: { url: string };
}

/** What a program found; the test compares it with what the gateway says. */
export interface Found {
  previewed: string;
  registered: string;
  found: string[];
  called: unknown;
  rejected: { status: number; detail: string; pointers: string[] };
  paged: string[];
}

export interface Journey {
  url: string;
  key: string;
  registration: Registration;
}

/** Run a program with its arguments: the gateway's URL, an API key, and a registration as JSON. */
export async function run(program: (journey: Journey) => Promise<Found>): Promise<void> {
  const [url = "", key = "", registration = "{}"] = process.argv.slice(2);
  try {
    console.log(JSON.stringify(await program({ url, key, registration: JSON.parse(registration) as Registration })));
  } catch (error) {
    console.error(error);
    process.exit(1);
  }
}

/** Return the value; throw where there is none, with the problem that the gateway responded with. */
export function required<T>(value: T | undefined, problem: unknown): T {
  if (value === undefined) throw new Error(JSON.stringify(problem));
  return value;
}
