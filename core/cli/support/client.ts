/** The API's client, as the commands use it: ofetch, one request, no redirect, errors as one readable exit. */
import { isIP } from "node:net";
import { readEnvironment } from "../../../config/environment.ts";
import { ConfigError } from "../../../config/problems.ts";
import type { FieldError } from "../../model/problem.ts";
import type { Plan } from "../../ports/plan.ts";
import type { CliEnvironment } from "./environment.ts";
import type { Given } from "./command.ts";
import { EX_REFUSED, EX_TEMPFAIL, EX_UNAVAILABLE, EX_USAGE, ExitError, usage } from "./exit.ts";
import { parseExact } from "./output.ts";
import { loadFor } from "./load-config.ts";

export interface ApiAnswer {
  readonly status: number;
  /** `data` of the envelope; undefined for 204. Numbers are exact, see `parseExact`. */
  readonly data: unknown;
  readonly nextCursor?: string;
  /** `Relay-Durability`, of an accepted event. */
  readonly durability?: string;
}

export interface Api {
  readonly base: string;
  /**
   * @throws ExitError: 69 when nobody answers, 75 when it is worth trying later, 64 for wrong fields, 1 for other refusals
   */
  ask(method: string, path: string, body?: unknown): Promise<ApiAnswer>;
  /** The body of an answer that goes on for as long as something happens. @throws ExitError as `ask` does */
  follow(path: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
}

/** Which token a command needs: one for the management API, one with a fresh second factor, or one that may publish. */
export type Right = "manage" | "stepped-up" | "publish";

/** Finds out where the relay is and who we are. Nothing is asked yet. @throws ExitError, ConfigError */
export async function openApi(given: Given, around: CliEnvironment, right: Right = "manage"): Promise<Api> {
  const { settings, problems } = readEnvironment(around.env);
  if (problems.length > 0) throw new ConfigError(problems);
  let plan: Plan | undefined;
  const loaded = async (): Promise<Plan> => (plan ??= (await loadFor(given, around)).plan);
  const base = checkBase(given.text("url") ?? settings.url ?? localUrl(await loaded()));
  const named = given.text("token") ?? (right === "publish" ? settings.publishToken : settings.token);
  const token = named ?? (await localToken(await loaded(), right, around));
  if (!/^[\x21-\x7e]+$/.test(token)) throw usage("the token must be visible ASCII text without spaces");
  if (base.startsWith("http:") && !isLoopback(new URL(base).hostname)) {
    around.say(`relay: the token goes to ${base} unencrypted`);
  }
  return {
    base,
    ask: (method, path, body) => request(base, token, method, path, body),
    follow: (path, signal) => follow(base, token, path, signal),
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

const isLoopback = (host: string): boolean => host === "localhost" || host === "[::1]" || host.startsWith("127.");

async function localToken(plan: Plan, right: Right, around: CliEnvironment): Promise<string> {
  const local = await import("./local-relay.ts");
  return right === "publish"
    ? local.publishToken(plan)
    : local.signToken(plan, around, { mfa: right === "stepped-up", ttlSeconds: 60 });
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
    const { data, meta } = parsed as { data?: unknown; meta?: { nextCursor?: string } };
    if (data === undefined) throw new ExitError(EX_UNAVAILABLE, `${base} answers, but it is no relay`);
    const durability = answer.headers.get("relay-durability") ?? undefined;
    return { status: answer.status, data, durability, nextCursor: meta?.nextCursor };
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

/** A problem answer as one readable error: title, detail, every field. */
function problem(status: number, body: object, retryAfter: string | null): ExitError {
  const { title, detail, code, errors } = body as {
    title?: string;
    detail?: string;
    code?: string;
    errors?: readonly FieldError[];
  };
  const lines = [`${title ?? "the relay refused"} (${status}${code === undefined ? "" : ` ${code}`})`];
  if (detail !== undefined) lines.push(`  ${detail}`);
  for (const { path, message } of Array.isArray(errors) ? (errors as readonly FieldError[]) : []) {
    lines.push(`  ${path === "" ? "" : `${path}: `}${message}`);
  }
  if (retryAfter !== null) lines.push(`  Try again in ${retryAfter} s.`);
  return new ExitError(exitCode(status), lines.join("\n"));
}

function exitCode(status: number): number {
  if (status === 429 || status === 503) return EX_TEMPFAIL;
  if (status >= 500) return EX_UNAVAILABLE;
  return [400, 413, 415, 422].includes(status) ? EX_USAGE : EX_REFUSED;
}

function cause(error: unknown): string {
  // A DOMException has numbers for codes.
  const inner = (
    error as { cause?: { cause?: { code?: unknown; message?: string }; code?: unknown; message?: string } }
  ).cause;
  const deepest = inner?.cause ?? inner;
  return typeof deepest?.code === "string" ? deepest.code : (deepest?.message ?? String((error as Error).message));
}
