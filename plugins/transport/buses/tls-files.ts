/** TLS to the server of a bus: files that the config names, read at the start. */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { StartError } from "../../../core/model/errors.ts";
import type { OptionProblem } from "./destination.ts";

/** Paths of PEM files, which begin at the config's folder. */
export interface TlsFiles {
  /** Authorities trusted in place of the system's. */
  readonly caFile?: string;
  /** A client certificate, and its private key. */
  readonly certFile?: string;
  readonly keyFile?: string;
}

const FILES = { caFile: "ca", certFile: "cert", keyFile: "key" } as const;
const EX_CONFIG = 78;

/** Returns what is wrong with the option `tls`. */
export function tlsProblems(tls: unknown): OptionProblem[] {
  if (tls === undefined) return [];
  if (typeof tls !== "object" || tls === null) return [{ path: "tls", message: "must be an object: { caFile }" }];
  return Object.entries(tls).flatMap(([name, path]) => {
    if (!Object.hasOwn(FILES, name)) return [{ path: `tls.${name}`, message: "is not an option" }];
    return typeof path === "string" && path !== ""
      ? []
      : [{ path: `tls.${name}`, message: "must be the path of a file" }];
  });
}

/**
 * Reads the files, as `tls.connect` takes them; `undefined` when the option is left out.
 * @throws StartError 78 when one cannot be read
 */
export async function readTls(
  tls: TlsFiles | undefined,
  configDir: string,
): Promise<{ readonly ca?: string; readonly cert?: string; readonly key?: string } | undefined> {
  if (tls === undefined) return undefined;
  const read: Record<string, string> = {};
  for (const [name, into] of Object.entries(FILES)) {
    const path = tls[name as keyof TlsFiles];
    if (path === undefined) continue;
    try {
      read[into] = await readFile(resolve(configDir, path), "utf8");
    } catch (cause) {
      const code = (cause as NodeJS.ErrnoException).code ?? "unreadable";
      throw new StartError(EX_CONFIG, `tls.${name}: ${path} cannot be read (${code})`, { cause });
    }
  }
  return read;
}
