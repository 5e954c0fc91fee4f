/** TLS to the server of a bus: files that the config names, read at the start. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { StartError } from "../../../core/model/errors.ts";
import type { FieldError } from "../../../core/model/problem.ts";
import { unreadable } from "../../../core/model/system-error.ts";

/** Paths of PEM files, which begin at the config's folder. */
export interface TlsFiles {
  /** Authorities trusted in place of the system's. */
  readonly caFile?: string;
  /** A client certificate, and its private key. */
  readonly certFile?: string;
  readonly keyFile?: string;
}

type FileName = keyof TlsFiles;
/** What `tls.connect` takes. */
interface TlsTexts {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

const FILES = { caFile: "ca", certFile: "cert", keyFile: "key" } as const;
const NAMES = Object.keys(FILES) as FileName[];
const EX_CONFIG = 78;

/**
 * Returns what is wrong with the option `tls`, before a file is read.
 * @param names of the files that the transport takes
 */
export function tlsProblems(tls: unknown, names: readonly FileName[] = NAMES): FieldError[] {
  if (tls === undefined) return [];
  if (typeof tls !== "object" || tls === null) return [{ path: "tls", message: "must be an object: { caFile }" }];
  return Object.entries(tls).flatMap(([name, path]) => {
    if (!names.some((known) => known === name)) return [{ path: `tls.${name}`, message: "is not an option" }];
    return typeof path === "string" && path !== ""
      ? []
      : [{ path: `tls.${name}`, message: "must be the path of a file" }];
  });
}

/**
 * Returns which files cannot be read. They are problems of the config, so that a start names them with all others.
 * @param plugin its name, for people: `kafka:bus`
 */
export const tlsFileProblems = (plugin: string, tls: TlsFiles | undefined, configDir: string): FieldError[] =>
  read(tls, configDir).problems.map(({ path, message }) => ({ path, message: `of the plug-in ${plugin} ${message}` }));

/**
 * Reads the files, as `tls.connect` takes them; `undefined` when the option is left out.
 * @throws StartError 78 when one cannot be read: the caller of `setup` may not have checked `fileProblems`
 */
export function readTls(plugin: string, tls: TlsFiles | undefined, configDir: string): TlsTexts | undefined {
  if (tls === undefined) return undefined;
  const { texts, problems } = read(tls, configDir);
  const [first] = problems;
  if (first !== undefined) throw new StartError(EX_CONFIG, `${plugin}: ${first.path} ${first.message}`);
  return texts;
}

function read(tls: TlsFiles | undefined, configDir: string) {
  const texts: Record<string, string> = {};
  const problems: FieldError[] = [];
  for (const name of NAMES) {
    const path: unknown = tls?.[name];
    // What is no path is named by `tlsProblems`.
    if (typeof path !== "string" || path === "") continue;
    const file = resolve(configDir, path);
    try {
      texts[FILES[name]] = readFileSync(file, "utf8");
    } catch (error) {
      problems.push({ path: `tls.${name}`, message: unreadable(error, file) });
    }
  }
  return { texts: texts as TlsTexts, problems };
}
