/** The https transport sends one POST over HTTP/1.1 or HTTP/2 and TLS through the guarded connector. */
import { flag, optional, optionProblems, whole } from "../../core/ports/options.ts";
import { own } from "../../core/ports/own-plugins.ts";
import type { SecretOption } from "../../core/model/secret-option.ts";
import type { Plugin, PluginContext } from "../../core/ports/plugin.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { Connections } from "./https/connections.ts";
import { Deadlines } from "./https/deadlines.ts";
import { Exchange, type Shared } from "./https/exchange.ts";
import { BODY_BYTES } from "./https/response-bytes.ts";
import { Tokens, tokenPlace } from "./https/tokens.ts";
import { hostFileProblems, hostProblems, type HostFiles } from "./https/hosts.ts";
import { PROXY, proxyOption, reach, type Reach } from "./https/reach.ts";

export interface HttpsOptions {
  /**
   * How long an idle connection is kept, in ms: less than the 5 s of common servers, so that a request seldom meets a
   * closing one. A shorter `Keep-Alive` of the server counts. @default 4000
   */
  readonly keepAliveMs?: number;
  /** Most idle connections; beyond that the one idle for longest is closed. @default 1024 */
  readonly maxIdle?: number;
  /** Age in ms at which a new connection, resolved and checked again, replaces one. @default 60000 */
  readonly maxAgeMs?: number;
  /**
   * Offers HTTP/2: the attempts of a key share one connection to a receiver that chooses it (ALPN). When it is cut, all
   * of them fail at once. @default false
   */
  readonly http2?: boolean;
  /**
   * What single hosts need in TLS: `{ "api.bank.example": { ca, cert, key } }`, paths of PEM files. `ca`: the
   * authorities of the host's certificate, in place of all others. `cert` and `key`: the client certificate. Read at
   * the start.
   */
  readonly hosts?: Readonly<Record<string, HostFiles>>;
  /**
   * An HTTP proxy for every connection (CONNECT): `http://user:password@proxy.internal:3128`, or `https:`. It is asked
   * for an address that the guard has allowed, never for a name. A secret option.
   */
  readonly proxy?: SecretOption;
}

/** Lets `relay check --url` connect as deliveries do. */
interface HttpsPlugin extends Plugin<"transport", Transport> {
  /** Connects as deliveries do: with the host's files, through the proxy. @throws StartError 78 */
  reach(ctx: Pick<PluginContext, "connect" | "configDir" | "secret">): Reach;
}

/**
 * Delivers to `https:` URLs. It follows no redirect, inflates nothing, reads no proxy variable and has no way to switch
 * verification off.
 *
 * The guard and kept connections: a connection is resolved and checked when it is opened, and its peer cannot change
 * after that: it stays the checked address, for which the host's certificate was verified. So a name that is re-pointed
 * can never divert a kept connection; `maxAgeMs` bounds how late the new address is noticed. Connections are kept per API
 * key and origin, and are never shared beyond that; a subscription with a client certificate has its own. A new connection to a host and port resumes a TLS session of
 * an earlier one where the server offers that, for an hour at most after its certificate was verified.
 *
 * Nothing is sent twice by itself. A kept connection that turns out to be closed before a byte of the request was
 * written is replaced by a new one; so is an HTTP/2 connection whose receiver says that it has not processed the request.
 * In all other cases, once anything was written, a failure is a `reset`, and the retry policy decides.
 */
export const https = (options: HttpsOptions = {}): HttpsPlugin =>
  own({
    kind: "transport",
    name: "https",
    problems: optionProblems<HttpsOptions>(options, {
      keepAliveMs: optional(whole(0)),
      maxIdle: optional(whole(0)),
      maxAgeMs: optional(whole(0)),
      http2: optional(flag),
      hosts: hostProblems,
      proxy: PROXY,
    }),
    secrets: { proxy: options?.proxy },
    about: aboutOf(options ?? {}),
    reach: (ctx) => reach(options, ctx),
    fileProblems: (configDir) => hostFileProblems(options?.hosts, configDir),
    setup: async (ctx) => {
      const { clock } = ctx;
      const { connect, hosts, readiness } = reach(options, ctx);
      const { default: Client } = await import("undici/lib/dispatcher/client.js");
      const { connect: connectHttp2 } = await import("node:http2");
      const { keepAliveMs = 4_000, maxIdle = 1_024, maxAgeMs = 60_000, http2 = false } = options;
      const deadlines = new Deadlines(clock);
      const kept = { keepAliveMs, maxIdle, maxAgeMs };
      const connections = new Connections({ Client, connect, hosts, http2, connectHttp2, deadlines, ...kept });
      // A fetch of a token serves all attempts that wait for it, so none of them can call it off.
      const uncalled = new AbortController().signal;
      const tokens = new Tokens(clock, (request) => new Exchange(request, uncalled, shared, BODY_BYTES).start());
      const shared: Shared = { connections, deadlines, tokens };
      return {
        schemes: ["https"],
        takesCredentials: true,
        keepsBody: true,
        ...(readiness && { readiness }),
        send: (request, signal) => {
          if (signal.aborted) return Promise.reject(signal.reason);
          return new Exchange(request, signal, shared).start();
        },
        forget: (subscriptionId) => {
          tokens.forget(subscriptionId);
          connections.forget(subscriptionId);
          connections.forget(tokenPlace(subscriptionId));
        },
        dispose: async () => {
          deadlines.dispose();
          await connections.dispose();
        },
      };
    },
  });

function aboutOf({ http2, proxy }: HttpsOptions): string | undefined {
  const set = [http2 === true ? "HTTP/2 where offered" : undefined, proxyOption(proxy)];
  return set.filter((one) => one !== undefined).join(", ") || undefined;
}
