/** The guard: the only way out of the relay. It decides where a webhook may go. */
import { connect as connectTcp } from "node:net";
import { underDeadline } from "../lib/within.ts";
import { ConnectError } from "../model/errors.ts";
import type { Connect } from "../ports/plugin.ts";
import { connector } from "./connect.ts";
import type { Dial } from "./dial.ts";
import { abortable, dnsResolver, hostsFile, type Resolve } from "./resolve.ts";
import { type GuardReason, literalOf, makeRules, type RulesOptions } from "./rules.ts";
import { trust } from "./trust.ts";
import type { ReadUrl, RefusedUrl, SchemeOf } from "./text.ts";

export { checkAllow } from "./allow.ts";

export interface GuardOptions extends RulesOptions {
  /** PEM certificates, trusted in addition to the system's. */
  readonly ca?: string;
  /** Replaces DNS and the hosts file. */
  readonly resolver?: Resolve;
  /** Replaces the kernel's TCP. */
  readonly dial?: Dial;
}

export interface Guard {
  /** Checks the text of a URL, without the network. */
  checkText(url: unknown): ReadUrl | RefusedUrl<GuardReason>;
  /**
   * Checks a URL at create and update: its text, then the addresses of its name, for at most 3 s. A name that does not
   * resolve passes: its attempts fail later. Never rejects.
   * @param of the scheme that it must have, and that scheme's port. @default https, 443
   */
  register(url: unknown, of?: SchemeOf): Promise<ReadUrl | RefusedUrl<GuardReason>>;
  readonly connect: Connect;
}

const REGISTER_MS = 3_000;

/** @throws Error when `allow` or `ca` cannot be read */
export const createGuard = (options: GuardOptions): Guard => {
  const { clock, resolver } = options;
  const rules = makeRules(options);
  const dns = dnsResolver(clock);
  const resolveNamed: Resolve = async (name, signal) => {
    if (resolver !== undefined) return await abortable(resolver(name, signal), signal);
    const listed = await hostsFile(name);
    return listed.length > 0 ? listed : await dns(name, signal);
  };
  const resolve: Resolve = (name, signal) =>
    resolver !== undefined || rules.named(name) ? resolveNamed(name, signal) : dns(name, signal);
  const dial: Dial = options.dial ?? ((host, port) => connectTcp({ host, port }));

  return {
    checkText: (url) => rules.text(url),
    connect: connector({ rules, resolve, resolveNamed, dial, trusted: trust(options.ca), clock }),
    register: async (url, of) => {
      const read = rules.text(url, of);
      if (!read.ok || literalOf(read.hostname) !== undefined) return read;
      const late = new ConnectError("dns", "DNS did not answer in time for the name");
      const asked = underDeadline(clock, REGISTER_MS, late, (signal) => resolve(read.hostname, signal));
      const found = await asked.catch(() => []);
      return rules.addresses(read.hostname, read.port, found) ?? read;
    },
  };
};
