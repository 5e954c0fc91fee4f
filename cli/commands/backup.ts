/** `relay backup <file>`: writes everything that is stored to one file, also while a relay serves. */
import { createReadStream } from "node:fs";
import { lstat, open, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { compose, Readable } from "node:stream";
import { createGunzip, createGzip } from "node:zlib";
import { readEnvironment } from "../../config/environment.ts";
import { ConfigError } from "../../config/problems.ts";
import { canTap, backupLines, inspect, NoBackup } from "../../core/maintenance/backup.ts";
import { StartError, StorageError } from "../../core/model/errors.ts";
import { systemReason } from "../../core/lib/system-error.ts";
import { syncFolderAsync } from "../../core/ports/folder.ts";
import type { Storage } from "../../core/ports/storage.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { openApi } from "../support/client.ts";
import { API_OPTIONS, type Command, type Given, JSON_OPTION } from "../support/command.ts";
import { EX_DATAERR, EX_OK, EX_TEMPFAIL, EX_UNAVAILABLE, ExitError, usage } from "../support/exit.ts";
import { json } from "../support/output.ts";
import { progressBar } from "../support/progress.ts";
import { loadFor } from "../support/load-config.ts";
import { unfinished } from "../support/unfinished.ts";

const backup: Command = {
  usage: "backup <file>",
  about: "write everything that is stored to a file, also while the relay serves",
  options: [JSON_OPTION, ...API_OPTIONS],
  examples: ["relay backup relay-backup.ndjson", "relay backup relay-backup.ndjson.gz"],
  async run(given, io) {
    const [file = ""] = given.args;
    const part = `${file}.part`;
    // Readable by its owner only: secrets in it are sealed, events are not.
    const handle = await open(part, "wx", 0o600).catch((error: unknown) => {
      throw usage(`${part} cannot be made: ${systemReason(error)}`);
    });
    using _ = unfinished(part);
    let hint = "";
    try {
      if (await exists(file)) throw usage(`${file} is there already`);
      const bytes = progressBar(io.stderr, "bytes written", undefined, io.clock.monotonic);
      await using from = await source(given, io);
      if (from.served) hint = "; the relay's log may say why";
      const parts = isPacked(file) ? compose(Readable.from(from.parts), createGzip()) : from.parts;
      for await (const text of parts as AsyncIterable<string | Uint8Array>) {
        const data = typeof text === "string" ? Buffer.from(text) : text;
        await handle.appendFile(data);
        bytes.add(data.length);
      }
      await handle.sync();
      bytes.end();
      // Read back before it gets its name, so that the name stands for a whole backup.
      const { lines, sha256 } = await inspect(linesOf(part, isPacked(file)));
      await rename(part, file);
      await syncFolderAsync(dirname(file));
      if (given.flag("json")) io.print(json({ file, lines, sha256 }));
      else io.print(`${file}: ${lines} records and changes`);
      io.say("relay: the keys are not in it: keep keys/master, or RELAY_MASTER_KEY, elsewhere");
      return EX_OK;
    } catch (error) {
      if (error instanceof NoBackup) throw new ExitError(EX_DATAERR, `the backup was cut off: ${error.message}`);
      if (error instanceof ExitError || error instanceof StartError || error instanceof ConfigError) throw error;
      const why = error instanceof Error ? error.message : String(error);
      const damaged = error instanceof StorageError && error.fault === "broken";
      throw new ExitError(damaged ? EX_DATAERR : EX_UNAVAILABLE, `the backup was broken off: ${why}${hint}`, {
        cause: error,
      });
    } finally {
      await handle.close();
    }
  },
};

interface Parts extends AsyncDisposable {
  readonly parts: AsyncIterable<string | Uint8Array>;
  /** Whether a relay at work sends them. */
  readonly served: boolean;
}

/** The storage itself when no relay uses it, else the relay. */
async function source(given: Given, io: CliEnvironment): Promise<Parts> {
  const { settings } = readEnvironment(io.env);
  const named = [given.text("url"), given.text("token"), settings.url, settings.token];
  const storage = named.every((one) => one === undefined) ? await unused(given, io) : undefined;
  if (storage !== undefined && canTap(storage)) {
    return {
      parts: backupLines(storage, { storage: storage.name ?? "", at: io.clock.now() }),
      served: false,
      [Symbol.asyncDispose]: () => storage.dispose(),
    };
  }
  await storage?.dispose();
  const api = await openApi(given, io, "stepped-up");
  const over = new AbortController();
  return {
    parts: await api.follow("/relay/backup", "application/x-ndjson", over.signal),
    served: true,
    [Symbol.asyncDispose]: async () => over.abort(),
  };
}

/** Undefined when a relay uses it. */
async function unused(given: Given, io: CliEnvironment): Promise<Storage | undefined> {
  const [{ plan }, { openSource }] = await Promise.all([loadFor(given, io), import("../support/source-storage.ts")]);
  if (plan.storage.name === "memory") return undefined;
  return openSource(plan, io).catch((error: unknown) => {
    if (error instanceof StartError && error.exitCode === EX_TEMPFAIL) return undefined;
    throw error;
  });
}

const isPacked = (file: string): boolean => file.endsWith(".gz");

/** More than any line of a backup has, characters. */
const LONGEST_LINE = 64 * 1_048_576;

/** A file's lines, without reading it into memory. @throws NoBackup for a line that no backup has */
export async function* linesOf(file: string, packed = isPacked(file)): AsyncGenerator<string> {
  const input = createReadStream(file);
  const text = packed ? input.pipe(createGunzip()) : input;
  // A pipe does not pass on an error of the file.
  if (packed) input.once("error", (error) => text.destroy(error));
  let rest = "";
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  for await (const chunk of text as AsyncIterable<Uint8Array>) {
    // Only the new text is searched: a file without line ends would be searched from its beginning again and again.
    const [end = "", ...lines] = decoder.decode(chunk, { stream: true }).split("\n");
    rest += end;
    if (rest.length > LONGEST_LINE) throw new NoBackup("one of its lines is too long");
    if (lines.length === 0) continue;
    yield rest;
    rest = lines.pop() as string;
    yield* lines;
  }
  if (rest !== "") yield rest;
}

/** Whether there is a file of that name, also one that this user may not read: it must not be replaced. */
const exists = (file: string): Promise<boolean> =>
  lstat(file).then(
    () => true,
    () => false,
  );

export const commands: readonly Command[] = [backup];
