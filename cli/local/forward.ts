/** Passes deliveries on to the developer's own server, which may speak plain HTTP, and answers as it answers. */
import type { CliEnvironment } from "../support/environment.ts";
import { withDeadline } from "../support/deadline.ts";
import { usage } from "../support/exit.ts";
import { networkReason } from "../support/network-reason.ts";
import { printable } from "../support/output.ts";
import type { Arrival } from "./receiver.ts";

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
  try {
    return await withDeadline(clock, TIMEOUT_MS, async (signal) => {
      const body = new Uint8Array(arrival.body);
      const answer = await fetch(target, { method: "POST", headers, body, redirect: "manual", signal });
      await answer.body?.cancel();
      return answer.status;
    });
  } catch (error) {
    say(`relay: ${target.href} does not answer: ${printable(networkReason(error))}`);
    return 502;
  }
}
