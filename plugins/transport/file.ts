/** The file transport appends each delivery, as one line of JSON, to a file of a folder that the config names. */
import { unknownOptions } from "../../core/model/field-errors.ts";
import type { FieldError } from "../../core/model/problem.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { nameProblems } from "./buses/destination.ts";
import type { FileOptions } from "./file/options.ts";

export type { FileOptions } from "./file/options.ts";

const OWN: readonly (keyof FileOptions)[] = ["name", "dir", "maxBytes", "keep"];

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
  async setup(context) {
    const { openFile } = await import("./file/transport.ts");
    return openFile(options, context);
  },
});

function problemsOf({ name, dir, maxBytes = 1_024, keep = 1 }: Partial<FileOptions>): readonly FieldError[] {
  const problems = nameProblems(name);
  if (typeof dir !== "string" || dir.trim() === "" || dir.includes("\0"))
    problems.push({ path: "dir", message: "must be the path of a folder" });
  if (!Number.isSafeInteger(maxBytes) || maxBytes < 1_024)
    problems.push({ path: "maxBytes", message: "must be a whole number of bytes, 1024 or more" });
  if (!Number.isSafeInteger(keep) || keep < 1)
    problems.push({ path: "keep", message: "must be a whole number, 1 or more" });
  return problems;
}
