/** The guarded connector: resolves the name, checks every address, connects to one, compares the peer, then starts TLS. */
import type { Socket } from "node:net";
import { underDeadline } from "../lib/within.ts";
import { ConnectError, ProxyError } from "../model/errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { Connect, ConnectProxy } from "../ports/plugin.ts";
import { type Dial, dialFirst } from "./dial.ts";
import { handshakeTurns } from "./handshake-turns.ts";
import { tunnel } from "./proxy.ts";
import type { Resolve } from "./resolve.ts";
import { literalOf, type Rules } from "./rules.ts";
import { secure } from "./secure.ts";
import type { RefusedUrl } from "./text.ts";
import { TlsSessions } from "./tls-sessions.ts";
import type { Trust } from "./trust.ts";

/** How long a connection to the proxy may take, ms: less than an attempt, which a proxy that is off then does not use up. */
const PROXY_MS = 3_000;

interface ConnectorOptions {
  readonly rules: Rules;
  readonly resolve: Resolve;
  /** Resolves a name that the operator gives in the config: the hosts file may answer. */
  readonly resolveNamed: Resolve;
  readonly dial: Dial;
  readonly trusted: Trust;
  readonly clock: Clock;
}

/** Only TLS sessions are remembered between calls: each name is resolved and checked again. */
export const connector = (given: ConnectorOptions): Connect => {
  const { rules, resolve, resolveNamed, dial, trusted, clock } = given;
  const handshake = handshakeTurns();
  const sessions = new TlsSessions(clock);

  async function openProxy({ hostname, port, tls }: ConnectProxy, signal: AbortSignal): Promise<Socket> {
    const literal = literalOf(hostname);
    const found = literal === undefined ? await resolveNamed(hostname, signal) : [literal];
    if (found.length === 0) throw new ConnectError("dns", `${hostname} has no address`);
    const open = () => dialFirst(found, port, dial, clock, signal);
    if (!tls) return await open();
    const options = { host: literal ?? hostname, literal: literal !== undefined, port, alpn: ["http/1.1"] };
    return await secure(open, options, trusted, sessions, signal);
  }

  /** @throws ProxyError when it cannot be reached, or the signal's reason */
  async function proxied(proxy: ConnectProxy, attempt: AbortSignal): Promise<Socket> {
    const late = new ConnectError("connect", "it does not answer");
    try {
      return await underDeadline(clock, PROXY_MS, late, (signal) => openProxy(proxy, signal), attempt);
    } catch (error) {
      if (!(error instanceof ConnectError)) throw error;
      throw new ProxyError(`the proxy cannot be reached: ${error.message}`, { cause: error });
    }
  }

  return async ({ hostname, port, tls = true, alpn = ["http/1.1"], identity, proxy }, signal) => {
    signal.throwIfAborted();
    const host = hostname.toLowerCase();
    pass(rules.target(host, port));
    const literal = literalOf(host);
    const found = literal === undefined ? await resolve(host, signal) : [literal];
    if (found.length === 0) throw new ConnectError("dns", `${host} has no address`, "DNS_NODATA");
    pass(rules.addresses(host, port, found));
    async function open(): Promise<Socket> {
      if (tls) await handshake();
      signal.throwIfAborted();
      return proxy === undefined
        ? await dialFirst(found, port, dial, clock, signal)
        : await tunnel(proxy, found, port, () => proxied(proxy, signal), signal);
    }
    if (!tls) return await open();
    const options = { host: literal ?? host, literal: literal !== undefined, port, alpn };
    return await secure(open, options, () => trusted(identity), sessions, signal);
  };
};

const pass = (refusal: RefusedUrl | undefined): void => {
  if (refusal !== undefined) throw new ConnectError("guard", refusal.message, refusal.reason);
};
