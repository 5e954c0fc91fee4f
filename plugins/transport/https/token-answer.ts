/** Reads the answer of an OAuth 2 token endpoint (RFC 6749, 5.1 and 5.2). */
import type { Reply } from "../../../core/ports/transport.ts";

/** An access token, or the reply that the attempt ends with because there is none. */
export type Token = string | Exclude<Reply, { kind: "response" }>;

/** An access token and how long it lives, ms. */
interface Given {
  readonly token: string;
  readonly lifeMs: number;
}

/** Longest token, as HTTP servers have it for all headers. Ordinary ones take up to 4 KiB. */
const LONGEST_TOKEN = 8_192;
/** Life of a token whose answer states none. */
const DEFAULT_S = 300;
/** Longest life that is believed, in seconds. */
const LONGEST_S = 86_400;

/** Returns the token, or what the attempt ends with. The detail names no address and nothing that was sent. */
export function readTokenAnswer(reply: Reply): Given | Exclude<Token, string> {
  switch (reply.kind) {
    case "error":
      return failed(`the token endpoint could not be asked (${reply.error})`);
    // The operator's proxy is away: that counts against no subscription, whichever request it stopped.
    case "unavailable":
      return reply;
    case "response": {
      const answer = reply.truncated ? undefined : parsed(reply.excerpt);
      if (reply.status !== 200) return failed(`the token endpoint answered ${reply.status}${reason(answer)}`);
      const token = answer?.["access_token"];
      if (typeof token !== "string" || !/^[\x21-\x7e]+$/.test(token))
        return failed("the answer of the token endpoint holds no access token");
      if (token.length > LONGEST_TOKEN) return failed(`the access token has more than ${LONGEST_TOKEN} characters`);
      const kind = answer?.["token_type"] ?? "bearer";
      if (typeof kind !== "string" || kind.toLowerCase() !== "bearer")
        return failed("the token endpoint gave no bearer token");
      return { token, lifeMs: lifeSeconds(answer?.["expires_in"]) * 1_000 };
    }
  }
}

const failed = (detail: string): Exclude<Token, string> => ({ kind: "error", error: "token", detail });

/** The error code of RFC 6749, 5.2; free text of the server is not repeated. */
function reason(answer: Readonly<Record<string, unknown>> | undefined): string {
  const code = answer?.["error"];
  return typeof code === "string" && /^[a-z_]{1,40}$/.test(code) ? ` (${code})` : "";
}

function lifeSeconds(given: unknown): number {
  const seconds = Number(given ?? DEFAULT_S);
  return Number.isFinite(seconds) ? Math.min(Math.max(0, seconds), LONGEST_S) : DEFAULT_S;
}

function parsed(bytes: Uint8Array): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : undefined;
  } catch {
    return undefined;
  }
}
