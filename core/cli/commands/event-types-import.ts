/** `relay events import`: makes the `events` of a config out of the webhooks of an OpenAPI document. */
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { text as readText } from "node:stream/consumers";
import type { EventTypeOptions, EventTypes } from "../../model/event-type.ts";
import { compileEventTypes } from "../../runtime/event-types/compile.ts";
import { objectOf } from "../import/entries.ts";
import { openApiTypes } from "../import/openapi.ts";
import { JSON_OPTION, type Command } from "../support/command.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { EX_DATAERR, EX_OK, EX_REFUSED, ExitError, usage } from "../support/exit.ts";
import { json, printable } from "../support/output.ts";

const MOST_BYTES = 16_777_216;

const importTypes: Command = {
  usage: "events import <file>",
  about: "make event types for the config out of the webhooks of an OpenAPI document (YAML or JSON, - for stdin)",
  options: [
    { flags: "--output <file>", about: "write a module that the config imports (printed when left out)" },
    { flags: "--force", about: "replace a file that is there" },
    { ...JSON_OPTION, about: "print the types alone, as JSON" },
  ],
  examples: ["relay events import openapi.yaml", "relay events import openapi.yaml --output events.ts"],
  async run(given, around) {
    const found = openApiTypes(await parsed(await read(given.args[0] ?? "", around)));
    if (found === undefined) throw new ExitError(EX_DATAERR, "the document has no webhooks");
    const types = { ...found.types };
    const notes = [...found.notes, ...(await leaveOut(types))];
    for (const note of notes) around.say(`relay: ${printable(note)}`);
    const count = Object.keys(types).length;
    const output = given.text("output");
    if (output !== undefined) write(resolve(around.cwd, output), moduleOf(types), given.flag("force"));
    else around.print(given.flag("json") ? json(types) : moduleOf(types).trimEnd());
    const where = output === undefined ? "" : `, in ${printable(output)}`;
    around.say(`relay: ${count} event types${where}${notes.length === 0 ? "" : `, ${notes.length} notes`}`);
    return EX_OK;
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

async function read(file: string, { cwd, stdin }: CliEnvironment): Promise<string> {
  if (file === "-") return readText(stdin);
  try {
    if (statSync(resolve(cwd, file)).size > MOST_BYTES) throw usage("the file is larger than 16 MiB");
    return readFileSync(resolve(cwd, file), "utf8");
  } catch (error) {
    if (error instanceof ExitError) throw error;
    throw usage(`the file cannot be read (${(error as NodeJS.ErrnoException).code ?? "unreadable"}): ${file}`);
  }
}

/** @throws ExitError 65 */
async function parsed(text: string): Promise<Readonly<Record<string, unknown>>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Loaded here, because no other command needs it.
    const { parse } = await import("yaml");
    try {
      // A document with aliases may hold itself; JSON cannot.
      value = JSON.parse(JSON.stringify(parse(text))) as unknown;
    } catch (error) {
      const [line = ""] = String((error as Error).message).split("\n");
      throw new ExitError(EX_DATAERR, `the file is neither JSON nor YAML: ${printable(line)}`, { cause: error });
    }
  }
  const document = objectOf(value);
  if (document === undefined) throw new ExitError(EX_DATAERR, "the file is no OpenAPI document");
  return document;
}

const moduleOf = (types: Readonly<Record<string, EventTypeOptions>>): string =>
  `import type { EventTypeOptions } from "relaybox";

/** The event types of the config: \`events\`. */
export const events: Readonly<Record<string, EventTypeOptions>> = ${json(types)};
`;

function write(file: string, text: string, force: boolean): void {
  try {
    writeFileSync(file, text, { flag: force ? "w" : "wx" });
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "EEXIST") throw new ExitError(EX_REFUSED, `${file} is there already; --force replaces it`);
    throw new ExitError(EX_REFUSED, `${file} cannot be written (${code ?? String(error)})`, { cause: error });
  }
}

export const commands: readonly Command[] = [importTypes];
