/** Builds a program of another language once, into a cache of the user that `npm ci` leaves alone. */
import { execFile } from "node:child_process";
import { hash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, isAbsolute, join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

export interface Build {
  /** By path: what it is built of, which its place in the cache is named after. */
  readonly sources: Readonly<Record<string, string>>;
  readonly tool: string;
  /** The arguments of the tool, those first that need no registry. */
  readonly tries: readonly (readonly string[])[];
  readonly product: string;
  /** Matches what the tool says where the sources are wrong. */
  readonly wrong: RegExp;
}

const WITHIN_MS = 240_000;

/** Empty or relative, the variable counts as unset (XDG Base Directory). */
function cacheHome(): string {
  const named = process.env["XDG_CACHE_HOME"] ?? "";
  return join(isAbsolute(named) ? named : join(homedir(), ".cache"), "relaybox-tests");
}

/**
 * @returns the built file, or why it cannot be built here: no tool, no registry, too slow. What a slow build has made by
 *   then stays, so that the next run goes on.
 * @throws Error with what the tool said, where the sources are wrong
 */
export async function builtOnce({
  sources,
  tool,
  tries,
  product,
  wrong,
}: Build): Promise<{ readonly file: string } | { readonly lacks: string }> {
  const key = hash("sha256", JSON.stringify([sources, tool, tries, product])).slice(0, 12);
  const folder = join(cacheHome(), key);
  const file = join(folder, basename(product));
  if (existsSync(file)) return { file };
  const signal = AbortSignal.timeout(WITHIN_MS);
  const work = join(folder, "build");
  let said = "";
  for (const args of tries) {
    try {
      for (const [path, text] of Object.entries(sources)) {
        await mkdir(dirname(join(work, path)), { recursive: true });
        await writeFile(join(work, path), text);
      }
      await run(tool, args, { cwd: work, signal, maxBuffer: 16 * 1_048_576 });
      await rename(join(work, product), file);
      await rm(work, { recursive: true, force: true });
      return { file };
    } catch (error) {
      // Another run may have built it meanwhile.
      if (existsSync(file)) return { file };
      const { code, stdout, stderr, message } = error as Error & Readonly<Record<"code" | "stdout" | "stderr", string>>;
      if (code === "ENOENT") return { lacks: `needs ${tool}` };
      if (signal.aborted) return { lacks: `${tool} takes longer than ${WITHIN_MS / 1_000} s here` };
      said = `${message}\n${stdout}\n${stderr}`;
      if (wrong.test(said)) throw new Error(said, { cause: error });
    }
  }
  return { lacks: `${tool} cannot build it here: ${said.replaceAll(/\s+/g, " ").slice(0, 600)}` };
}
