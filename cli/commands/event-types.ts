/** `relay events types`: shows the event types that may be published, and what their data is, through the API. */
import { commands as imports } from "./event-types-import.ts";
import { pathOf, withQuery } from "../support/api-path.ts";
import { openApi } from "../support/client.ts";
import { API_OPTIONS, JSON_OPTION, type Command } from "../support/command.ts";
import { fields, json, printTable } from "../support/output.ts";
import { record, rows } from "../support/response-shape.ts";

interface Head {
  readonly name: string;
  readonly description?: string;
  readonly deprecated?: boolean;
  readonly validate?: string;
  readonly hasExample?: boolean;
}
type Shown = Head & { readonly schema?: unknown; readonly example?: unknown };

const types: Command = {
  usage: "events types [type]",
  about: "list the event types, or show the schema and the example of one",
  options: [JSON_OPTION, ...API_OPTIONS],
  examples: ["relay events types", "relay events types deposit:paid"],
  async run(given, io) {
    const api = await openApi(given, io);
    const [name] = given.args;
    if (name !== undefined) {
      const type = record<Shown>(await api.ask("GET", pathOf("event-types", name)), { name: "text" });
      return io.print(given.flag("json") ? json(type) : describe(type));
    }
    const all: Head[] = [];
    let cursor: string | undefined;
    do {
      const answer = await api.ask("GET", withQuery("/event-types", { limit: 200, cursor }));
      all.push(...rows<Head>(answer, { name: "text" }));
      cursor = answer.nextCursor;
    } while (cursor !== undefined);
    if (given.flag("json")) io.print(json(all));
    else if (all.length === 0) io.say("relay: no event types yet");
    else io.print(printTable(["type", "validate", "example", "description"], all.map(cellsOf)));
  },
};

const cellsOf = ({ name, description = "", deprecated, validate = "", hasExample }: Head): string[] => [
  deprecated === true ? `${name} (deprecated)` : name,
  validate,
  hasExample === true ? "yes" : "",
  description,
];

function describe({ name, description, deprecated, validate, schema, example }: Shown): string {
  const lines = [
    fields([
      ["type", name],
      ["description", description],
      ["deprecated", deprecated === true ? "yes" : undefined],
      ["validate", validate],
    ]),
  ];
  if (schema !== undefined) lines.push(`schema  ${json(schema)}`);
  if (example !== undefined) lines.push(`example  ${json(example)}`);
  return lines.join("\n");
}

export const commands: readonly Command[] = [types, ...imports];
