/** Translates an exception to the reply that it means. */
import type { AttemptError } from "../../../core/model/attempt.ts";
import { causeOf } from "../../../core/lib/reason.ts";
import { ConnectError, ProxyError } from "../../../core/model/errors.ts";
import type { Reply } from "../../../core/ports/transport.ts";
import type { Excess } from "./response-bytes.ts";

/**
 * Returns what the receiver did, or `undefined` for a fault of our own, which is no attempt. Once a request is
 * dispatched, every error of the client library is an outcome: an unknown error is `protocol`. Only a lack of resources
 * on this machine, and a connection that we close ourselves, are our own.
 */
export const failure = (error: Error): Reply | undefined => {
  if (error instanceof ConnectError) return reply(error.stage, error.message);
  if (error instanceof ClosedByRelay) return undefined;
  if (error instanceof InvalidResponse) return protocol(INVALID);
  if (error instanceof ProxyError) return { kind: "unavailable", detail: error.message };
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  if (OWN.has(code)) return undefined;
  const stage = STAGES[code] ?? (code.startsWith("ERR_SSL_") ? "tls" : "protocol");
  // undici has one code for a closed connection and for answers out of turn.
  if (code === "UND_ERR_SOCKET" && error.message.startsWith("bad ")) return protocol(error.message);
  // The parser's own checks fail with an assertion on its variables, which tells a person nothing.
  if (error.name === "AssertionError") return protocol(INVALID);
  // The HTTP/2 session cannot read what came.
  if (code === "ERR_HTTP2_ERROR") return protocol(INVALID);
  if (stage === "tls") return reply(stage, `TLS after the handshake: ${causeOf(error)}`);
  return reply(stage, stage === "reset" ? RESET : error.message);
};

/** The relay closed the connection. */
export class ClosedByRelay extends Error {}

/** The response breaks the rules of HTTP/2. */
export class InvalidResponse extends Error {}

/** The request's stream was reset, or its session closed. */
export class StreamReset extends Error {
  readonly code = "ECONNRESET";
}

const INVALID = "the response is not valid HTTP";

/** The response is longer than what is read of one. */
export const tooLong = (excess: Excess): Reply => protocol(EXCEEDED[excess]);

/** Returns the reply for a status that is none: HTTP has none beyond 599 (RFC 9110, 15). */
export const unknownStatus = (status: number): Reply | undefined =>
  status > 599 ? protocol(`the status ${status} is not one of HTTP`) : undefined;

const EXCEEDED: Readonly<Record<Excess, string>> = {
  bytes: "the response headers do not end",
  informational: "more than 10 informational answers came before the response",
};

/** The receiver answered something that is not HTTP. */
const protocol = (detail: string): Reply => reply("protocol", detail);

/** Faults of the relay: out of descriptors or memory, or we closed the connection. */
const OWN = new Set([
  "EMFILE",
  "ENFILE",
  "ENOBUFS",
  "ENOMEM",
  "ERR_MEMORY_ALLOCATION_FAILED",
  "UND_ERR_ABORTED",
  "UND_ERR_CLOSED",
  "UND_ERR_DESTROYED",
]);

const STAGES: Readonly<Record<string, AttemptError>> = {
  ECONNRESET: "reset",
  EPIPE: "reset",
  ECONNABORTED: "reset",
  ETIMEDOUT: "reset",
  EHOSTUNREACH: "reset",
  ENETUNREACH: "reset",
  ENETDOWN: "reset",
  UND_ERR_SOCKET: "reset",
  ERR_HTTP2_SESSION_ERROR: "reset",
  ERR_HTTP2_STREAM_ERROR: "reset",
  ERR_HTTP2_STREAM_CANCEL: "reset",
  ERR_HTTP2_GOAWAY_SESSION: "reset",
  ERR_HTTP2_INVALID_SESSION: "reset",
  UND_ERR_HEADERS_TIMEOUT: "timeout",
  UND_ERR_BODY_TIMEOUT: "timeout",
  // TLS alerts may come after the handshake: when a client certificate is requested, for example (RFC 8446 §4.4.2).
  EPROTO: "tls",
};

const RESET = "the connection was closed before a complete response";

const reply = (error: AttemptError, detail: string): Reply => ({ kind: "error", error, detail });
