/** `relay events import`: makes the `events` of a config out of the webhooks of an OpenAPI document. */
import { resolve } from "node:path";
import type { EventTypeOptions, EventTypes } from "../../core/model/event-type.ts";
import { compileEventTypes } from "../../core/runtime/offline.ts";
import { objectOf } from "../import/entries.ts";
import { openApiTypes } from "../import/openapi.ts";
import { JSON_OPTION, type Command } from "../support/command.ts";
import { EX_DATAERR, ExitError } from "../support/exit.ts";
import { readArgument, writeNewFile } from "../support/named-files.ts";
import { json, printable } from "../support/output.ts";

const MOST_MIB = 16;

const importTypes: Command = {
  usage: "events import <file>",
  about: "make event types for the config out of the webhooks of an OpenAPI document (YAML or JSON, - for stdin)",
  options: [
    { flags: "--output <file>", about: "write a module that the config imports (printed when left out)" },
    { flags: "--force", about: "replace a file that is there" },
    { ...JSON_OPTION, about: "print the types alone, as JSON" },
  ],
  examples: ["relay events import openapi.yaml", "relay events import openapi.yaml --output events.ts"],
  async run(given, io) {
    const found = openApiTypes(await parsed(await readArgument(given.args[0] ?? "", MOST_MIB, io)));
    if (found === undefined) throw new ExitError(EX_DATAERR, "the document has no webhooks");
    const types = { ...found.types };
    const notes = [...found.notes, ...(await leaveOut(types))];
    for (const note of notes) io.say(`relay: ${printable(note)}`);
    const count = Object.keys(types).length;
    const output = given.text("output");
    if (output !== undefined) writeNewFile(resolve(io.cwd, output), moduleOf(types), given.flag("force"));
    else io.print(given.flag("json") ? json(types) : moduleOf(types).trimEnd());
    const where = output === undefined ? "" : `, in ${printable(output)}`;
    const many = (of: number, what: string): string => (of === 1 ? `1 ${what}` : `${of} ${what}s`);
    const noted = notes.length === 0 ? "" : `, ${many(notes.length, "note")}`;
    io.say(`relay: ${many(count, "event type")}${where}${noted}`);
  },
};

/** Takes out schemas and examples that the config would refuse. @returns why, a line each */
async function leaveOut(types: Record<string, EventTypeOptions>): Promise<readonly string[]> {
  const notes: string[] = [];
  const { problems } = await compileEventTypes(
    Object.fromEntries(
      Object.entries(types).map(([name, type]) => [name, { ...type, validate: "refuse" }]),
    ) as EventTypes,
  );
  for (const { type: name, path, message } of problems) {
    const [place = "schema", ...rest] = path.map(String);
    const { [place as "schema"]: _, ...kept } = types[name] ?? {};
    types[name] = kept;
    notes.push(`${name}: its ${place} is left out: ${[...rest, ""].join(" ")}${message}`);
  }
  return notes;
}

/** @throws ExitError 65 */
async function parsed(text: string): Promise<Readonly<Record<string, unknown>>> {
  const document = objectOf(parsedJson(text) ?? (await parsedYaml(text)));
  if (document === undefined) throw new ExitError(EX_DATAERR, "the file is no OpenAPI document");
  return document;
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
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

export const commands: readonly Command[] = [importTypes];
