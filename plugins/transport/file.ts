/** The file transport appends each delivery, as one line of JSON, to a file of a folder that the config names. */
import { mkdir } from "node:fs/promises";
import { resolve } from "node:path";
import { unknownOptions } from "../../core/model/field-errors.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { busTransport } from "./buses/bus-transport.ts";
import { destinations, nameProblems, type OptionProblem } from "./buses/destination.ts";
import { BusFault } from "./buses/fault.ts";
import { confirmed, refused, unavailable } from "./buses/replies.ts";
import { Sends } from "./buses/sends.ts";
import { LineFiles } from "./file/line-files.ts";
import { lineOf } from "./file/line.ts";
import { mendTails } from "./file/tails.ts";

export interface FileOptions {
  /** Name of the folder in URLs: `file://<name>/deposits`. */
  readonly name: string;
  /** The folder; a relative path starts at the config. It is made if it is not there, and belongs to one relay alone. */
  readonly dir: string;
  /** A file that would grow beyond this, in bytes, is closed, and the next line begins a new one. @default 268_435_456 */
  readonly maxBytes?: number;
  /** How many closed files of each path are kept; the oldest are removed. All of them are kept without it. */
  readonly keep?: number;
}

const OWN: readonly (keyof FileOptions)[] = ["name", "dir", "maxBytes", "keep"];

/** Lower-case, because some disks know no other; no point at the beginning of a part, so no `..`. */
const PATH = /^([a-z0-9][a-z0-9._-]{0,99}(?:\/[a-z0-9][a-z0-9._-]{0,99}){0,7})$/;
const RULE = "1 to 8 parts of lower-case letters, digits, . _ and -, such as deposits/paid, without .ndjson";

/**
 * Delivers to `file:` URLs: `file://<name>/deposits/paid` is the file `deposits/paid.ndjson` of the folder. A line has
 * the time, the message id, the signed headers and the exact body. It is synced to the disk before it counts as
 * delivered; lines that come together share one sync. A file is closed each day (UTC) and at `maxBytes`, and gets its
 * time behind its name. A line that a crash cut off is removed at the next start: its delivery was not counted and
 * comes again.
 */
export const toFile = (options: FileOptions): Plugin<"transport", Transport> => ({
  kind: "transport",
  name: `file:${options?.name}`,
  problems: [...problemsOf(options ?? {}), ...unknownOptions(options ?? {}, OWN)],
  async setup({ clock, configDir, log }) {
    const { name, maxBytes = 268_435_456, keep } = options;
    const dir = resolve(configDir, options.dir);
    await mkdir(dir, { recursive: true, mode: 0o750 });
    await mendTails(dir);
    const sends = new Sends(clock);
    const files = new LineFiles({ dir, maxBytes, keep, clock });
    const read = destinations(`file://${name}/`, PATH, RULE);
    const destination = (url: string): ReturnType<typeof read> =>
      url.includes(".ndjson") ? { problem: `must be file://${name}/ and ${RULE}` } : read(url);
    const fault = new BusFault(clock);
    return busTransport({
      scheme: "file",
      name,
      destination,
      sends,
      readiness: () => fault.words(),
      async publish([path = ""], request, sending) {
        const at = await files.append(path, lineOf(request, clock.now()), () => sending.ended);
        fault.clear();
        return confirmed(`${path}.ndjson, line at byte ${at}`);
      },
      failed(error, [path = ""]) {
        const code = (error as NodeJS.ErrnoException).code ?? "failed";
        // A folder of that name, or a file where a folder should be: another path would do.
        if (code === "EISDIR" || code === "ENOTDIR" || code === "EEXIST")
          return refused(`${path}.ndjson cannot be a file here (${code})`);
        if (fault.note(`cannot write (${code})`))
          log.error("a file cannot be written", { transport: name, path, error: String(error) });
        return unavailable(name);
      },
      close: () => files.close(),
    });
  },
});

function problemsOf({ name, dir, maxBytes = 1_024, keep = 1 }: Partial<FileOptions>): readonly OptionProblem[] {
  const problems = nameProblems(name);
  if (typeof dir !== "string" || dir.trim() === "" || dir.includes("\0"))
    problems.push({ path: "dir", message: "must be the path of a folder" });
  if (!Number.isSafeInteger(maxBytes) || maxBytes < 1_024)
    problems.push({ path: "maxBytes", message: "must be a whole number of bytes, 1024 or more" });
  if (!Number.isSafeInteger(keep) || keep < 1)
    problems.push({ path: "keep", message: "must be a whole number, 1 or more" });
  return problems;
}
