/** Reads the entries of `guard.allow`: what the operator opens on purpose. */
import type { FieldError } from "../model/problem.ts";
import { type Address, type AddressRange, inRange, parseRange } from "./ip-address.ts";

type Ports = number | "any";

type Entry =
  | { readonly kind: "range"; readonly range: AddressRange; readonly ports: Ports }
  | { readonly kind: "host"; readonly host: string; readonly ports: Ports };

const FORMS =
  "write a CIDR, an address or a host name, then :port or :* (443 when left out); IPv6 with a port in brackets";

/** Returns every entry that cannot be read, with its place, for the config's list of problems. */
export const checkAllow = (entries: readonly string[]): FieldError[] =>
  entries.flatMap((entry, index) => {
    const parsed = parseEntry(entry);
    return typeof parsed === "string" ? [{ path: `guard.allow[${index}]`, message: parsed }] : [];
  });

/** Judges targets by the entries. @throws Error for an entry that cannot be read; `checkAllow` finds these beforehand */
export const readAllow = (entries: readonly string[]) => {
  const read = entries.map((entry) => {
    const parsed = parseEntry(entry);
    if (typeof parsed === "string") throw new Error(`guard.allow: ${JSON.stringify(entry)}: ${parsed}`);
    return parsed;
  });
  const ranges = read.filter((entry) => entry.kind === "range");
  const hosts = read.filter((entry) => entry.kind === "host");
  return {
    /** Returns true when a CIDR or address entry opens this address at this port, whatever name led to it. */
    address: (address: Address, port: number): boolean =>
      ranges.some((entry) => opens(entry.ports, port) && inRange(address, entry.range)),
    /** Returns true when a host entry names exactly this host at this port. */
    host: (hostname: string, port: number): boolean =>
      hosts.some((entry) => entry.host === hostname && opens(entry.ports, port)),
    /** Returns true when a host entry names this host at some port: then its name rules are lifted, and the hosts file may answer. */
    named: (hostname: string): boolean => hosts.some((entry) => entry.host === hostname),
    /** Returns true when some CIDR or address entry opens anything at this port. */
    somewhere: (port: number): boolean => ranges.some((entry) => opens(entry.ports, port)),
  };
};

const opens = (ports: Ports, port: number): boolean => ports === "any" || ports === port;

const parseEntry = (text: string): Entry | string => {
  const parts =
    /^\[(?<what>[^\]]+)\](?<block>\/\d+)?(?::(?<ports>[^:]*))?$/.exec(text) ??
    (text.split(":").length > 2 ? /^(?<what>[\da-f:./]+)$/i : /^(?<what>[^:]+)(?::(?<ports>[^:]*))?$/).exec(text);
  const { what = "", block = "", ports: port } = parts?.groups ?? {};
  if (what === "") return FORMS;
  const ports = parsePorts(port);
  if (ports === undefined) return "the port is a number from 1 to 65535, or *";
  const range = parseRange(what + block);
  if (range !== undefined) return { kind: "range", range, ports };
  const host = what.toLowerCase();
  // Every URL parser reads a name that ends in a number as an IPv4 address.
  if (!/^(?=.{1,253}$)[a-z\d_-]{1,63}(?:\.[a-z\d_-]{1,63})*$/.test(host)) return FORMS;
  if (/(?:^|\.)(?:\d+|0x[\da-f]*)$/.test(host)) return `${what} is neither an address nor a host name`;
  return { kind: "host", host, ports };
};

const parsePorts = (text: string | undefined): Ports | undefined => {
  if (text === undefined) return 443;
  if (text === "*") return "any";
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= 65_535 ? port : undefined;
};
