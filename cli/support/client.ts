/** The API's client of the commands: finds the relay and a token, and makes one readable error of what goes wrong. */
import { isLoopbackHost } from "../../core/lib/loopback.ts";
import { isIP } from "node:net";
import { readEnvironment } from "../../config/environment.ts";
import { ConfigError } from "../../config/problems.ts";
import { type ClientOptions, Http } from "../../core/client/http.ts";
import { NoAnswer, RelayProblem } from "../../core/client/problem.ts";
import type { Clock } from "../../core/ports/clock.ts";
import type { Plan } from "../../core/ports/plan.ts";
import type { CliEnvironment } from "./environment.ts";
import { type Given, loadFor } from "./command.ts";
import { EX_REFUSED, EX_TEMPFAIL, EX_UNAVAILABLE, EX_USAGE, ExitError, usage } from "./exit.ts";
import { firstCause, nextStep, reasonOf } from "../../core/lib/reason.ts";
import { parseExact, printable } from "./output.ts";
import { fetchWith, trustOf } from "./trust.ts";

export interface ApiAnswer {
  readonly status: number;
  /** `data` of the envelope; undefined for 204. Numbers are exact, see `parseExact`. */
  readonly data: unknown;
  /** How far back a page of events has looked: RFC 3339. */
  readonly searchedTo?: string;
  readonly nextCursor?: string;
  /** Says where the relay thinks that something was not meant. */
  readonly warnings?: readonly string[];
  /** `Relay-Durability`, of an accepted event. */
  readonly durability?: string;
}

type StreamType = "text/event-stream" | "application/x-ndjson";

/** The token that a command needs: one for the management API, which may only read or has a fresh second factor, or one that may publish. */
export type Right = "read" | "manage" | "stepped-up" | "publish";

/** True when the command line or the environment names a relay, which is then asked even where its storage lies here. */
export function namesRelay(given: Given, { env }: CliEnvironment): boolean {
  const { settings } = readEnvironment(env);
  return [given.text("url"), given.text("token"), settings.url, settings.token].some((one) => one !== undefined);
}

/** The first request takes the token that was signed to see that it can be, unless it comes later than this, ms. */
const FRESH_MS = 30_000;

/** Finds the relay's address and a token; sends nothing yet. @throws ExitError, ConfigError */
export async function openApi(given: Given, io: CliEnvironment, right?: Right): Promise<Api> {
  const options = await connection(given, io, right);
  return new Api(options.url, new Http(options));
}

/** The same for a client. @throws ExitError, ConfigError */
export async function connection(given: Given, io: CliEnvironment, right: Right = "manage"): Promise<ClientOptions> {
  const { settings, problems } = readEnvironment(io.env);
  if (problems.length > 0) throw new ConfigError(problems);
  let plan: Plan | undefined;
  const loaded = async (): Promise<Plan> => (plan ??= (await loadFor(given, io)).plan);
  const where = given.text("url") ?? settings.url;
  const base = checkBase(where ?? localUrl(await loaded()));
  const named = given.text("token") ?? (right === "publish" ? settings.publishToken : settings.token);
  // A token that is signed here lives for a minute, so each try has its own.
  const sign = async (): Promise<string> => named ?? (await localToken(await loaded(), right, io));
  const signedAt = io.clock.now();
  let token: string | undefined = await sign();
  if (!/^[\x21-\x7e]+$/.test(token)) throw usage("the token must be visible ASCII text without spaces");
  if (base.startsWith("http:") && !isLoopbackHost(new URL(base).hostname))
    io.say(`relay: the token goes to ${base} unencrypted`);
  const next = async (): Promise<string> => {
    const first = token;
    token = undefined;
    return first !== undefined && io.clock.now() - signedAt < FRESH_MS ? first : await sign();
  };
  // A relay that is named may have another config than this folder's, or none: then Node's own trust is all there is.
  const trusted = (its: Plan) => trustOf(its, where === undefined);
  const trust = base.startsWith("https:") ? await loaded().then(trusted, () => undefined) : undefined;
  const asked = trust && (await fetchWith(trust));
  return {
    url: base,
    token: next,
    fetch: asked,
    parse: parseExact,
    // It says how long it waits.
    jitter: 0,
    ...(given.flag("no-wait") && { retries: 0 }),
    sleep: (ms, signal) => (signal ? io.clock.sleep(io.clock.now() + ms, signal) : waitFor(io.clock, ms)),
    onWait(error, ms) {
      const title = printable((error as RelayProblem).title);
      io.say(`relay: ${title}; trying again in ${ms / 1_000} s (--no-wait gives up at once)`);
    },
  };
}

/** Where a relay with this plan listens, seen from this machine. */
export function localUrl({ server }: Plan): string {
  const everywhere = server.host === "0.0.0.0" ? "127.0.0.1" : server.host === "::" ? "::1" : server.host;
  const host = isIP(everywhere) === 6 ? `[${everywhere}]` : everywhere;
  return `${server.tls ? "https" : "http"}://${host}:${server.port}`;
}

/** The URL without a slash at its end. @throws ExitError 64 */
export function checkBase(text: string): string {
  if (URL.canParse(text)) {
    const url = new URL(text);
    const plain = url.username + url.password + url.search + url.hash === "";
    if (plain && (url.protocol === "http:" || url.protocol === "https:")) return url.href.replace(/\/+$/, "");
  }
  throw usage("--url must be an http:// or https:// URL without credentials, query or fragment");
}

async function localToken(plan: Plan, right: Right, io: CliEnvironment): Promise<string> {
  const local = await import("./local-relay.ts");
  return right === "publish"
    ? local.publishToken(plan)
    : local.signToken(plan, io, {
        mfa: right === "stepped-up",
        access: right === "read" ? "read" : "manage",
        ttlSeconds: 60,
      });
}

/**
 * Asks one relay. Every method rejects with an ExitError: 69 when nobody answers, 75 when it is worth trying later, 64 for wrong
 * fields, 1 for other refusals.
 */
export class Api {
  readonly base: string;
  readonly #http: Http;

  constructor(base: string, http: Http) {
    this.base = base;
    this.#http = http;
  }

  /** @param body a text is sent as it is */
  async ask(method: string, path: string, body?: unknown): Promise<ApiAnswer> {
    const text = typeof body === "string" || body === undefined ? body : JSON.stringify(body);
    const { status, data, meta, headers } = await this.#http.data(method, path, { text }).catch(this.#told);
    return { status, data, durability: headers.get("relay-durability") ?? undefined, ...meta };
  }

  /** Resolves to the body of an answer that may have no end. */
  follow(path: string, type: StreamType, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    return this.#http.follow(path, type, { signal }).catch(this.#told);
  }

  readonly #told = (error: unknown): never => {
    if (error instanceof RelayProblem) throw new RefusedError(error);
    if (error instanceof ExitError) throw error;
    if (!(error instanceof NoAnswer))
      throw new ExitError(EX_UNAVAILABLE, String((error as Error).message), { cause: error });
    const { cause } = error;
    throw new ExitError(EX_UNAVAILABLE, `no answer from ${this.base}: ${whyNoAnswer(cause)}`, { cause });
  };
}

/** Says why nobody has answered, and what to do next: whoever shows a certificate is there. */
export function whyNoAnswer(error: unknown): string {
  const first = firstCause(error);
  const reason = reasonOf(first);
  const { code = "" } = first as { readonly code?: string };
  const next = nextStep(`${code} ${reason}`);
  if (!/CERT|ALTNAME|UNABLE_TO|SSL|EPROTO/.test(code) || next === undefined)
    return `${reason}. Is the relay running? (relay start)`;
  const trusted = "a command trusts server.tls and guard.ca of its own config, and NODE_EXTRA_CA_CERTS";
  return `${reason}: ${next}${/SSL|EPROTO/.test(code) ? "" : `; ${trusted}`}`;
}

/** The relay refused a request. */
class RefusedError extends ExitError {
  readonly status: number;
  constructor({ status, title, code, detail, errors, retryAfter }: RelayProblem) {
    const lines = [`${title} (${status}${code === undefined ? "" : ` ${code}`})`];
    if (detail !== undefined) lines.push(`  ${detail}`);
    for (const { path, message } of errors) lines.push(`  ${path === "" ? "" : `${path}: `}${message}`);
    if (retryAfter !== undefined) lines.push(`  Try again in ${retryAfter} s.`);
    super(exitCode(status), lines.join("\n"));
    this.status = status;
  }
}

/** True when the relay refused this request alone: its fields, its URL or the room for it; not the caller, and not for now. */
export const isRefusal = (error: ExitError): boolean =>
  error instanceof RefusedError && [400, 409, 413, 422].includes(error.status);

function exitCode(status: number): number {
  if (status === 429 || status === 503) return EX_TEMPFAIL;
  if (status >= 500) return EX_UNAVAILABLE;
  return [400, 413, 415, 422].includes(status) ? EX_USAGE : EX_REFUSED;
}

/** Resolves after `ms`; the process does not end before. */
async function waitFor(clock: Clock, ms: number): Promise<void> {
  const { port1: alive } = new MessageChannel();
  alive.ref();
  try {
    await clock.sleep(clock.now() + ms);
  } finally {
    alive.close();
  }
}
