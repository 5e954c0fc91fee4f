/** The API's client of the commands: no redirects, waits when asked to come back later, and one readable error at the end. */
import { isLoopbackHost } from "../../core/lib/loopback.ts";
import { isIP } from "node:net";
import { readEnvironment } from "../../config/environment.ts";
import { ConfigError } from "../../config/problems.ts";
import type { FieldError } from "../../core/model/problem.ts";
import type { Clock } from "../../core/ports/clock.ts";
import type { Plan } from "../../core/ports/plan.ts";
import type { CliEnvironment } from "./environment.ts";
import { type Given, loadFor } from "./command.ts";
import { EX_REFUSED, EX_TEMPFAIL, EX_UNAVAILABLE, EX_USAGE, ExitError, usage } from "./exit.ts";
import { firstCause, nextStep, reasonOf } from "../../core/lib/reason.ts";
import { withDeadline } from "./network.ts";
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

/** The token that a command needs: one for the management API, one with a fresh second factor, or one that may publish. */
export type Right = "manage" | "stepped-up" | "publish";

/** True when the command line or the environment names a relay, which is then asked even where its storage lies here. */
export function namesRelay(given: Given, { env }: CliEnvironment): boolean {
  const { settings } = readEnvironment(env);
  return [given.text("url"), given.text("token"), settings.url, settings.token].some((one) => one !== undefined);
}

/** Finds the relay's address and a token; sends nothing yet. @throws ExitError, ConfigError */
export async function openApi(given: Given, io: CliEnvironment, right: Right = "manage"): Promise<Api> {
  const { settings, problems } = readEnvironment(io.env);
  if (problems.length > 0) throw new ConfigError(problems);
  let plan: Plan | undefined;
  const loaded = async (): Promise<Plan> => (plan ??= (await loadFor(given, io)).plan);
  const where = given.text("url") ?? settings.url;
  const base = checkBase(where ?? localUrl(await loaded()));
  const named = given.text("token") ?? (right === "publish" ? settings.publishToken : settings.token);
  // A token that is signed here lives for a minute, so each try has its own.
  const sign = async (): Promise<string> => named ?? (await localToken(await loaded(), right, io));
  let token: string | undefined = await sign();
  if (!/^[\x21-\x7e]+$/.test(token)) throw usage("the token must be visible ASCII text without spaces");
  if (base.startsWith("http:") && !isLoopbackHost(new URL(base).hostname))
    io.say(`relay: the token goes to ${base} unencrypted`);
  const next = async (): Promise<string> => {
    const first = token;
    token = undefined;
    return first ?? (await sign());
  };
  // A relay that is named may have another config than this folder's, or none: then Node's own trust is all there is.
  const trusted = (its: Plan) => trustOf(its, where === undefined);
  const trust = base.startsWith("https:") ? await loaded().then(trusted, () => undefined) : undefined;
  const asked = trust && (await fetchWith(trust));
  return new Api(base, next, io, given.flag("no-wait") ? 0 : MOST_WAITS, asked);
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
    : local.signToken(plan, io, { mfa: right === "stepped-up", ttlSeconds: 60 });
}

/** The answer is there by then, ms; of a stream, its beginning. A test event alone may take 30 s at its receiver. */
const ANSWER_MS = 45_000;
/** More than any answer of a relay, bytes. */
const LONGEST = 64 * 1_048_576;
/** Times that one request is tried again after a 429. */
const MOST_WAITS = 10;
/** A longer wait is for the caller to decide, seconds: the limits ask for a minute at most, a suspension for more. */
const LONGEST_WAIT_S = 60;

/**
 * Asks one relay, and waits as long as a 429 asks for: nothing was done by such a request. Every method rejects with an
 * ExitError: 69 when nobody answers, 75 when it is worth trying later, 64 for wrong fields, 1 for other refusals.
 */
export class Api {
  readonly base: string;
  readonly #token: () => Promise<string>;
  readonly #io: CliEnvironment;
  readonly #waits: number;
  readonly #fetch: typeof fetch | undefined;

  /** @param asked `fetch` with the trust of the config. @default Node's own */
  constructor(base: string, token: () => Promise<string>, io: CliEnvironment, waits: number, asked?: typeof fetch) {
    this.base = base;
    this.#token = token;
    this.#io = io;
    this.#waits = waits;
    this.#fetch = asked;
  }

  async ask(method: string, path: string, body?: unknown): Promise<ApiAnswer> {
    const text = typeof body === "string" || body === undefined ? body : JSON.stringify(body);
    const headers = { accept: "application/json", ...(text !== undefined && { "content-type": "application/json" }) };
    const request = { method, headers, ...(text !== undefined && { body: text }) };
    return this.#answered(path, request, async (answer) => {
      if (answer.status === 204) return { status: 204, data: undefined };
      const { data, meta = {} } = parse(await this.#textOf(answer)) as {
        data?: unknown;
        meta?: Pick<ApiAnswer, "nextCursor" | "searchedTo" | "warnings">;
      };
      if (data === undefined) throw this.#foreign();
      const durability = answer.headers.get("relay-durability") ?? undefined;
      const { nextCursor, searchedTo, warnings } = meta;
      return { status: answer.status, data, durability, nextCursor, searchedTo, warnings };
    });
  }

  /** Resolves to the body of an answer that may have no end. */
  async follow(path: string, type: StreamType, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    return this.#answered(path, { headers: { accept: `${type}, */*` }, signal }, async ({ status, body, headers }) => {
      if (status === 200 && body !== null && headers.get("content-type")?.startsWith(type) === true) return body;
      await body?.cancel();
      throw this.#foreign();
    });
  }

  async #answered<T>(path: string, request: RequestInit, read: (answer: Response) => Promise<T>): Promise<T> {
    for (let waits = 0; ; waits++) {
      const token = await this.#token();
      try {
        return await withDeadline(this.#io.clock, ANSWER_MS, async (late) => {
          const signal = request.signal ? AbortSignal.any([request.signal, late]) : late;
          const answer = await send(this.base + path, token, { ...request, signal }, this.#fetch);
          if (answer.ok) return read(answer);
          throw problem(answer.status, parse(await this.#textOf(answer)), answer.headers.get("retry-after"));
        });
      } catch (error) {
        if (!(error instanceof ExitError)) {
          throw new ExitError(EX_UNAVAILABLE, `no answer from ${this.base}: ${whyNoAnswer(error)}`, { cause: error });
        }
        const seconds = error instanceof RefusedError && error.status === 429 ? error.retryAfter : undefined;
        if (seconds === undefined || seconds > LONGEST_WAIT_S || waits === this.#waits) throw error;
        const title = printable((error as RefusedError).title);
        this.#io.say(`relay: ${title}; trying again in ${seconds} s (--no-wait gives up at once)`);
        await waitFor(this.#io.clock, seconds * 1_000);
      }
    }
  }

  async #textOf({ body }: Response): Promise<string> {
    const parts: Uint8Array[] = [];
    let length = 0;
    for await (const part of body ?? []) {
      length += part.length;
      if (length > LONGEST) throw new ExitError(EX_UNAVAILABLE, `${this.base} answers more than a relay does`);
      parts.push(part);
    }
    return Buffer.concat(parts).toString("utf8");
  }

  #foreign(): ExitError {
    return new ExitError(EX_UNAVAILABLE, `${this.base} answers, but it is no relay`);
  }
}

/** @throws what the network throws; a status is no error */
async function send(
  url: string,
  token: string,
  { headers, ...request }: RequestInit,
  asked: typeof fetch | undefined,
): Promise<Response> {
  const { createFetch, ofetch } = await import("ofetch");
  return (asked === undefined ? ofetch : createFetch({ fetch: asked })).raw(url, {
    ...request,
    headers: { ...(headers as Readonly<Record<string, string>>), authorization: `Bearer ${token}` },
    responseType: "stream",
    ignoreResponseError: true,
    redirect: "error",
    retry: 0,
  });
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

function parse(text: string): object {
  try {
    const value = parseExact(text);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}

/** The relay refused a request. */
class RefusedError extends ExitError {
  readonly status: number;
  readonly title: string;
  /** Seconds; undefined where the answer names none. */
  readonly retryAfter: number | undefined;
  constructor(status: number, title: string, message: string, retryAfter: string | null) {
    super(exitCode(status), message);
    this.status = status;
    this.title = title;
    this.retryAfter = retryAfter !== null && /^\d{1,9}$/.test(retryAfter) ? Number(retryAfter) : undefined;
  }
}

/** True when the relay refused this request alone: its fields, its URL or the room for it; not the caller, and not for now. */
export const isRefusal = (error: ExitError): boolean =>
  error instanceof RefusedError && [400, 409, 413, 422].includes(error.status);

/** A problem answer as one readable error: title, detail, every field. */
function problem(status: number, body: object, retryAfter: string | null): RefusedError {
  const { title = "the relay refused", detail, code, errors } = body as Readonly<Record<string, string | undefined>>;
  const lines = [`${title} (${status}${code === undefined ? "" : ` ${code}`})`];
  if (detail !== undefined) lines.push(`  ${detail}`);
  for (const { path, message } of Array.isArray(errors) ? (errors as readonly FieldError[]) : [])
    lines.push(`  ${path === "" ? "" : `${path}: `}${message}`);
  if (retryAfter !== null) lines.push(`  Try again in ${retryAfter} s.`);
  return new RefusedError(status, title, lines.join("\n"), retryAfter);
}

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
