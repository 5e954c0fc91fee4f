/** Makes the plain commands: those that ask the API once and print what it answers, as JSON, as columns or as a sentence. */
import { type ApiAnswer, openApi } from "./client.ts";
import type { Command, Given } from "./command.ts";
import type { CliEnvironment } from "./environment.ts";
import { json, printable, printTable } from "./output.ts";
import { record, rows, type Shape } from "./response-shape.ts";

interface Question {
  readonly path: string;
  /** @default "GET" */
  readonly method?: string;
  readonly body?: unknown;
  readonly right?: "stepped-up";
}
interface Plain<T> extends Omit<Command, "run"> {
  /** Reads the options before anything is sent. @throws ExitError 64 */
  ask(given: Given, io: CliEnvironment): Question | Promise<Question>;
  /** Prints it for people. */
  show(data: T, io: CliEnvironment, given: Given, answer: ApiAnswer): void;
  /** Called at last, with `--json` too. @returns the exit code */
  after?(data: T, io: CliEnvironment, answer: ApiAnswer): number | void;
}

const plain = <T>(command: Plain<T>, read: (answer: ApiAnswer, given: Given) => T): Command => ({
  ...command,
  async run(given, io) {
    const { method = "GET", path, body, right } = await command.ask(given, io);
    const answer = await (await openApi(given, io, right)).ask(method, path, body);
    const data = read(answer, given);
    if (given.flag("json")) io.print(json(data));
    else command.show(data, io, given, answer);
    return command.after?.(data, io, answer);
  },
});

export const asking = <T extends object>(command: Plain<T> & { readonly shape: Shape<T> }): Command =>
  plain(command, (answer) => record<T>(answer, command.shape));

type Cell<T> = keyof T | ((one: T) => string | number | undefined);
interface Listing<T> extends Pick<Plain<T>, "usage" | "about" | "options" | "examples" | "ask"> {
  readonly shape: Shape<T>;
  /** Heading → the field, or what is made of the row. */
  readonly columns: Readonly<Record<string, Cell<T>>>;
  /** What is said where there is nothing. */
  none(given: Given, answer: ApiAnswer): string;
  /** What is said where the list goes on. @default "there are more" */
  more?(answer: ApiAnswer): string;
}

export function listing<T extends object>({ shape, columns, none, more, ...command }: Listing<T>): Command {
  const cellsOf = (one: T) =>
    Object.values(columns).map((cell) => (typeof cell === "function" ? cell(one) : (one[cell] as string | undefined)));
  return plain<readonly T[]>(
    {
      ...command,
      show(all, io, given, answer) {
        if (all.length === 0) io.say(`relay: ${none(given, answer)}`);
        else io.print(printTable(Object.keys(columns), all.map(cellsOf)));
      },
      after: (_, io, answer) => sayMore(answer, io, more?.(answer)),
    },
    (answer) => rows<T>(answer, shape),
  );
}

/** Says that a list goes on, and with which cursor. */
export function sayMore({ nextCursor }: ApiAnswer, { say }: CliEnvironment, what = "there are more"): void {
  if (nextCursor !== undefined) say(`relay: ${what}: --cursor ${printable(nextCursor)}`);
}

/** @param command.done what is said of what was deleted */
export const deleting = ({ done, ...command }: Omit<Plain<object>, "show"> & { readonly done: string }): Command =>
  plain<{ readonly id: string }>(
    { ...command, show: ({ id }, io) => io.say(`relay: ${printable(id)} ${done}`) },
    (_, { args: [id = ""] }) => ({ id, deleted: true }),
  );
