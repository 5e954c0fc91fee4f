/** `relay backup <file>` writes everything that is stored to one file, also while a relay serves; `relay restore <file>` puts it back. */
import { createReadStream } from "node:fs";
import { lstat, open, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { compose, Readable } from "node:stream";
import { createGunzip, createGzip } from "node:zlib";
import { ConfigError } from "../../config/problems.ts";
import { backupLines, batches, canTap, inspect, NoBackup } from "../../core/maintenance/backup.ts";
import { StartError, StorageError } from "../../core/model/errors.ts";
import { FILLING } from "../../core/model/schema.ts";
import { reasonOf } from "../../core/lib/reason.ts";
import { syncFolderAsync } from "../../core/ports/folder.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { namesRelay, openApi } from "../support/client.ts";
import { API_OPTIONS, type Command, CONFIG_OPTIONS, type Given, JSON_OPTION, loadFor } from "../support/command.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { EX_DATAERR, EX_OK, EX_REFUSED, EX_UNAVAILABLE, ExitError, usage } from "../support/exit.ts";
import { json } from "../support/output.ts";
import { progressBar } from "../support/progress.ts";
import { atEnd, unfinished } from "../support/signals.ts";

const backup: Command = {
  usage: "backup <file>",
  about: "write everything that is stored to a file, also while the relay serves",
  options: { ...JSON_OPTION, ...API_OPTIONS },
  examples: ["relay backup relay-backup.ndjson", "relay backup relay-backup.ndjson.gz"],
  async run(given, io) {
    const [file = ""] = given.args;
    const part = `${file}.part`;
    // Readable by its owner only: secrets in it are sealed, events are not.
    const handle = await open(part, "wx", 0o600).catch((error: unknown) => {
      throw usage(`${part} cannot be made: ${reasonOf(error)}`);
    });
    using _ = unfinished(part);
    let hint = "";
    try {
      // Also one that this user may not read: it must not be replaced.
      if (await lstat(file).then(Boolean, () => false)) throw usage(`${file} is there already`);
      const bytes = progressBar(io, "bytes written");
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
  /** True when a relay at work sends them. */
  readonly served: boolean;
}

/** Reads the storage itself when no relay uses it, else asks the relay. */
async function source(given: Given, io: CliEnvironment): Promise<Parts> {
  const storage = namesRelay(given, io) ? undefined : await unused(given, io);
  if (storage !== undefined && canTap(storage)) {
    const parts = backupLines(storage, { storage: storage.name ?? "", at: io.clock.now() });
    return { parts, served: false, ...atEnd(() => storage.dispose()) };
  }
  await storage?.dispose();
  const api = await openApi(given, io, "stepped-up");
  const over = new AbortController();
  const parts = await api.follow("/relay/backup", "application/x-ndjson", over.signal);
  return { parts, served: true, ...atEnd(async () => over.abort()) };
}

/** Resolves to undefined while a relay uses it. */
async function unused(given: Given, io: CliEnvironment): Promise<Storage | undefined> {
  const [{ plan }, { openSource, unlessInUse }] = await Promise.all([
    loadFor(given, io),
    import("../support/offline.ts"),
  ]);
  return plan.storage.name === "memory" ? undefined : unlessInUse(openSource(plan, io));
}

const isPacked = (file: string): boolean => file.endsWith(".gz");

/** More than any line of a backup has, characters. */
const LONGEST_LINE = 64 * 1_048_576;

/** Reads a file's lines one after another. @throws NoBackup for a line that no backup has */
async function* linesOf(file: string, packed = isPacked(file)): AsyncGenerator<string> {
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

const restore: Command = {
  usage: "restore <file>",
  about: "put a backup back into an empty storage, while no relay uses it",
  options: { ...JSON_OPTION, ...CONFIG_OPTIONS },
  examples: ["relay restore relay-backup.ndjson --data-dir ./data"],
  async run(given, io) {
    const [file = ""] = given.args;
    // The whole file is checked before anything is written.
    const { lines, sha256 } = await inspect(linesOf(file)).catch((error: unknown) => {
      if (error instanceof NoBackup) throw new ExitError(EX_DATAERR, `${file}: ${error.message}`);
      const { code } = error as NodeJS.ErrnoException;
      if (code?.startsWith("Z_")) throw new ExitError(EX_DATAERR, `${file}: it cannot be unpacked (${code})`);
      if (code !== undefined) throw usage(`${file} cannot be read (${code})`);
      throw error;
    });
    const [{ plan }, { openStorage }, { storedSchema }] = await Promise.all([
      loadFor(given, io),
      import("../support/offline.ts"),
      import("../../core/runtime/offline.ts"),
    ]);
    const storage = await openStorage(plan, io);
    await using _ = atEnd(() => storage.dispose());
    const filling = `restore ${sha256}`;
    await beginFilling(storage, filling);
    const progress = progressBar(io, "restored", lines);
    for await (const changes of batches(linesOf(file))) {
      await storage.commit(changes.filter(({ key }) => key !== FILLING));
      progress.add(changes.length);
    }
    progress.end();
    await storedSchema(storage);
    await storage.commit([{ op: "delete", key: FILLING, if: filling }]);
    if (given.flag("json")) io.print(json({ file, lines, sha256, storage: plan.storage.name }));
    else io.print(`restored ${lines} records and changes into ${plan.storage.name}`);
    io.say("relay: start it with the master key that it had: keys/master, or RELAY_MASTER_KEY");
  },
};

/**
 * Marks an empty storage as being filled, so that no relay starts on it. Filling goes on where the same mark stands.
 * @throws ExitError 1 when there is something else in it
 */
export async function beginFilling(storage: Storage, mark: string): Promise<void> {
  const was = await storage.getItem(FILLING);
  if (was === mark) return;
  const [first] = await storage.range("", { limit: 1 });
  if (first !== undefined) {
    const why = was === undefined ? "there is something in it" : "another restore or migration was begun there";
    throw new ExitError(EX_REFUSED, `the storage must be empty: ${why}`);
  }
  await storage.commit([{ op: "put", key: FILLING, value: mark, if: null }]);
}

export const commands: readonly Command[] = [backup, restore];
