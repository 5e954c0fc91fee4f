/** `relay subscriptions deliveries`: lists the deliveries of one subscription. */
import { keyPath, PAGE_OPTIONS, pageOf, withQuery } from "../support/api-path.ts";
import { openApi } from "../support/client.ts";
import { type Command, KEY_OPTIONS } from "../support/command.ts";
import { attemptResult, json, printable, printTable } from "../support/output.ts";
import { rows } from "../support/response-shape.ts";

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

const deliveries: Command = {
  usage: "subscriptions deliveries <subscription>",
  about: "list the deliveries of one subscription, newest event first",
  options: [
    { flags: "--status <status>", about: "pending, delivered, failed or cancelled" },
    ...PAGE_OPTIONS,
    ...KEY_OPTIONS,
  ],
  examples: ["relay subscriptions deliveries sub_1 --key key_1 --status failed"],
  async run(given, io) {
    const query = { status: given.text("status"), ...pageOf(given) };
    const path = withQuery(keyPath(given, "webhooks", given.args[0], "deliveries"), query);
    const answer = await (await openApi(given, io)).ask("GET", path);
    const all = rows<Listed>(answer, { eventId: "text", status: "text", attempts: "list", updatedAt: "text" });
    if (given.flag("json")) io.print(json(all));
    else if (all.length === 0) io.say("relay: no such deliveries");
    else {
      const cells = all.map((one) => [
        one.eventId,
        one.type,
        one.reason === undefined ? one.status : `${one.status} (${one.reason})`,
        one.attempts.length,
        attemptResult(one.attempts.at(-1)),
        one.updatedAt,
        one.nextAttemptAt,
      ]);
      const headings = ["event", "type", "status", "attempts", "last result", "changed", "next attempt"];
      io.print(printTable(headings, cells));
    }
    if (answer.nextCursor !== undefined) io.say(`relay: there are more: --cursor ${printable(answer.nextCursor)}`);
  },
};

export const commands: readonly Command[] = [deliveries];
