/** `relay subscriptions order` and `skip`: what of an ordered subscription waits, what holds it up, and skipping that. */
import { keyPath } from "../support/api-path.ts";
import { openApi } from "../support/client.ts";
import { type Command, KEY_OPTIONS } from "../support/command.ts";
import { json, printTable } from "../support/output.ts";
import { record } from "../support/response-shape.ts";

interface Order {
  readonly ordered: boolean;
  readonly waiting: number;
  readonly held: readonly { readonly eventId?: string; readonly deliveryId?: string; readonly since?: string }[];
}

const order: Command = {
  usage: "subscriptions order <subscription>",
  about: "show what of an ordered subscription waits for its turn, and what holds it up",
  options: KEY_OPTIONS,
  async run(given, io) {
    const answer = await (await openApi(given, io)).ask("GET", keyPath(given, "webhooks", given.args[0], "order"));
    const shown = record<Order>(answer, { ordered: "flag", waiting: "number", held: "list" });
    if (given.flag("json")) io.print(json(shown));
    else {
      io.say(`relay: ${shown.ordered ? "ordered" : "not ordered"}, ${shown.waiting} waiting`);
      const cells = shown.held.map(({ eventId = "damaged", deliveryId = "", since = "" }) => [
        eventId,
        deliveryId,
        since,
      ]);
      if (cells.length > 0) io.print(printTable(["held by", "delivery", "since"], cells));
    }
  },
};

const skip: Command = {
  usage: "subscriptions skip <subscription>",
  about: "skip failed deliveries that hold up those behind them; they stay failed and can be replayed",
  options: [{ flags: "--event <event>", about: "only the held delivery of this event" }, ...KEY_OPTIONS],
  examples: ["relay subscriptions skip sub_1 --key key_1"],
  async run(given, io) {
    const api = await openApi(given, io);
    const answer = await api.ask("POST", keyPath(given, "webhooks", given.args[0], "skip"), {
      eventId: given.text("event"),
    });
    const done = record<{ readonly skipped: number }>(answer, { skipped: "number" });
    if (given.flag("json")) io.print(json(done));
    else io.say(`relay: skipped ${done.skipped}`);
  },
};

export const commands: readonly Command[] = [order, skip];
