/** Makes the plain commands: those that ask the API once, check the shape of its answer and print it. */
import { type Api, type ApiAnswer, openApi, type Right } from "./client.ts";
import type { Command, Given, Options } from "./command.ts";
import type { CliEnvironment } from "./environment.ts";
import { EX_UNAVAILABLE, ExitError, usage } from "./exit.ts";
import { json, printable, printTable } from "./output.ts";
import { watchedSignals } from "./signals.ts";

/** A path below the API key that `--key` names; each part is one segment of it. */
export const keyPath = (given: Given, ...parts: readonly (string | undefined)[]): string =>
  pathOf("api-keys", given.key(), ...parts);

/** A path of these segments. @throws ExitError 64 for `.` and `..`, which would ask for another path: the one above */
export const pathOf = (...parts: readonly (string | undefined)[]): string => `/${parts.map(segment).join("/")}`;

function segment(part = ""): string {
  // A URL has no way to write these two as a segment.
  if (part === "." || part === "..") throw usage(`"${part}" is no id or name`);
  return encodeURIComponent(part);
}

/** The path with those parameters that have a value. */
export function withQuery(path: string, query: Readonly<Record<string, string | number | undefined>>): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given as [string, string][])}`;
}

export const PAGE_OPTIONS: Options = {
  "--limit <n>": "at most so many, 1 to 200 (50)",
  "--cursor <cursor>": "go on where the last list ended",
};

/** The page that these options name. */
export type Page = { readonly limit?: number | undefined; readonly cursor?: string | undefined };

export const pageOf = (given: Given): Page => ({
  limit: given.whole("limit", 1, 200),
  cursor: given.text("cursor"),
});

interface Kinds {
  readonly text: string;
  readonly number: number;
  readonly flag: boolean;
  readonly map: Readonly<Record<string, unknown>>;
  readonly any: unknown;
}

/** Describes the answer: a kind, fields of which those that end in `?` may be missing, or `[…]` for a list. */
export type Shape = keyof Kinds | readonly [Shape] | { readonly [field: string]: Shape };
type Optional<S> = { readonly [K in keyof S as K extends `${infer Name}?` ? Name : never]?: Shaped<S[K]> | undefined };
type Required<S> = { readonly [K in keyof S as K extends `${string}?` ? never : K]: Shaped<S[K]> };
/** The type of what has this shape. */
export type Shaped<S> = S extends keyof Kinds
  ? Kinds[S]
  : S extends readonly [infer One]
    ? readonly Shaped<One>[]
    : Required<S> & Optional<S>;

/** Returns a shape that has these fields, all of one kind. */
export const each = <const S extends Shape, F extends string>(kind: S, ...fields: readonly F[]) =>
  Object.fromEntries(fields.map((field) => [field, kind])) as { readonly [K in F]: S };

const isMap = (value: unknown): value is Kinds["map"] => typeof value === "object" && value !== null;
const KINDS: Readonly<Record<keyof Kinds, (value: unknown) => boolean>> = {
  text: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  flag: (value) => typeof value === "boolean",
  map: isMap,
  any: (value) => value !== undefined,
};

function fits(value: unknown, shape: Shape): boolean {
  if (typeof shape === "string") return KINDS[shape](value);
  if (Array.isArray(shape)) return Array.isArray(value) && value.every((one) => fits(one, shape[0] as Shape));
  return (
    isMap(value) &&
    Object.entries(shape).every(([field, kind]) => {
      const found = value[field.replace("?", "")];
      return fits(found, kind) || (found === undefined && field.endsWith("?"));
    })
  );
}

/** Returns the data as it is. @throws ExitError 69 when another server, or another version, may have answered */
export function shaped<const S extends Shape>({ data }: Pick<ApiAnswer, "data">, shape: S): Shaped<S> {
  if (fits(data, shape)) return data as Shaped<S>;
  throw new ExitError(EX_UNAVAILABLE, "the answer is not that of a relay of this version");
}

interface Question {
  readonly path: string;
  /** @default "GET" */
  readonly method?: string;
  readonly body?: unknown;
  /** @default "manage" */
  readonly right?: Right;
}
interface Plain<T> extends Omit<Command, "run"> {
  /** Reads the options before anything is sent. @throws ExitError 64 */
  ask(given: Given, io: CliEnvironment): Question | Promise<Question>;
  /** Prints it for people. */
  show(data: T, io: CliEnvironment, given: Given, answer: ApiAnswer): void;
  /** It asks for a list, of which a page may be empty before the end. */
  readonly goesOn?: true;
  /** Called at last, with `--json` too. @returns the exit code */
  after?(data: T, io: CliEnvironment, answer: ApiAnswer): number | void;
}

const plain = <T>(command: Plain<T>, read: (answer: ApiAnswer, given: Given) => T): Command => ({
  ...command,
  async run(given, io) {
    const question = await command.ask(given, io);
    const { method = "GET", path, body, right } = question;
    const api = await openApi(given, io, right);
    const [answer, stopped] = command.goesOn
      ? await askOn(api, question, io)
      : [await api.ask(method, path, body), undefined];
    const data = read(answer, given);
    if (given.flag("json")) io.print(json(data));
    else command.show(data, io, given, answer);
    return stopped ?? command.after?.(data, io, answer);
  },
});

/** After so many pages one line on stderr says how far it is. */
export const PAGES_A_LINE = 25;

/**
 * Asks for the pages of a list until one has something, the list ends or a signal comes: each looks at a bounded part, and
 * may be empty before the end. @returns with it the exit code, after a signal
 */
async function askOn(api: Api, { path }: Question, io: CliEnvironment): Promise<readonly [ApiAnswer, number?]> {
  using signals = watchedSignals();
  let answer = await api.ask("GET", path);
  for (let page = 1; Array.isArray(answer.data) && answer.data.length === 0; page++) {
    const { nextCursor, searchedTo = "" } = answer;
    if (nextCursor === undefined) break;
    if (page % PAGES_A_LINE === 0) io.say(`relay: nothing yet, back to ${printable(searchedTo)}`);
    const [where = "", query] = path.split("?");
    const next = api.ask(
      "GET",
      withQuery(where, { ...Object.fromEntries(new URLSearchParams(query)), cursor: nextCursor }),
    );
    const then = await Promise.race([next, signals.stopped]);
    if (typeof then === "number") {
      next.catch(() => undefined);
      sayMore(answer, io, "it stopped there");
      return [answer, then];
    }
    answer = then;
  }
  return [answer];
}

export const asking = <const S extends Shape>(command: Plain<Shaped<S>> & { readonly shape: S }): Command =>
  plain(command, (answer) => shaped(answer, command.shape));

type Cell<T> = keyof T | ((one: T) => string | number | undefined);
interface Listing<S extends Shape, T> extends Pick<Plain<T>, "usage" | "about" | "options" | "examples" | "ask"> {
  /** That of one of the list. */
  readonly shape: S;
  /** Heading → the field, or a text made of the row. */
  readonly columns: Readonly<Record<string, Cell<T>>>;
  /** Said where the list is empty. */
  none(given: Given, answer: ApiAnswer): string;
  /** Said where the list goes on. @default "there are more" */
  more?(answer: ApiAnswer): string;
}

export function listing<const S extends Shape>({ columns, none, more, ...rest }: Listing<S, Shaped<S>>): Command {
  const cellsOf = (one: Shaped<S>) =>
    Object.values(columns).map((cell) => (typeof cell === "function" ? cell(one) : (one[cell] as string | undefined)));
  const command: Plain<readonly Shaped<S>[]> = {
    ...rest,
    goesOn: true,
    show(all, io, given, answer) {
      if (all.length === 0) io.say(`relay: ${none(given, answer)}`);
      else io.print(printTable(Object.keys(columns), all.map(cellsOf)));
    },
    after: (_, io, answer) => sayMore(answer, io, more?.(answer)),
  };
  return plain(command, (answer) => shaped(answer, [rest.shape]) as readonly Shaped<S>[]);
}

/** Says that a list goes on, and with which cursor. */
export function sayMore({ nextCursor }: ApiAnswer, { say }: CliEnvironment, more = "there are more"): void {
  if (nextCursor !== undefined) say(`relay: ${more}: --cursor ${printable(nextCursor)}`);
}

/** @param command.done said of the one that was deleted */
export const deleting = ({ done, ...command }: Omit<Plain<object>, "show"> & { readonly done: string }): Command =>
  plain<{ readonly id: string }>(
    { ...command, show: ({ id }, io) => io.say(`relay: ${printable(id)} ${done}`) },
    (_, { args: [id = ""] }) => ({ id, deleted: true }),
  );
