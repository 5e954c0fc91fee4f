/** Reads what single hosts need in TLS from files: authorities of their own, and the client certificate they ask for. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { certificatesProblem, keyPairProblem } from "../../../core/model/credentials.ts";
import { StartError } from "../../../core/model/errors.ts";
import type { FieldError } from "../../../core/model/problem.ts";
import { unreadable } from "../../../core/lib/reason.ts";
import { must, optional, text } from "../../../core/ports/options.ts";
import type { TlsIdentity } from "../../../core/ports/plugin.ts";

/** Paths of PEM files, relative to the config file. They are read at the start. */
export interface HostFiles {
  /** Authorities that this host's certificate must come from, in place of all others. */
  readonly ca?: string;
  /** The client certificate that is shown to this host, those that issued it after it. Needs `key`. */
  readonly cert?: string;
  /** Its private key, without a passphrase. Needs `cert`. */
  readonly key?: string;
}

export type Hosts = Readonly<Record<string, HostFiles>>;

const NAMES = ["ca", "cert", "key"] as const;
const HOST = /^(?:[a-z\d_-]+(?:\.[a-z\d_-]+)*|\[[\da-f:.]+\])$/;

const FILE = optional(text("the path of a PEM file", /\S/));
const UNKNOWN = must("is unknown (there are: ca, cert, key)", () => false);

/** Returns what is wrong with the option, before a file is read. */
export function hostProblems(hosts: unknown): readonly FieldError[] {
  if (hosts === undefined) return [];
  if (!isObject(hosts)) return [{ path: "hosts", message: "must be an object: { host: { ca, cert, key } }" }];
  return Object.entries(hosts).flatMap(([host, files]) => {
    const path = `hosts["${host}"]`;
    if (!HOST.test(host)) return [{ path: "hosts", message: `"${host}" is not a host in lower case, without a port` }];
    if (!isObject(files)) return [{ path, message: "must be an object: { ca, cert, key }" }];
    const { cert, key } = files;
    const missing = (cert === undefined) === (key === undefined) ? [] : [cert === undefined ? "cert" : "key"];
    return [
      ...Object.entries(files).flatMap(([name, file]) =>
        (NAMES.some((known) => known === name) ? FILE : UNKNOWN)(file, `${path}.${name}`),
      ),
      ...missing.map((name) => ({ path: `${path}.${name}`, message: "is missing beside the other one" })),
    ];
  });
}

/** Returns what is wrong with the files. */
export const hostFileProblems = (hosts: Hosts = {}, configDir: string): readonly FieldError[] =>
  Object.entries(hosts).flatMap(([host, files]) => read(host, files, configDir).problems);

/** Returns the identity of each host. @throws StartError 78 when a file cannot be used */
export function readHosts(hosts: Hosts = {}, configDir: string): ReadonlyMap<string, TlsIdentity> {
  const all = new Map<string, TlsIdentity>();
  for (const [host, files] of Object.entries(hosts)) {
    const { identity, problems } = read(host, files, configDir);
    const [first] = problems;
    if (first !== undefined) throw new StartError(78, `https(): ${first.path} ${first.message}`);
    all.set(host, identity);
  }
  return all;
}

function read(
  host: string,
  files: HostFiles,
  configDir: string,
): { readonly identity: TlsIdentity; readonly problems: readonly FieldError[] } {
  const problems: FieldError[] = [];
  const found = (name: (typeof NAMES)[number], message: string): void =>
    void problems.push({ path: `hosts["${host}"].${name}`, message });
  const text = (name: (typeof NAMES)[number]): string | undefined => {
    const given = files[name];
    if (given === undefined) return undefined;
    const file = resolve(configDir, given);
    try {
      return readFileSync(file, "utf8");
    } catch (error) {
      found(name, unreadable(error, file));
      return undefined;
    }
  };
  const [ca, cert, key] = [text("ca"), text("cert"), text("key")];
  const wrong = ca === undefined ? undefined : certificatesProblem(ca);
  if (wrong !== undefined) found("ca", wrong);
  const pair = cert === undefined || key === undefined ? undefined : keyPairProblem(cert, key);
  if (pair !== undefined) found(pair.of, pair.message);
  return { identity: { ...(ca && { ca }), ...(cert && key && { cert, key }) }, problems };
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
