/** Asks over the network within a time, and says in words why that failed. */
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import type { Clock } from "../../core/ports/clock.ts";

/**
 * Runs `work` with a signal that aborts `ms` milliseconds later. Once `work` has ended, the signal aborts no more.
 * @throws Error `none within … s` when the work fails after that; else what the work throws
 */
export async function withDeadline<T>(clock: Clock, ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const [late, over] = [new AbortController(), new AbortController()];
  const wait = clock.sleep(clock.now() + ms, over.signal).then(
    () => late.abort(new Error(`none within ${ms / 1_000} s`)),
    () => undefined,
  );
  try {
    return await work(late.signal);
  } catch (error) {
    throw late.signal.aborted ? late.signal.reason : error;
  } finally {
    over.abort();
    await wait;
  }
}

const PROBE_MS = 4_000;
/** Of an answer to a probe, characters. */
const LONGEST = 65_536;

/**
 * Makes one GET, as a container's health check does: no token, no libraries.
 * @param verify true when the certificate must be one for this address
 * @throws Error when nothing has come within 4 s
 */
export function probe(url: string, clock: Clock, verify: boolean): Promise<{ status: number; text: string }> {
  const request = url.startsWith("https:") ? requestHttps : requestHttp;
  return withDeadline(clock, PROBE_MS, (signal) => {
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
    const asked = request(url, { agent: false, rejectUnauthorized: verify, signal }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (part: string) => {
        text += part;
        if (text.length > LONGEST) answer.destroy(new Error("the answer is too long"));
      });
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text })).on("error", reject);
    });
    asked.on("error", reject).end();
    return promise;
  });
}

const UNTRUSTED = "its certificate is not trusted here";
const NO_TLS = "it speaks no TLS";
const WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there",
  ECONNRESET: "the connection was cut",
  UND_ERR_SOCKET: "the connection was cut",
  EHOSTUNREACH: "there is no way to it",
  ENETUNREACH: "there is no way to it",
  ETIMEDOUT: "nothing answers there",
  UND_ERR_CONNECT_TIMEOUT: "nothing answers there",
  ENOTFOUND: "its name is not known",
  EAI_AGAIN: "no name server answers",
  EPROTO: NO_TLS,
  ERR_SSL_WRONG_VERSION_NUMBER: NO_TLS,
  CERT_HAS_EXPIRED: "its certificate has ended",
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another name",
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
};

/** @returns `nothing listens there (ECONNREFUSED)`; the code, or the message, of an error that is none of these */
export function networkReason(error: unknown): string {
  let at = error;
  while (at instanceof Error && at.cause instanceof Error) at = at.cause;
  // The code of a DOMException is a number.
  const { code, message = String(at) } = at as { readonly code?: unknown; readonly message?: string };
  if (typeof code !== "string") return message;
  const words = WORDS[code];
  return words === undefined ? code : `${words} (${code})`;
}
