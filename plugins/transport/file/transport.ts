/** The transport behind `toFile()`, loaded only where a config names it. */
import { mkdir } from "node:fs/promises";
import { resolve } from "node:path";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Reply, Transport, TransportRequest } from "../../../core/ports/transport.ts";
import { Bus } from "../buses/bus.ts";
import { lineOf } from "../buses/line.ts";
import { confirmed, refused, unavailable } from "../buses/replies.ts";
import type { Sending } from "../buses/sending.ts";
import { LineFiles } from "./line-file.ts";
import { mendTails } from "./tails.ts";

export interface FileOptions {
  /** Its name in URLs: `file://<name>/deposits`. */
  readonly name: string;
  /** The folder, made if missing; relative to the config. It belongs to one relay alone. */
  readonly dir: string;
  /** Bytes at which a file is closed and the next line begins a new one. @default 268_435_456 */
  readonly maxBytes?: number;
  /** How many closed files of each path are kept, the newest; all without it. */
  readonly keep?: number;
}

/** Lower-case, because some disks know no other; no point at the beginning of a part, so no `..`. */
const PATH = /^((?!.*\.ndjson)[a-z0-9][a-z0-9._-]{0,99}(?:\/[a-z0-9][a-z0-9._-]{0,99}){0,7})$/;
const RULE = "1 to 8 parts of lower-case letters, digits, . _ and -, such as deposits/paid, without .ndjson";

/** Makes the folder, and mends what a crash left in it. */
export async function openFile(options: FileOptions, context: PluginContext): Promise<Transport> {
  const dir = resolve(context.configDir, options.dir);
  await mkdir(dir, { recursive: true, mode: 0o750 });
  await mendTails(dir);
  return new FileTransport({ ...options, dir }, context);
}

class FileTransport extends Bus {
  readonly #files: LineFiles;

  constructor({ name, dir, maxBytes = 268_435_456, keep }: FileOptions, context: PluginContext) {
    super({ scheme: "file", name, system: "the folder", takes: "lines", pattern: PATH, rule: RULE }, context);
    this.#files = new LineFiles({ dir, maxBytes, keep, clock: context.clock });
  }

  protected async publish([path = ""]: readonly string[], request: TransportRequest, sending: Sending): Promise<Reply> {
    const at = await this.#files.append(path, lineOf(request, this.clock.now()), () => sending.ended);
    return confirmed(`${path}.ndjson, line at byte ${at}`);
  }

  protected failed(error: unknown, [path = ""]: readonly string[]): Reply {
    const code = (error as NodeJS.ErrnoException).code ?? "failed";
    // A folder of that name, or a file where a folder should be: another path would do.
    if (code === "EISDIR" || code === "ENOTDIR" || code === "EEXIST")
      return refused(`${path}.ndjson cannot be a file here (${code})`);
    if (this.isNews(`cannot write (${code})`))
      this.log.error("a file cannot be written", { transport: this.name, path, error: String(error) });
    return unavailable(this.name);
  }

  protected close(): Promise<void> {
    return this.#files.close();
  }
}
