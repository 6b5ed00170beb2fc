// Makes tools of the Vercel AI SDK from exports (`format=ai-sdk`); prints an error by file, null where there is none.
import { readFileSync } from "node:fs";
import { asSchema, jsonSchema, tool } from "ai";

const rejected = {};
for (const path of process.argv.slice(2)) {
  rejected[path] = null;
  const { tools } = JSON.parse(readFileSync(path, "utf8"));
  for (const [name, { inputSchema, ...rest }] of Object.entries(tools)) {
    try {
      const made = tool({ ...rest, inputSchema: jsonSchema(inputSchema) });
      const taken = await asSchema(made.inputSchema).jsonSchema;
      if (JSON.stringify(taken) !== JSON.stringify(inputSchema)) throw new Error("the schema was changed");
      if (!made.description) throw new Error("there is no description");
    } catch (error) {
      rejected[path] = `${name}: ${error}`;
    }
  }
}
console.log(JSON.stringify(rejected));
