/** Combines the guard's rules on names, ports and addresses with the operator's settings. */
import { networkInterfaces } from "node:os";
import type { Clock } from "../ports/clock.ts";
import { type Address, parseAddress, sameAddress } from "./ip-address.ts";
import { readAllow } from "./allow.ts";
import { classify } from "./classify.ts";
import { insideNat64 } from "./nat64.ts";
import { readUrl, type ReadUrl, refused, type RefusedUrl, type SchemeOf, type TextReason } from "./text.ts";
import { hostname as checkName } from "./host-names.ts";

export type GuardReason = TextReason | "URL_PORT" | "IP_NOT_PUBLIC" | "SELF_CONNECTION" | "DNS_MIXED";

export interface RulesOptions {
  /** `guard.allow` of the config. */
  readonly allow: readonly string[];
  /** Ports that may be called on public addresses. */
  readonly ports: readonly number[];
  /** Prefixes of a NAT64: their addresses are judged by the IPv4 address inside. */
  readonly nat64?: readonly string[] | undefined;
  /** Replaces the addresses of this machine's interfaces. */
  readonly ownAddresses?: () => readonly string[];
  readonly clock: Clock;
}

export type Rules = ReturnType<typeof makeRules>;
type Refused = RefusedUrl<GuardReason> | undefined;

/** @throws Error when `allow` cannot be read */
export const makeRules = ({ allow, ports, nat64 = [], ownAddresses, clock }: RulesOptions) => {
  const allowed = readAllow(allow);
  const open = new Set(ports);
  const inside = insideNat64(nat64);
  /** Returns the address that a connection leads to. */
  const read = (text: string): Address | undefined => {
    const address = parseAddress(text);
    return address && inside(address);
  };
  const own = remembered(ownAddresses ?? machineAddresses, clock);

  const judge = (hostname: string, port: number, text: string): GuardReason | undefined => {
    const address = read(text);
    if (address === undefined) return "IP_NOT_PUBLIC";
    if (allowed.address(address, port)) return undefined;
    const kind = classify(address);
    if (kind !== "sensitive" && allowed.host(hostname, port)) return undefined;
    if (kind !== "public") return "IP_NOT_PUBLIC";
    if (own().some((mine) => sameAddress(mine, address))) return "SELF_CONNECTION";
    return open.has(port) ? undefined : "URL_PORT";
  };
  /** Checks every address of a host: one bad address refuses them all. */
  const addresses = (hostname: string, port: number, found: readonly string[]): Refused => {
    const verdicts = found.map((text) => judge(hostname, port, text));
    const bad = verdicts.find((reason) => reason !== undefined);
    if (bad === undefined) return undefined;
    const mixed = verdicts.includes(undefined) && bad === "IP_NOT_PUBLIC";
    const reason = mixed ? "DNS_MIXED" : bad;
    const sensitive = found.some((text) => isSensitive(read(text)));
    return {
      ...refused(reason, MESSAGES[reason as keyof typeof MESSAGES]),
      ...(!sensitive && { allow: `${hostname}:${port}` }),
    };
  };
  const port = (hostname: string, number: number): Refused => {
    // No entry opens it, as nobody can call it.
    if (number === 0) return refused("URL_PORT", MESSAGES.URL_PORT);
    const literal = literalOf(hostname);
    if (literal !== undefined) return addresses(hostname, number, [literal]);
    // A port that only a CIDR opens is checked together with the addresses.
    const possible = open.has(number) || allowed.host(hostname, number) || allowed.somewhere(number);
    return possible ? undefined : { ...refused("URL_PORT", MESSAGES.URL_PORT), allow: `${hostname}:${number}` };
  };
  return {
    /** Returns true when the operator named this host, so that the hosts file may answer. */
    named: allowed.named,
    addresses,
    /** Checks the text of a URL, without the network. */
    text: (url: unknown, of?: SchemeOf): ReadUrl | RefusedUrl<GuardReason> => {
      const given = readUrl(url, allowed.named, of);
      return given.ok ? (port(given.hostname, given.port) ?? given) : given;
    },
    /** Checks a target of the connector by the same rules, as far as host and port go. */
    target: (hostname: string, number: number): Refused => {
      const wrong = allowed.named(hostname) ? undefined : checkName(hostname);
      return wrong === undefined ? port(hostname, number) : refused(wrong.reason, wrong.message);
    },
  };
};

/** Metadata services and the like: no name opens them. */
const isSensitive = (address: Address | undefined): boolean =>
  address === undefined || classify(address) === "sensitive";

/** Returns the address in a host that is an IP literal, without brackets. */
export const literalOf = (hostname: string): string | undefined => {
  const bare = hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
  return parseAddress(bare) === undefined ? undefined : bare;
};

const MESSAGES = {
  URL_PORT: "this port must not be called",
  IP_NOT_PUBLIC: "the host is not on the public internet",
  SELF_CONNECTION: "the host is this relay itself",
  DNS_MIXED: "some addresses of the host are not on the public internet",
} as const;

/** Interfaces come and go: read them again after this long, ms. */
const READ_AGAIN_MS = 10_000;

const remembered = (ask: () => readonly string[], clock: Clock): (() => readonly Address[]) => {
  let known: readonly Address[] = [];
  let askedAt = Number.NEGATIVE_INFINITY;
  return () => {
    if (clock.monotonic() - askedAt < READ_AGAIN_MS) return known;
    known = ask().flatMap((text) => parseAddress(text) ?? []);
    askedAt = clock.monotonic();
    return known;
  };
};

const machineAddresses = (): readonly string[] =>
  Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address));
