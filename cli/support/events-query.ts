/** The options by which `relay events` looks for events, and the path that asks the API for them. */
import { keyPath, withQuery } from "./api-path.ts";
import type { Given, Option } from "./command.ts";

/** What attempts are looked for by. */
export const ATTEMPT_OPTIONS: readonly Option[] = [
  { flags: "--status-code <code>", about: "what an attempt was answered, 100 to 599" },
  { flags: "--error <stage>", about: "where an attempt failed: dns, guard, connect, tls, timeout, …" },
  { flags: "--min-duration <ms>", about: "an attempt took at least so long" },
];

export const SEARCH_OPTIONS: readonly Option[] = [
  { flags: "--status <status>", about: "pending, delivered, failed, cancelled or unmatched" },
  { flags: "--type <name>", about: "event name" },
  { flags: "--subscription <id>", about: "those that one subscription wanted" },
  { flags: "--since <time>", about: "accepted at or after (RFC 3339)" },
  { flags: "--until <time>", about: "accepted before (RFC 3339)" },
  { flags: "--id <prefix>", about: "how the id begins" },
  { flags: "--text <text>", about: "a part of the data, as it was published" },
  ...ATTEMPT_OPTIONS,
];

/** @throws ExitError for a number that is none */
export const attemptQuery = (given: Given): Readonly<Record<string, string | number | undefined>> => ({
  since: given.text("since"),
  until: given.text("until"),
  error: given.text("error"),
  subscriptionId: given.text("subscription"),
  statusCode: given.whole("status-code", 100, 599),
  minDurationMs: given.whole("min-duration", 0, 3_600_000),
});

/** @throws ExitError for a number that is none */
export function eventsPath(
  given: Given,
  page: { readonly limit?: number | undefined; readonly cursor?: string | undefined },
): string {
  const [status, type, id, text] = ["status", "type", "id", "text"].map((name) => given.text(name));
  return withQuery(keyPath(given, "events"), { status, type, id, text, ...attemptQuery(given), ...page });
}
