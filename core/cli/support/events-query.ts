/** The options by which `relay events` looks for events, and the path that asks the API for them. */
import type { Given, Option } from "./command.ts";

export const SEARCH_OPTIONS: readonly Option[] = [
  { flags: "--status <status>", about: "pending, delivered, failed, cancelled or unmatched" },
  { flags: "--type <name>", about: "event name" },
  { flags: "--subscription <id>", about: "those that one subscription wanted" },
  { flags: "--since <time>", about: "accepted at or after (RFC 3339)" },
  { flags: "--until <time>", about: "accepted before (RFC 3339)" },
  { flags: "--id <prefix>", about: "how the id begins" },
  { flags: "--text <text>", about: "a part of the data, as it was published" },
  { flags: "--status-code <code>", about: "what an attempt was answered, 100 to 599" },
  { flags: "--error <stage>", about: "where an attempt failed: dns, guard, connect, tls, timeout, …" },
  { flags: "--min-duration <ms>", about: "an attempt took at least so long" },
];

const TEXTS = ["status", "type", "since", "until", "id", "text", "error"] as const;

/** @throws ExitError for a number that is none */
export function eventsPath(given: Given, page: { readonly limit?: number; readonly cursor?: string }): string {
  const query = new URLSearchParams();
  const set = (name: string, value: string | number | undefined): void => {
    if (value !== undefined) query.set(name, String(value));
  };
  for (const name of TEXTS) set(name, given.text(name));
  set("subscriptionId", given.text("subscription"));
  set("statusCode", given.whole("status-code", 100, 599));
  set("minDurationMs", given.whole("min-duration", 0, 3_600_000));
  set("limit", page.limit);
  set("cursor", page.cursor);
  return `/api-keys/${encodeURIComponent(given.key())}/events${query.size > 0 ? `?${query}` : ""}`;
}
