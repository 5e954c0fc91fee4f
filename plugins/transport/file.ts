/** The file transport appends each delivery, as one line of JSON, to a file of a folder that the config names. */
import { must, optional, whole } from "../../core/ports/options.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { busPlugin } from "./buses/plugin.ts";
import type { FileOptions } from "./file/transport.ts";

const FOLDER = must(
  "must be the path of a folder",
  (dir) => typeof dir === "string" && dir.trim() !== "" && !dir.includes("\0"),
);

/**
 * Delivers to `file:` URLs: `file://<name>/deposits/paid` is the file `deposits/paid.ndjson` of the folder. A line has
 * the time, the message id, the signed headers and the exact body. It is synced to the disk before it counts as
 * delivered; lines that come together share one sync. A file is closed each day (UTC) and at `maxBytes`, and gets its
 * time behind its name. A line that a crash cut off is removed at the next start: its delivery was not counted and
 * comes again.
 */
export const toFile = (options: FileOptions): Plugin<"transport", Transport> =>
  busPlugin({
    scheme: "file",
    options,
    rules: {
      dir: FOLDER,
      maxBytes: optional(whole(1_024)),
      keep: optional(whole(1)),
    },
    async open(options, context) {
      const { openFile } = await import("./file/transport.ts");
      return openFile(options, context);
    },
  });
