/** Passes deliveries on to the developer's own server, which may speak plain HTTP, and answers as it answers. */
import type { CliEnvironment } from "../support/environment.ts";
import { usage } from "../support/exit.ts";
import { printable } from "../support/output.ts";
import type { Arrival } from "../support/receiver.ts";

const TIMEOUT_MS = 20_000;
/** Of a connection, not of the message; `fetch` sets its own. */
const OWN = new Set(["host", "connection", "content-length", "transfer-encoding", "keep-alive", "expect", "upgrade"]);

/** @throws ExitError 64 */
export function readTarget(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && ["http:", "https:"].includes(url.protocol) && url.username + url.password === "") return url;
  throw usage("--to must be an http:// or https:// URL without credentials");
}

/** Returns the status of the server; 502 when it does not answer within 20 s, which the relay tries again. */
export async function forward(target: URL, arrival: Arrival, { say, clock }: CliEnvironment): Promise<number> {
  const headers = new Headers();
  for (const [name, value] of Object.entries(arrival.headers)) {
    if (value !== undefined && !OWN.has(name)) headers.set(name, String(value));
  }
  const [late, over] = [new AbortController(), new AbortController()];
  void clock.sleep(clock.now() + TIMEOUT_MS, over.signal).then(
    () => late.abort(new Error("no answer within 20 s")),
    () => undefined,
  );
  try {
    const answer = await fetch(target, {
      method: "POST",
      headers,
      body: new Uint8Array(arrival.body),
      redirect: "manual",
      signal: late.signal,
    });
    await answer.body?.cancel();
    return answer.status;
  } catch (error) {
    const { message, cause } = error as Error;
    say(`relay: ${target.href} does not answer: ${printable((cause as Error | undefined)?.message ?? message)}`);
    return 502;
  } finally {
    over.abort();
  }
}
