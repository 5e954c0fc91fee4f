/** Defines a command, its options and its parsed command line. */
import type { CliEnvironment } from "./environment.ts";
import { isKeyId } from "../../core/model/names.ts";
import type { Access } from "../../core/model/token.ts";
import { usage } from "./exit.ts";

export interface Option {
  /** `--key <key>` takes a value, `--json` does not. */
  readonly flags: string;
  readonly about: string;
  /** May be given several times. @default false */
  readonly many?: boolean;
}

export interface Command {
  /** Its name, of one or two words, then its arguments: `events show <event>`. */
  readonly usage: string;
  readonly about: string;
  readonly options?: readonly Option[];
  readonly examples?: readonly string[];
  /** Resolves to the exit code; nothing means 0. */
  run(given: Given, io: CliEnvironment): Promise<number | void>;
}

/** The parsed command line. Each getter throws a usage error (64) for a value of the wrong form. */
export interface Given {
  /** Positional arguments; the ones in `<>` are always there. */
  readonly args: readonly string[];
  flag(name: string): boolean;
  text(name: string): string | undefined;
  required(name: string): string;
  /** One of these words. */
  choice<T extends string>(name: string, words: readonly T[]): T | undefined;
  /** `--key`, the id of an API key. */
  key(): string;
  /** Values of an option that may be repeated, as they were given. */
  all(name: string): readonly string[];
  /** Values of an option that may be repeated, each also split at commas. */
  list(name: string): readonly string[] | undefined;
  whole(name: string, min: number, max: number): number | undefined;
}

export function readGiven(args: readonly string[], options: Readonly<Record<string, unknown>>): Given {
  const values = (name: string): readonly string[] => {
    const value = options[camel(name)];
    if (!Array.isArray(value)) return [];
    if (value.some((item) => typeof item !== "string")) throw usage(`--${name} needs a value`);
    return value as string[];
  };
  const text = (name: string): string | undefined => {
    const [value, ...more] = values(name);
    if (more.length > 0) throw usage(`--${name} is given twice`);
    if (value === "") throw usage(`--${name} is empty`);
    return value;
  };
  const required = (name: string): string => {
    const value = text(name);
    if (value === undefined) throw usage(`--${name} is missing`);
    return value;
  };
  return {
    args,
    text,
    required,
    all: values,
    choice(name, words) {
      const value = text(name);
      const chosen = words.find((word) => word === value);
      if (value === undefined || chosen !== undefined) return chosen;
      throw usage(`--${name} must be ${words.join(", ").replace(/, ([^,]*)$/, " or $1")}`);
    },
    flag: (name) =>
      name.startsWith("no-")
        ? // cac reads `--no-wait` as the opposite of `--wait`.
          last(options[camel(name.slice(3))]) === false
        : // It leaves the value of a name with a hyphen in it as text.
          String(last(options[camel(name)])) === "true",
    key: () => {
      const key = required("key");
      if (!isKeyId(key)) throw usage(`--key: ${JSON.stringify(key)} is no id of an API key: ${KEY_FORM}`);
      return key;
    },
    list: (name) => {
      const items = values(name).flatMap((value) => value.split(",").map((item) => item.trim()));
      if (items.includes("")) throw usage(`--${name} has an empty item`);
      return items.length === 0 ? undefined : items;
    },
    whole: (name, min, max) => {
      const value = text(name);
      if (value === undefined) return undefined;
      if (/^\d{1,16}$/.test(value) && Number(value) >= min && Number(value) <= max) return Number(value);
      throw usage(`--${name} must be a whole number from ${min} to ${max}`);
    },
  };
}

/** A flag that is given more than once is a list of all its values. */
const last = (value: unknown): unknown => (Array.isArray(value) ? (value as readonly unknown[]).at(-1) : value);

const KEY_FORM = "it has 1 to 64 letters, digits, _ - and :, and begins with a letter or digit";

const camel = (name: string): string => name.replaceAll(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());

export const CONFIG_OPTIONS: readonly Option[] = [
  { flags: "--config <file>", about: "config file (RELAY_CONFIG; else ./relay.config.ts)" },
  { flags: "--data-dir <folder>", about: "folder of the relay's own files (RELAY_DATA_DIR)" },
];

/** Options of every command that asks the relay's API. */
export const API_OPTIONS: readonly Option[] = [
  { flags: "--no-wait", about: "give up when the relay says to come back later (it waits up to 60 s, ten times)" },
  { flags: "--url <url>", about: "where the relay is (RELAY_URL; else from the config)" },
  { flags: "--token <token>", about: "access token (RELAY_TOKEN; else one signed with the local key)" },
  ...CONFIG_OPTIONS,
];

export const ACCESS_OPTION: Option = {
  flags: "--access <access>",
  about: "manage, or read for one that changes nothing (manage)",
};

/** @throws ExitError 64 */
export const readAccess = (given: Given): Access | undefined => given.choice("access", ["manage", "read"]);

export const JSON_OPTION: Option = { flags: "--json", about: "print JSON" };
export const KEY_OPTION: Option = { flags: "--key <key>", about: "id of the API key" };

/** Options of a command about what belongs to one API key. */
export const KEY_OPTIONS: readonly Option[] = [KEY_OPTION, JSON_OPTION, ...API_OPTIONS];
