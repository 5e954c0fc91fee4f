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
import { networkReason, withDeadline } from "./network.ts";
import { parseExact, printable } from "./output.ts";

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

export interface Api {
  readonly base: string;
  /**
   * Waits as long as a 429 asks for and tries again, unless `--no-wait` is given.
   * @throws ExitError: 69 when nobody answers, 75 when it is worth trying later, 64 for wrong fields, 1 for other refusals
   */
  ask(method: string, path: string, body?: unknown): Promise<ApiAnswer>;
  /** The body of an answer that may have no end. @throws ExitError as `ask` does */
  follow(path: string, type: StreamType, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
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
  const base = checkBase(given.text("url") ?? settings.url ?? localUrl(await loaded()));
  const named = given.text("token") ?? (right === "publish" ? settings.publishToken : settings.token);
  // A token that is signed here lives for a minute, so each try has its own.
  const sign = async (): Promise<string> => named ?? (await localToken(await loaded(), right, io));
  let token: string | undefined = await sign();
  if (!/^[\x21-\x7e]+$/.test(token)) throw usage("the token must be visible ASCII text without spaces");
  if (base.startsWith("http:") && !isLoopbackHost(new URL(base).hostname)) {
    io.say(`relay: the token goes to ${base} unencrypted`);
  }
  const next = async (): Promise<string> => {
    const first = token;
    token = undefined;
    return first ?? (await sign());
  };
  const patient = given.flag("no-wait") ? <T>(ask: () => Promise<T>): Promise<T> => ask() : patiently(io);
  const relay = { base, clock: io.clock };
  return {
    base,
    ask: (method, path, body) => patient(async () => request(relay, await next(), method, path, body)),
    follow: (path, type, signal) => patient(async () => follow(relay, await next(), path, type, signal)),
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
    : local.signToken(plan, io, { mfa: right === "stepped-up", ttlSeconds: 60 });
}

/** The answer is there by then, ms; of a stream, its beginning. A test event alone may take 30 s at its receiver. */
const ANSWER_MS = 45_000;
/** More than any answer of a relay, bytes. */
const LONGEST = 64 * 1_048_576;

interface Relay {
  readonly base: string;
  readonly clock: Clock;
}

async function request(relay: Relay, token: string, method: string, path: string, body: unknown): Promise<ApiAnswer> {
  const headers = { accept: "application/json", ...(body !== undefined && { "content-type": "application/json" }) };
  const text = typeof body === "string" || body === undefined ? body : JSON.stringify(body);
  return answered(relay, async (signal) => {
    const answer = await send(relay.base + path, token, {
      method,
      headers,
      signal,
      ...(text !== undefined && { body: text }),
    });
    const parsed = parse(await textOf(answer.body, relay));
    if (!answer.ok) throw problem(answer.status, parsed, answer.headers.get("retry-after"));
    if (answer.status === 204) return { status: 204, data: undefined };
    const { data, meta } = parsed as {
      data?: unknown;
      meta?: Pick<ApiAnswer, "nextCursor" | "searchedTo" | "warnings">;
    };
    if (data === undefined) throw foreign(relay);
    const durability = answer.headers.get("relay-durability") ?? undefined;
    const { nextCursor, searchedTo, warnings } = meta ?? {};
    return { status: answer.status, data, durability, nextCursor, searchedTo, warnings };
  });
}

async function follow(
  relay: Relay,
  token: string,
  path: string,
  type: StreamType,
  ends: AbortSignal,
): Promise<ReadableStream<Uint8Array>> {
  return answered(relay, async (late) => {
    const signal = AbortSignal.any([ends, late]);
    const answer = await send(relay.base + path, token, { headers: { accept: `${type}, */*` }, signal });
    const { status, headers, body } = answer;
    if (status !== 200) throw problem(status, parse(await textOf(body, relay)), headers.get("retry-after"));
    if (body !== null && headers.get("content-type")?.startsWith(type) === true) return body;
    await body?.cancel();
    throw foreign(relay);
  });
}

/** @throws what the network throws; a status is no error */
async function send(url: string, token: string, { headers, ...request }: RequestInit): Promise<Response> {
  const { ofetch } = await import("ofetch");
  return ofetch.raw(url, {
    ...request,
    headers: { ...(headers as Readonly<Record<string, string>>), authorization: `Bearer ${token}` },
    responseType: "stream",
    ignoreResponseError: true,
    redirect: "error",
    retry: 0,
  });
}

/** @throws ExitError 69 when the answer does not come, or not in time */
async function answered<T>({ base, clock }: Relay, ask: (signal: AbortSignal) => Promise<T>): Promise<T> {
  try {
    return await withDeadline(clock, ANSWER_MS, ask);
  } catch (error) {
    if (error instanceof ExitError) throw error;
    const why = `no answer from ${base}: ${networkReason(error)}. Is the relay running? (relay start)`;
    throw new ExitError(EX_UNAVAILABLE, why, { cause: error });
  }
}

const foreign = ({ base }: Relay): ExitError => new ExitError(EX_UNAVAILABLE, `${base} answers, but it is no relay`);

async function textOf(body: ReadableStream<Uint8Array> | null, { base }: Relay): Promise<string> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of body ?? []) {
    length += part.length;
    if (length > LONGEST) throw new ExitError(EX_UNAVAILABLE, `${base} answers more than a relay does`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}

function parse(text: string): object {
  try {
    const value = parseExact(text);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}

/** Times that one request is tried again after a 429. */
const MOST_WAITS = 10;
/** A longer wait is for the caller to decide, seconds: the limits ask for a minute at most, a suspension for more. */
const LONGEST_WAIT_S = 60;

/** Repeats what was refused with 429 after the time that the answer names. Nothing was done by such a request. */
function patiently({ clock, say }: CliEnvironment): <T>(ask: () => Promise<T>) => Promise<T> {
  return async (ask) => {
    for (let waits = 0; ; waits++) {
      try {
        return await ask();
      } catch (error) {
        const seconds = error instanceof RefusedError && error.status === 429 ? error.retryAfter : undefined;
        if (seconds === undefined || seconds > LONGEST_WAIT_S || waits === MOST_WAITS) throw error;
        say(
          `relay: ${printable((error as RefusedError).title)}; trying again in ${seconds} s (--no-wait gives up at once)`,
        );
        await waitFor(clock, seconds * 1_000);
      }
    }
  };
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
  const {
    title = "the relay refused",
    detail,
    code,
    errors,
  } = body as {
    title?: string;
    detail?: string;
    code?: string;
    errors?: readonly FieldError[];
  };
  const lines = [`${title} (${status}${code === undefined ? "" : ` ${code}`})`];
  if (detail !== undefined) lines.push(`  ${detail}`);
  for (const { path, message } of Array.isArray(errors) ? (errors as readonly FieldError[]) : []) {
    lines.push(`  ${path === "" ? "" : `${path}: `}${message}`);
  }
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
