/** The API's client of the commands: no redirects, waits when asked to come back later, and one readable error at the end. */
import { isLoopbackHost } from "../../model/loopback.ts";
import { isIP } from "node:net";
import { readEnvironment } from "../../../config/environment.ts";
import { ConfigError } from "../../../config/problems.ts";
import type { Plan } from "../../ports/plan.ts";
import type { CliEnvironment } from "./environment.ts";
import type { Given } from "./command.ts";
import { EX_UNAVAILABLE, ExitError, usage } from "./exit.ts";
import { parseExact } from "./output.ts";
import { patiently, problem } from "./refusal.ts";
import { loadFor } from "./load-config.ts";

export interface ApiAnswer {
  readonly status: number;
  /** `data` of the envelope; undefined for 204. Numbers are exact, see `parseExact`. */
  readonly data: unknown;
  /** How far back a page of events has looked: RFC 3339. */
  readonly searchedTo?: string;
  readonly nextCursor?: string;
  /** What the relay thinks was not meant. */
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
  /** The body of an answer without end. @throws ExitError as `ask` does */
  follow(path: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
}

/** Which token a command needs: one for the management API, one with a fresh second factor, or one that may publish. */
export type Right = "manage" | "stepped-up" | "publish";

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
  return {
    base,
    ask: (method, path, body) => patient(async () => request(base, await next(), method, path, body)),
    follow: (path, signal) => patient(async () => follow(base, await next(), path, signal)),
  };
}

/** Where a relay with this plan listens, seen from this machine. */
export function localUrl({ server }: Plan): string {
  const everywhere = server.host === "0.0.0.0" ? "127.0.0.1" : server.host === "::" ? "::1" : server.host;
  const host = isIP(everywhere) === 6 ? `[${everywhere}]` : everywhere;
  return `${server.tls ? "https" : "http"}://${host}:${server.port}`;
}

function checkBase(text: string): string {
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

async function request(base: string, token: string, method: string, path: string, body: unknown): Promise<ApiAnswer> {
  const { ofetch } = await import("ofetch");
  let answer: { readonly status: number; readonly headers: Headers; readonly _data?: unknown };
  try {
    answer = await ofetch.raw(base + path, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        accept: "application/json",
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
      parseResponse: (text: string) => text,
      responseType: "text",
      ignoreResponseError: true,
      redirect: "error",
      retry: 0,
      timeout: 30_000,
    });
  } catch (error) {
    throw noAnswer(base, error);
  }
  const text = typeof answer._data === "string" ? answer._data : "";
  const parsed = parse(text);
  if (answer.status >= 200 && answer.status < 300) {
    if (answer.status === 204) return { status: 204, data: undefined };
    const { data, meta } = parsed as {
      data?: unknown;
      meta?: Pick<ApiAnswer, "nextCursor" | "searchedTo" | "warnings">;
    };
    if (data === undefined) throw new ExitError(EX_UNAVAILABLE, `${base} answers, but it is no relay`);
    const durability = answer.headers.get("relay-durability") ?? undefined;
    const { nextCursor, searchedTo, warnings } = meta ?? {};
    return { status: answer.status, data, durability, nextCursor, searchedTo, warnings };
  }
  throw problem(answer.status, parsed, answer.headers.get("retry-after"));
}

async function follow(
  base: string,
  token: string,
  path: string,
  signal: AbortSignal,
): Promise<ReadableStream<Uint8Array>> {
  const { ofetch } = await import("ofetch");
  const headers = { authorization: `Bearer ${token}`, accept: "text/event-stream, */*" };
  const answer = await ofetch
    .raw(base + path, {
      headers,
      responseType: "stream",
      ignoreResponseError: true,
      redirect: "error",
      retry: 0,
      signal,
    })
    .catch((error: unknown) => {
      throw noAnswer(base, error);
    });
  const body = answer._data as ReadableStream<Uint8Array>;
  if (answer.status !== 200) {
    throw problem(answer.status, parse(await new Response(body).text()), answer.headers.get("retry-after"));
  }
  return body;
}

const noAnswer = (base: string, error: unknown): ExitError =>
  new ExitError(EX_UNAVAILABLE, `no answer from ${base}: ${cause(error)}. Is the relay running? (relay start)`, {
    cause: error,
  });

function parse(text: string): object {
  try {
    const value = parseExact(text);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}

function cause(error: unknown): string {
  // The code of a DOMException is a number.
  const inner = (
    error as { cause?: { cause?: { code?: unknown; message?: string }; code?: unknown; message?: string } }
  ).cause;
  const deepest = inner?.cause ?? inner;
  return typeof deepest?.code === "string" ? deepest.code : (deepest?.message ?? String((error as Error).message));
}
