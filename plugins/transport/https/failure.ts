/** From an exception on the way to the reply that it means. */
import type { AttemptError } from "../../../core/model/attempt.ts";
import { ConnectError } from "../../../core/model/errors.ts";
import type { Reply } from "../../../core/ports/transport.ts";

/** What the far side did, or `undefined` when it is our own fault. */
export const failure = (error: Error): Reply | undefined => {
  if (error instanceof ConnectError) return reply(error.stage, error.message);
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  const stage = STAGES[code] ?? byName(error.name, code);
  if (stage === undefined) return undefined;
  // undici has one code for a closed connection and for answers out of turn.
  if (code === "UND_ERR_SOCKET" && error.message.startsWith("bad ")) return reply("protocol", error.message);
  return reply(stage, DETAILS[stage] ?? error.message);
};

const STAGES: Readonly<Record<string, AttemptError>> = {
  ECONNRESET: "reset",
  EPIPE: "reset",
  ECONNABORTED: "reset",
  ETIMEDOUT: "reset",
  EHOSTUNREACH: "reset",
  ENETUNREACH: "reset",
  ENETDOWN: "reset",
  UND_ERR_SOCKET: "reset",
  UND_ERR_HEADERS_TIMEOUT: "timeout",
  UND_ERR_BODY_TIMEOUT: "timeout",
  UND_ERR_HEADERS_OVERFLOW: "protocol",
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: "protocol",
  // TLS alerts may come after the handshake: a client certificate is asked for, say (RFC 8446 §4.4.2).
  EPROTO: "tls",
};

const byName = (name: string, code: string): AttemptError | undefined => {
  // The parser's errors carry no code in undici 8.12.
  if (name === "HTTPParserError") return "protocol";
  return code.startsWith("ERR_SSL_") ? "tls" : undefined;
};

const DETAILS: Partial<Record<AttemptError, string>> = {
  reset: "the connection was closed before a complete response",
  tls: "TLS failed after the handshake",
};

const reply = (error: AttemptError, detail: string): Reply => ({ kind: "error", error, detail: detail.slice(0, 300) });
