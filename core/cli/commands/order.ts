/** `relay subscriptions order` and `skip`: what of an ordered subscription waits, what holds it up, and skipping that. */
import { openApi } from "../support/client.ts";
import type { Command, Given } from "../support/command.ts";
import { API_OPTIONS, JSON_OPTION, KEY_OPTION } from "../support/command.ts";
import { EX_OK } from "../support/exit.ts";
import { json, printTable } from "../support/output.ts";
import { record } from "../support/response-shape.ts";

interface Order {
  readonly ordered: boolean;
  readonly waiting: number;
  readonly held: readonly { readonly eventId?: string; readonly deliveryId?: string; readonly since?: string }[];
}

const webhook = (given: Given): string =>
  `/api-keys/${encodeURIComponent(given.key())}/webhooks/${encodeURIComponent(given.args[0] ?? "")}`;

const order: Command = {
  usage: "subscriptions order <subscription>",
  about: "show what of an ordered subscription waits for its turn, and what holds it up",
  options: [KEY_OPTION, JSON_OPTION, ...API_OPTIONS],
  async run(given, around) {
    const answer = await (await openApi(given, around)).ask("GET", `${webhook(given)}/order`);
    const shown = record<Order>(answer, { ordered: "flag", waiting: "number", held: "list" });
    if (given.flag("json")) around.print(json(shown));
    else {
      around.say(`relay: ${shown.ordered ? "ordered" : "not ordered"}, ${shown.waiting} waiting`);
      const cells = shown.held.map(({ eventId = "damaged", deliveryId = "", since = "" }) => [
        eventId,
        deliveryId,
        since,
      ]);
      if (cells.length > 0) around.print(printTable(["held by", "delivery", "since"], cells));
    }
    return EX_OK;
  },
};

const skip: Command = {
  usage: "subscriptions skip <subscription>",
  about: "skip failed deliveries that hold up those behind them; they stay failed and can be replayed",
  options: [
    { flags: "--event <event>", about: "only the held delivery of this event" },
    KEY_OPTION,
    JSON_OPTION,
    ...API_OPTIONS,
  ],
  examples: ["relay subscriptions skip sub_1 --key key_1"],
  async run(given, around) {
    const api = await openApi(given, around);
    const answer = await api.ask("POST", `${webhook(given)}/skip`, { eventId: given.text("event") });
    const done = record<{ readonly skipped: number }>(answer, { skipped: "number" });
    if (given.flag("json")) around.print(json(done));
    else around.say(`relay: skipped ${done.skipped}`);
    return EX_OK;
  },
};

export const commands: readonly Command[] = [order, skip];
