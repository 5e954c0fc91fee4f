// Reads what the config's schema takes, and what holds when a key is left out, from the schema and the defaults themselves.
import * as defaults from "../../config/defaults.ts";
import { configSchema } from "../../config/schema.ts";

const schema = configSchema({ configDir: "/", endpoints: [], allowProblem: () => undefined, cronValid: () => true });

/** A value that no check takes. */
const NOTHING = Symbol("no value of a config");

/** The keys of the whole config, in the schema's order. */
export const topKeys = (): readonly string[] =>
  Object.keys((schema as unknown as { def: { out: { def: { shape: object } } } }).def.out.def.shape);

/**
 * Returns what may stand at a path, from the words of the check: `1–5` for `must be a whole number from 1 to 5`.
 * @throws Error when the schema does not know the path
 */
export function ruleOf(path: readonly string[]): string {
  const own = messageAt(path, NOTHING);
  if (own === undefined || own.startsWith("is unknown")) throw new Error(`the schema does not know ${path.join(".")}`);
  const plain = short(own);
  if (plain !== "a list: [ … ]") return plain;
  const item = messageAt(path, [NOTHING], 0);
  return item === undefined ? "a list" : `a list of: ${short(item)}`;
}

/** Returns the words of a check as a cell of a table. */
const short = (message: string): string =>
  message
    .replace(/^must be /, "")
    .replace(/^an object: \{ … \}$/, "an object")
    .replace(/^text, not empty$/, "text")
    .replace(/^a whole number (of milliseconds )?from (\d+) to (\d+)$/, "$2–$3")
    .replace(/^a number from (\d+) to (\d+)$/, "$1–$2, also parts");

const at = (path: readonly string[], value: unknown): unknown =>
  path.reduceRight<unknown>((inner, name) => ({ [name]: inner }), value);

function messageAt(path: readonly string[], value: unknown, ...further: readonly PropertyKey[]): string | undefined {
  const wanted = [...path, ...further].join(".");
  return schema.safeParse(at(path, value)).error?.issues.find((issue) => issue.path.join(".") === wanted)?.message;
}

/** The defaults, as the config would spell them. */
const DEFAULTS: Readonly<Record<string, unknown>> = {
  dataDir: defaults.DATA_DIR,
  server: defaults.SERVER,
  retry: defaults.RETRY,
  delivery: defaults.DELIVERY,
  guard: defaults.GUARD,
  abuse: defaults.ABUSE,
  stepUp: defaults.STEP_UP,
  health: defaults.HEALTH,
  subscriptions: defaults.SUBSCRIPTIONS,
  intake: defaults.INTAKE,
  log: defaults.LOG,
  gateway: { keyHeader: defaults.KEY_HEADER },
};

/** Returns the value that holds when the key is left out; `undefined` where the defaults say nothing of it. */
export const defaultOf = (path: readonly string[]): unknown =>
  path.reduce<unknown>((value, name) => (value as Readonly<Record<string, unknown>> | undefined)?.[name], DEFAULTS);
