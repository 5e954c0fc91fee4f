/** `relay subscriptions import`: creates the subscriptions of a file, one after the other, through the API. */
import { statSync } from "node:fs";
import { resolve } from "node:path";
import { readEntries, type FileEntry } from "../import/entries.ts";
import { convoy, ours, svix, type Translated } from "../import/formats.ts";
import { keyPath, shaped } from "../support/ask.ts";
import { type Api, isRefusal, openApi } from "../support/client.ts";
import { API_OPTIONS, KEY_OPTION, type Command } from "../support/command.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { EX_OK, EX_REFUSED, EX_UNAVAILABLE, ExitError } from "../support/exit.ts";
import { readArgument } from "../support/inputs.ts";
import { printable, printableLines } from "../support/output.ts";

const LISTED = { id: "text", url: "text", events: ["text"], "secret?": "text" } as const;

const FORMATS = { relay: ours, svix, convoy };
const FORMAT_NAMES = Object.keys(FORMATS) as (keyof typeof FORMATS)[];
const AGAIN = "run it again: what is there is skipped";
const MOST_MIB = 64;
/** Fields of a subscription that hold what others must not read. */
const SECRETS = ["secret", "headers", "oauth2", "clientCertificate"];

interface Result {
  readonly place: string;
  readonly result: "created" | "would create" | "exists" | "failed";
  readonly url?: string | undefined;
  readonly id?: string;
  /** The one that the relay made, where the file has none. */
  readonly secret?: string | undefined;
  readonly errors?: readonly string[];
  /** Fields that are not carried over. */
  readonly notes?: readonly string[] | undefined;
}

const importFile: Command = {
  usage: "subscriptions import <file>",
  about: "create the subscriptions of a file (- for stdin): a JSON list, or an object a line; what is there is skipped",
  options: {
    "--format <format>": `what the file holds: ${FORMAT_NAMES.join(", ")} (relay)`,
    "--dry-run": "check the file and show what would be done; writes nothing",
    ...KEY_OPTION,
    "--json": "print a line of JSON for each entry",
    ...API_OPTIONS,
  },
  examples: [
    "relay subscriptions import subscriptions.json --key key_1 --dry-run",
    "relay subscriptions import endpoints.json --key key_1 --format svix",
  ],
  async run(given, io) {
    const format = FORMATS[given.choice("format", FORMAT_NAMES) ?? "relay"];
    const path = keyPath(given, "webhooks");
    const file = given.args[0] ?? "";
    const translated = ({ fields }: FileEntry): Translated =>
      fields === undefined ? { errors: ["is not a JSON object"] } : format(fields);
    const read = readEntries(await readArgument(file, MOST_MIB, io));
    const entries = read.entries.map((entry) => ({ entry, made: translated(entry) }));
    warnOfReaders(file, entries, io);
    const api = await openApi(given, io);
    const listed = shaped(await api.ask("GET", path), [LISTED]);
    const present = new Map(listed.map((one) => [identity(one), one.id]));
    const print = given.flag("json") ? (one: Result) => io.print(printable(JSON.stringify(one))) : printerOf(io);
    const counts = new Map<Result["result"], number>();
    // The secrets that the relay makes are in the output alone: nothing more is created where nobody reads it.
    if (!given.flag("dry-run"))
      io.unread = { message: `nobody reads the output: stopped there; ${AGAIN}`, exitCode: EX_UNAVAILABLE };
    for (const { entry, made } of entries) {
      const one = await settle(entry.place, made, present, given.flag("dry-run") ? undefined : { api, path });
      counts.set(one.result, (counts.get(one.result) ?? 0) + 1);
      print(one);
    }
    const sums = [...counts].map(([result, count]) => `${count} ${result}`);
    io.say(`relay: ${sums.length === 0 ? "the file has no entries" : sums.join(", ")}`);
    if (read.more) io.say("relay: warning: the file is one page of a list and says that more follow: import those too");
    return counts.has("failed") ? EX_REFUSED : EX_OK;
  },
};

interface Named {
  readonly url: string;
  readonly events: readonly string[];
}

/** Identifies a subscription by its URL, as the relay stores it, and its events in any order. */
const identity = ({ url, events }: Named): string =>
  JSON.stringify([URL.parse(url)?.href ?? url, [...new Set(events)].sort()]);

/**
 * Does what one entry asks for. A crash between the request and its answer costs nothing: the next run finds what was made.
 * @param present the ids of what is there, by identity
 * @param relay where to create it; `undefined` in a dry run
 * @throws ExitError where no other entry would fare better: no answer, or no right to this key
 */
async function settle(
  place: string,
  made: Translated,
  present: Map<string, string>,
  relay: { readonly api: Api; readonly path: string } | undefined,
): Promise<Result> {
  if ("errors" in made) return { place, result: "failed", url: made.url, errors: made.errors };
  const { body } = made;
  const notes = made.notes?.length === 0 ? undefined : made.notes;
  const url = typeof body["url"] === "string" ? body["url"] : undefined;
  // Loaded here, because the schema library is large, and no other command of this group needs it.
  const errors = (await import("../import/check.ts")).bodyErrors(body);
  if (errors.length > 0) return { place, result: "failed", url, errors };
  const named = body as unknown as Named;
  const there = present.get(identity(named));
  if (there !== undefined) return { place, result: "exists", url, id: there };
  if (relay === undefined) {
    present.set(identity(named), place);
    return { place, result: "would create", url, notes };
  }
  try {
    const { id, secret, ...rest } = shaped(await relay.api.ask("POST", relay.path, body), LISTED);
    present.set(identity(named), id);
    present.set(identity(rest), id);
    return { place, result: "created", url, id, secret, notes };
  } catch (error) {
    if (error instanceof ExitError && isRefusal(error))
      return { place, result: "failed", url, errors: [error.message] };
    if (!(error instanceof ExitError)) throw error;
    const hint = `stopped at ${place}; ${AGAIN}`;
    throw new ExitError(error.exitCode, `${error.message}\n${hint}`, { cause: error });
  }
}

/** Warns where other users of the machine can read secrets in the file. Windows has no such bits. */
function warnOfReaders(file: string, entries: readonly { readonly made: Translated }[], io: CliEnvironment): void {
  if (file === "-" || process.platform === "win32") return;
  const secret = entries.some(({ made }) => "body" in made && SECRETS.some((name) => made.body[name] !== undefined));
  if (secret && (statSync(resolve(io.cwd, file)).mode & 0o044) !== 0)
    io.say(
      `relay: warning: others can read ${printable(file)}, which holds secrets: chmod 600, and delete it in the end`,
    );
}

const printerOf =
  ({ print, say }: CliEnvironment) =>
  ({ place, result, url, id, secret, errors, notes }: Result): void => {
    const line = [result, place, id, url && printable(url)].filter((part) => part !== undefined).join("  ");
    print(line);
    if (secret !== undefined) print(`  secret  ${secret}`);
    for (const one of errors ?? []) say(`relay: ${place}: ${printableLines(one)}`);
    if (notes !== undefined) say(`relay: ${place}: not carried over: ${printable(notes.join(", "))}`);
  };

export const commands: readonly Command[] = [importFile];
