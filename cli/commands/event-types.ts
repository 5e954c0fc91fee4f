/** `relay events types` and `import`: shows the event types that may be published, and makes those of a config out of OpenAPI. */
import { resolve } from "node:path";
import type { EventTypeOptions, EventTypes } from "../../core/model/event-type.ts";
import { compileEventTypes } from "../../core/runtime/offline.ts";
import { openApiTypes } from "../import/openapi.ts";
import { each, pathOf, type Shaped, shaped, withQuery } from "../support/ask.ts";
import { openApi } from "../support/client.ts";
import { API_OPTIONS, JSON_OPTION, type Command } from "../support/command.ts";
import { EX_DATAERR, ExitError } from "../support/exit.ts";
import { jsonIn, objectOf, readArgument, writeNewFile } from "../support/inputs.ts";
import { fields, json, printable, printTable } from "../support/output.ts";

const HEAD = { ...each("text", "name", "description?", "validate?"), ...each("flag", "deprecated?", "hasExample?") };
const SHOWN = { ...HEAD, ...each("any", "schema?", "example?") };

const types: Command = {
  usage: "events types [type]",
  about: "list the event types, or show the schema and the example of one",
  options: { ...JSON_OPTION, ...API_OPTIONS },
  examples: ["relay events types", "relay events types deposit:paid"],
  async run(given, io) {
    const api = await openApi(given, io);
    const [name] = given.args;
    if (name !== undefined) {
      const type = shaped(await api.ask("GET", pathOf("event-types", name)), SHOWN);
      return io.print(given.flag("json") ? json(type) : describe(type));
    }
    const all: Shaped<typeof HEAD>[] = [];
    let cursor: string | undefined;
    do {
      const answer = await api.ask("GET", withQuery("/event-types", { limit: 200, cursor }));
      all.push(...shaped(answer, [HEAD]));
      cursor = answer.nextCursor;
    } while (cursor !== undefined);
    if (given.flag("json")) io.print(json(all));
    else if (all.length === 0) io.say("relay: no event types yet");
    else io.print(printTable(["type", "validate", "example", "description"], all.map(cellsOf)));
  },
};

const cellsOf = ({ name, description, deprecated, validate, hasExample }: Shaped<typeof HEAD>) => [
  deprecated === true ? `${name} (deprecated)` : name,
  validate,
  hasExample === true ? "yes" : "",
  description,
];

function describe({ name, description, deprecated, validate, schema, example }: Shaped<typeof SHOWN>): string {
  const about = { type: name, description, deprecated: deprecated === true ? "yes" : undefined, validate };
  const lines = [fields(Object.entries(about))];
  if (schema !== undefined) lines.push(`schema  ${json(schema)}`);
  if (example !== undefined) lines.push(`example  ${json(example)}`);
  return lines.join("\n");
}

const MOST_MIB = 16;

const importTypes: Command = {
  usage: "events import <file>",
  about: "make event types for the config out of the webhooks of an OpenAPI document (YAML or JSON, - for stdin)",
  options: {
    "--output <file>": "write a module that the config imports (printed when left out)",
    "--force": "replace a file that is there",
    "--json": "print the types alone, as JSON",
  },
  examples: ["relay events import openapi.yaml", "relay events import openapi.yaml --output events.ts"],
  async run(given, io) {
    const found = openApiTypes(await parsed(await readArgument(given.args[0] ?? "", MOST_MIB, io)));
    if (found === undefined) throw new ExitError(EX_DATAERR, "the document has no webhooks");
    const made = { ...found.types };
    const notes = [...found.notes, ...(await leaveOut(made))];
    for (const note of notes) io.say(`relay: ${printable(note)}`);
    const count = Object.keys(made).length;
    const output = given.text("output");
    if (output !== undefined) writeNewFile(resolve(io.cwd, output), moduleOf(made), given.flag("force"));
    else io.print(given.flag("json") ? json(made) : moduleOf(made).trimEnd());
    const where = output === undefined ? "" : `, in ${printable(output)}`;
    const many = (of: number, what: string): string => (of === 1 ? `1 ${what}` : `${of} ${what}s`);
    const noted = notes.length === 0 ? "" : `, ${many(notes.length, "note")}`;
    io.say(`relay: ${many(count, "event type")}${where}${noted}`);
  },
};

/** Takes out schemas and examples that the config would refuse. @returns why, a line each */
async function leaveOut(made: Record<string, EventTypeOptions>): Promise<readonly string[]> {
  const notes: string[] = [];
  const refusing = Object.entries(made).map(([name, type]) => [name, { ...type, validate: "refuse" }]);
  const { problems } = await compileEventTypes(Object.fromEntries(refusing) as EventTypes);
  for (const { type: name, path, message } of problems) {
    const [place = "schema", ...rest] = path.map(String);
    const { [place as "schema"]: _, ...kept } = made[name] ?? {};
    made[name] = kept;
    notes.push(`${name}: its ${place} is left out: ${[...rest, ""].join(" ")}${message}`);
  }
  return notes;
}

/** @throws ExitError 65 */
async function parsed(text: string): Promise<Readonly<Record<string, unknown>>> {
  const document = objectOf(jsonIn(text) ?? (await parsedYaml(text)));
  if (document === undefined) throw new ExitError(EX_DATAERR, "the file is no OpenAPI document");
  return document;
}

/** @throws ExitError 65 */
async function parsedYaml(text: string): Promise<unknown> {
  // Loaded here, because no other command needs it.
  const { parse } = await import("yaml");
  let value: unknown;
  try {
    // Its warnings, as of a tag that it does not know, would go to the terminal as they are.
    value = parse(text, { logLevel: "error" });
  } catch (error) {
    const [line = ""] = String((error as Error).message).split("\n");
    throw new ExitError(EX_DATAERR, `the file is neither JSON nor YAML: ${printable(line)}`, { cause: error });
  }
  try {
    return JSON.parse(JSON.stringify(value)) as unknown;
  } catch (error) {
    throw new ExitError(EX_DATAERR, "the file is no OpenAPI document: an alias in it holds itself", { cause: error });
  }
}

const moduleOf = (types: Readonly<Record<string, EventTypeOptions>>): string =>
  `import type { EventTypeOptions } from "relaybox";

/** The event types of the config: \`events\`. */
export const events: Readonly<Record<string, EventTypeOptions>> = ${json(types)};
`;

export const commands: readonly Command[] = [types, importTypes];
