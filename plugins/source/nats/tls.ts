/** The files of `fromNats()`'s option `tls`. The client reads them at each connection, so that renewed ones count. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { StartError } from "../../../core/model/errors.ts";
import type { FieldError } from "../../../core/model/problem.ts";
import { unreadable } from "../../../core/model/system-error.ts";
import type { FromNatsOptions } from "./options.ts";

type Tls = FromNatsOptions["tls"];

const FILES = ["caFile", "certFile", "keyFile"] as const;
const EX_CONFIG = 78;

/** Returns what is wrong with the option, before a file is read. */
export function tlsProblems(tls: unknown): readonly FieldError[] {
  if (tls === undefined) return [];
  if (typeof tls !== "object" || tls === null) return [{ path: "tls", message: "must be an object: { caFile }" }];
  return FILES.filter((name) => Object.hasOwn(tls, name) && !isPath((tls as NonNullable<Tls>)[name])).map((name) => ({
    path: `tls.${name}`,
    message: "must be the path of a file",
  }));
}

/** Returns which files cannot be read. */
export function tlsFileProblems(tls: Tls, configDir: string): readonly FieldError[] {
  const found: FieldError[] = [];
  for (const [name, file] of Object.entries(paths(tls, configDir))) {
    try {
      readFileSync(file);
    } catch (error) {
      found.push({ path: `tls.${name}`, message: unreadable(error, file) });
    }
  }
  return found;
}

/**
 * Returns the option with paths that begin at the config's folder.
 * @throws StartError 78 when a file cannot be read: the caller of `setup` may not have checked `fileProblems`
 */
export function tlsOf(source: string, tls: Tls, configDir: string): Tls {
  const [first] = tlsFileProblems(tls, configDir);
  if (first !== undefined) throw new StartError(EX_CONFIG, `${source}: ${first.path} ${first.message}`);
  return tls && { ...tls, ...paths(tls, configDir) };
}

/** The files that the option names. What is no path is named by `tlsProblems`. */
function paths(tls: Tls, configDir: string): Readonly<Record<string, string>> {
  const given = FILES.map((name) => [name, tls?.[name]] as const);
  return Object.fromEntries(
    given.flatMap(([name, path]) => (isPath(path) ? [[name, resolve(configDir, path)] as const] : [])),
  );
}

const isPath = (value: unknown): value is string => typeof value === "string" && value !== "";
