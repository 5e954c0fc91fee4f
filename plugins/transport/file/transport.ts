/** The transport behind `toFile()`, loaded only where a config names it. */
import { isUtf8 } from "node:buffer";
import { mkdir } from "node:fs/promises";
import { resolve } from "node:path";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import { isoTime } from "../../../core/lib/time.ts";
import type { Transport, TransportRequest } from "../../../core/ports/transport.ts";
import { busTransport } from "../buses/bus-transport.ts";
import { destinations } from "../buses/destination.ts";
import { BusFault } from "../buses/fault.ts";
import { confirmed, refused, unavailable } from "../buses/replies.ts";
import { Sends } from "../buses/sends.ts";
import { LineFiles } from "./line-files.ts";
import { mendTails } from "./tails.ts";

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

/** Lower-case, because some disks know no other; no point at the beginning of a part, so no `..`. */
const PATH = /^([a-z0-9][a-z0-9._-]{0,99}(?:\/[a-z0-9][a-z0-9._-]{0,99}){0,7})$/;
const RULE = "1 to 8 parts of lower-case letters, digits, . _ and -, such as deposits/paid, without .ndjson";

export async function openFile(options: FileOptions, { clock, configDir, log }: PluginContext): Promise<Transport> {
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
}

/** Makes the line of a delivery. The body is text as it was signed; bytes that are no text stand in base64. @param now epoch ms */
function lineOf({ messageId, headers, body }: TransportRequest, now: number): Buffer {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const payload = isUtf8(bytes) ? { body: bytes.toString("utf8") } : { bodyBase64: bytes.toString("base64") };
  return Buffer.from(`${JSON.stringify({ at: isoTime(now), messageId, headers, ...payload })}\n`);
}
