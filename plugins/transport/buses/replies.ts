/** The replies of a bus: it has no status codes, so a confirmed message is 200 and everything else says what happened. */
import { withoutAddresses } from "../../../core/lib/without-addresses.ts";
import type { Reply } from "../../../core/ports/transport.ts";

/** The bus has the message. The text names where: people see it as the response. */
export const confirmed = (text: string): Reply => ({
  kind: "response",
  status: 200,
  excerpt: Buffer.from(text),
  truncated: false,
});

/** The bus does not take the message; trying again helps only when somebody changes something there. */
export const refused = (detail: string): Reply => ({ kind: "error", error: "protocol", detail: detail.slice(0, 300) });

/**
 * The bus does not take the message, in its own words. They are shown to the subscriber, who chooses a destination and learns
 * no address: a node that moved a stream or is down is named with its own, and a mail server names the one behind it.
 */
export const refusedBy = (words: string): Reply => refused(withoutAddresses(words));

/** The bus has the message, in its own words. */
export const confirmedBy = (words: string): Reply => confirmed(withoutAddresses(words));

/** Nobody knows whether the bus has the message. */
export const timedOut = (timeoutMs: number): Reply => ({
  kind: "error",
  error: "timeout",
  detail: `no confirmation within ${timeoutMs} ms`,
});

/** The bus cannot be reached. A subscriber sees its name, never its address. */
export const unavailable = (name: string): Reply => ({
  kind: "unavailable",
  detail: `the connection ${name} is away`,
});
