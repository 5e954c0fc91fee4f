/** Puts answers together: the head, and a body in an envelope or as problem details (RFC 9457). */
import type { LimitVerdict } from "../../limits/limiter.ts";
import { ConflictError, DamagedRecordError, StorageError } from "../../model/errors.ts";
import { listedErrors, Problem, PROBLEMS, problemType } from "../../model/problem.ts";
import { isoTime } from "../../lib/time.ts";
import type { RouteReply } from "../../ports/plugin.ts";
import { DRAINED } from "./body.ts";
import type { Call } from "./call.ts";

/** The answer of an operation: `data`, or `text`, the JSON text of `data` where bytes must stay as they are. */
export interface HttpAnswer {
  readonly status?: number;
  readonly data?: unknown;
  readonly text?: string;
  readonly nextCursor?: string;
  /** How far back the page has looked, epoch ms, where there is a next one. */
  readonly searchedTo?: number;
  /** Sentences on what the client may not have meant. They go into `meta`. */
  readonly warnings?: readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
}

/** `{"data": …, "meta": {"timestamp": …}}`; no body at all for 204. */
export function envelope(answer: HttpAnswer, now: number): RouteReply {
  const { status = 200, headers, nextCursor, searchedTo, warnings = [] } = answer;
  if (status === 204) return { status, headers };
  const data = answer.text ?? JSON.stringify(answer.data);
  const cursor = nextCursor === undefined ? "" : `,"nextCursor":${JSON.stringify(nextCursor)}`;
  const searched = searchedTo === undefined ? "" : `,"searchedTo":"${isoTime(searchedTo)}"`;
  const warned = warnings.length === 0 ? "" : `,"warnings":${JSON.stringify(warnings)}`;
  return {
    status,
    headers,
    body: `{"data":${data},"meta":{"timestamp":"${isoTime(now)}"${cursor}${searched}${warned}}}`,
  };
}

/** Tells a caller beyond its limits what to do. */
export const GO_SLOWER = "Wait as long as Retry-After says, then go on slower.";

/** Returns a refusal by the limiter as a problem. */
export const overLimit = ({ code = "RATE_LIMIT_EXCEEDED", retryAfter }: LimitVerdict): Problem =>
  new Problem(code, GO_SLOWER, { retryAfter });

/** Makes a problem of an error: no text of an exception reaches the client, and no stack. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof StorageError && error.fault !== "broken") {
    return error.fault === "full"
      ? new Problem("STORAGE_FULL", "Nothing was stored. Try again when there is space.", { retryAfter: 5 })
      : new Problem("STORAGE_UNAVAILABLE", "Nothing is known to be stored. Try again.", { retryAfter: 1 });
  }
  if (error instanceof ConflictError) return new Problem("CONFLICT", "Read it again, then repeat the change.");
  if (error instanceof DamagedRecordError && error.kind === "subscription")
    return new Problem(
      "CONFLICT",
      "The stored record of this subscription is damaged. Delete it, and create it again.",
    );
  return new Problem("INTERNAL_ERROR", "Try again; give the operator the request id when it lasts.");
}

export function problemReply(problem: Problem, requestId: string): RouteReply {
  const { code, status, detail, extras } = problem;
  const { errors, retryAfter } = extras;
  const title = PROBLEMS[code][1];
  const body = JSON.stringify({
    type: problemType(code),
    title,
    status,
    detail,
    instance: requestId,
    code,
    errors: errors && listedErrors(errors),
    retryAfter,
  });
  const headers: Record<string, string> = { ...extras.headers };
  const add = (name: string, value: string): void => {
    if (headerOf(headers, name) === undefined) headers[name] = value;
  };
  add("Content-Type", "application/problem+json");
  if (retryAfter !== undefined) add("Retry-After", String(retryAfter));
  if (code === "UNAUTHENTICATED") add("WWW-Authenticate", 'Bearer realm="relay"');
  return { status, headers, body };
}

type Headers = NonNullable<RouteReply["headers"]>;

/** @param name however it is spelled there */
function headerOf(headers: Headers, name: string): Headers[string] | undefined {
  for (const one in headers)
    if (one === name || (one.length === name.length && one.toLowerCase() === name.toLowerCase())) return headers[one];
  return undefined;
}

/** The head of an answer: names and values by turns, spelled as in the reply. */
interface ReplyHead {
  readonly lines: string[];
  /** True when the connection ends with this answer. */
  readonly closing: boolean;
}

/**
 * Puts the head of an answer together. The reply's own headers win.
 * @param more the limit headers
 */
export function headOf(requestId: string, reply: RouteReply, more: Headers = {}): ReplyHead {
  const { status, headers = {}, body = "" } = reply;
  const lines = ["X-Request-Id", requestId];
  const add = (name: string, value: Headers[string]): void => {
    if (typeof value === "string") lines.push(name, value);
    else for (const one of value) lines.push(name, one);
  };
  const addMissing = (name: string, value: Headers[string]): void => {
    if (headerOf(headers, name) === undefined) add(name, value);
  };
  for (const name in headers) add(name, headers[name] as Headers[string]);
  for (const name in more) addMissing(name, more[name] as Headers[string]);
  addMissing("Cache-Control", "no-store");
  addMissing("X-Content-Type-Options", "nosniff");
  if (status !== 204 && status !== 304) {
    addMissing("Content-Type", "application/json");
    lines.push("Content-Length", String(Buffer.byteLength(body)));
  }
  return { lines, closing: headerOf(headers, "Connection") === "close" };
}

/**
 * Resolves when the rest of a request has come whose body is not wanted. Closing at once would reset the connection, and
 * the answer with it might never be seen: so the rest is thrown away for as long as the server's request time-out allows.
 */
export function drained(call: Call): Promise<void> {
  const { req, res } = call;
  return new Promise((resolve) => {
    // The client reads its answer and closes, or the server's request time-out ends it.
    if (call.unread) return void req.socket.pause();
    let left = DRAINED;
    req.on("data", (chunk: Buffer) => {
      left -= chunk.length;
      if (left < 0) res.destroy();
    });
    req.once("end", resolve);
    req.once("close", resolve);
    req.resume();
  });
}
