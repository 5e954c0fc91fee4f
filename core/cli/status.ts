/** `relay status`: how the relay is, told by itself. */
import { openApi } from "./client.ts";
import type { Command } from "./command.ts";
import { API_OPTIONS, JSON_OPTION } from "./command.ts";
import { EX_OK } from "./exit.ts";
import { fields, json } from "./output.ts";

const status: Command = {
  usage: "status",
  about: "show how the relay is: nodes, storage, backlog",
  options: [JSON_OPTION, ...API_OPTIONS],
  async run(given, around) {
    const api = await openApi(given, around);
    const { data } = await api.ask("GET", "/relay/status");
    if (given.flag("json")) around.print(json(data));
    else around.print(fields([["relay", api.base], ...flatten(data, "")]));
    return EX_OK;
  },
};

/** `{ storage: { rows: 3 } }` → `storage.rows  3` */
function flatten(value: unknown, path: string): (readonly [string, string])[] {
  if (typeof value !== "object" || value === null) return [[path, String(value)]];
  return Object.entries(value).flatMap(([key, inner]) => flatten(inner, path === "" ? key : `${path}.${key}`));
}

export const commands: readonly Command[] = [status];
