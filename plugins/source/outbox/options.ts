/** The rules of the options that every outbox has. */
import { choice, inside, must, optional, text, unknownOptions, whole, type Rule } from "../../../core/ports/options.ts";
import { PRESETS, tableName } from "./layout.ts";
import { columnsOf, type OutboxOptions } from "./wanted.ts";

const table = must(
  'must be a table, or schema.table; other names stand in quotes: "Shop"."order events"',
  (value) => typeof value === "string" && tableName(value) !== undefined,
);
const column = optional(text("the name of a column", /^[^\p{Cc}]{1,64}$/u));
const COLUMNS = { id: column, event: column, payload: column, type: column, key: column, created: column, done: column, tx: column }; // prettier-ignore

/** @param options as the config gives them */
export function outboxRules(options: OutboxOptions | undefined) {
  const columns: Rule = (value, path) => {
    const problem = (message: string) => [{ path, message }];
    if (typeof value === "string" && !Object.hasOwn(PRESETS, value)) return problem('must be "debezium", or an object');
    if (typeof value !== "string") {
      const unknown = unknownOptions(value, Object.keys(COLUMNS));
      const wrong = [
        ...unknown.map((one) => ({ ...one, path: one.path === "" ? path : `${path}.${one.path}` })),
        ...inside(COLUMNS)(value, path),
      ];
      if (wrong.length > 0) return wrong;
    }
    const { event, payload, type, key } = columnsOf(value as OutboxOptions["columns"]);
    if (payload === undefined)
      return type === undefined && key === undefined ? [] : problem("must name payload beside type and key");
    if (event !== undefined) return problem("must name event or payload, not both");
    if (options?.map !== undefined) return [];
    if (key === undefined && options?.keyId === undefined)
      return problem("has no key: name its column (key), or give the option keyId");
    return type === undefined && options?.type === undefined
      ? problem("has no type: name its column (type), or give the option type")
      : [];
  };
  return {
    table: optional(table),
    columns: optional(columns),
    done: optional(choice("delete", "mark")),
    dead: optional(table),
    pollMs: optional(whole(10, 3_600_000)),
    maxInFlight: optional(whole(1, 10_000)),
  };
}
