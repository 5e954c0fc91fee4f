/** TLS to a server: files that the config names. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { StartError } from "../model/errors.ts";
import { noOption, optional, text, type Rule } from "./options.ts";
import type { FieldError } from "../model/problem.ts";
import { unreadable } from "../lib/reason.ts";

/** Paths of PEM files, which begin at the config's folder. */
export interface TlsFiles {
  /** Authorities trusted in place of the system's. */
  readonly caFile?: string;
  /** A client certificate, and its private key. */
  readonly certFile?: string;
  readonly keyFile?: string;
}

type FileName = keyof TlsFiles;

const FILES = { caFile: "ca", certFile: "cert", keyFile: "key" } as const;
const NAMES = Object.keys(FILES) as FileName[];
const PATH = text("the path of a file");

/**
 * The rule of the option `tls`, before a file is read.
 * @param names of the files that the plug-in takes
 * @param other the rule of what is no such file
 */
export const tlsRule = (names: readonly FileName[] = NAMES, other: Rule = noOption): Rule =>
  optional((tls, path) => {
    if (typeof tls !== "object" || tls === null) return [{ path, message: "must be an object: { caFile }" }];
    return Object.entries(tls).flatMap(([name, value]) =>
      (names.some((known) => known === name) ? PATH : other)(value, `${path}.${name}`),
    );
  });

/**
 * Returns which files cannot be read. They are problems of the config, so that a start names them with all others.
 * @param plugin its name, for people: `kafka:bus`
 */
export const tlsFileProblems = (plugin: string, tls: TlsFiles | undefined, configDir: string): readonly FieldError[] =>
  read(tls, configDir).problems.map(({ path, message }) => ({ path, message: `of the plug-in ${plugin} ${message}` }));

/** Returns the texts, as `tls.connect` takes them; `undefined` when the option is left out. @throws as `tlsPaths` */
export const readTls = (plugin: string, tls: TlsFiles | undefined, configDir: string) =>
  tls && readable(plugin, tls, configDir).texts;

/**
 * Returns the option with absolute paths: for a client that reads the files at each connection, so that renewed ones count.
 * @throws StartError 78 when one cannot be read: the caller of `setup` may not have checked `fileProblems`
 */
export const tlsPaths = <Tls extends TlsFiles>(plugin: string, tls: Tls, configDir: string): Tls => ({
  ...tls,
  ...readable(plugin, tls, configDir).paths,
});

function readable(plugin: string, tls: TlsFiles, configDir: string) {
  const found = read(tls, configDir);
  const [first] = found.problems;
  if (first !== undefined) throw new StartError(78, `${plugin}: ${first.path} ${first.message}`);
  return found;
}

function read(tls: TlsFiles | undefined, configDir: string) {
  const texts: { ca?: string; cert?: string; key?: string } = {};
  const paths: { -readonly [Name in FileName]?: string } = {};
  const problems: FieldError[] = [];
  for (const name of NAMES) {
    const path: unknown = tls?.[name];
    // The rule names what is no path.
    if (typeof path !== "string" || path === "") continue;
    paths[name] = resolve(configDir, path);
    try {
      texts[FILES[name]] = readFileSync(paths[name], "utf8");
    } catch (error) {
      problems.push({ path: `tls.${name}`, message: unreadable(error, paths[name]) });
    }
  }
  return { texts, paths, problems };
}
