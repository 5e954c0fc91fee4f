/** `relay subscriptions deliveries`: lists the deliveries of one subscription. */
import { keyPath, PAGE_OPTIONS, pageOf, withQuery } from "../support/api-path.ts";
import { KEY_OPTIONS } from "../support/command.ts";
import { attemptResult } from "../support/output.ts";
import { listing } from "../support/plain.ts";

interface Listed {
  readonly eventId: string;
  readonly type?: string;
  readonly status: string;
  readonly reason?: string;
  /** Those of the newest cycle, oldest first. */
  readonly attempts: readonly { readonly statusCode?: number; readonly error?: string }[];
  readonly nextAttemptAt?: string;
  readonly updatedAt: string;
}

const deliveries = listing<Listed>({
  usage: "subscriptions deliveries <subscription>",
  about: "list the deliveries of one subscription, newest event first",
  options: [
    { flags: "--status <status>", about: "pending, delivered, failed or cancelled" },
    ...PAGE_OPTIONS,
    ...KEY_OPTIONS,
  ],
  examples: ["relay subscriptions deliveries sub_1 --key key_1 --status failed"],
  ask(given) {
    const query = { status: given.text("status"), ...pageOf(given) };
    return { path: withQuery(keyPath(given, "webhooks", given.args[0], "deliveries"), query) };
  },
  shape: { eventId: "text", status: "text", attempts: "list", updatedAt: "text" },
  columns: {
    event: "eventId",
    type: "type",
    status: ({ status, reason }) => (reason === undefined ? status : `${status} (${reason})`),
    attempts: ({ attempts }) => attempts.length,
    "last result": ({ attempts }) => attemptResult(attempts.at(-1)),
    changed: "updatedAt",
    "next attempt": "nextAttemptAt",
  },
  none: () => "no such deliveries",
});

export const commands = [deliveries];
