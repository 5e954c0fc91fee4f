/** `relay subscriptions order` and `skip`: what of an ordered subscription waits, what holds it up, and skipping that. */
import { keyPath } from "../support/api-path.ts";
import { KEY_OPTIONS } from "../support/command.ts";
import { printTable } from "../support/output.ts";
import { asking } from "../support/plain.ts";

interface Order {
  readonly ordered: boolean;
  readonly waiting: number;
  readonly held: readonly { readonly eventId?: string; readonly deliveryId?: string; readonly since?: string }[];
}

const order = asking<Order>({
  usage: "subscriptions order <subscription>",
  about: "show what of an ordered subscription waits for its turn, and what holds it up",
  options: KEY_OPTIONS,
  ask: (given) => ({ path: keyPath(given, "webhooks", given.args[0], "order") }),
  shape: { ordered: "flag", waiting: "number", held: "list" },
  show({ ordered, waiting, held }, io) {
    io.say(`relay: ${ordered ? "ordered" : "not ordered"}, ${waiting} waiting`);
    const cells = held.map(({ eventId = "damaged", deliveryId, since }) => [eventId, deliveryId, since]);
    if (cells.length > 0) io.print(printTable(["held by", "delivery", "since"], cells));
  },
});

const skip = asking<{ readonly skipped: number }>({
  usage: "subscriptions skip <subscription>",
  about: "skip failed deliveries that hold up those behind them; they stay failed and can be replayed",
  options: [{ flags: "--event <event>", about: "only the held delivery of this event" }, ...KEY_OPTIONS],
  examples: ["relay subscriptions skip sub_1 --key key_1"],
  ask: (given) => ({
    method: "POST",
    path: keyPath(given, "webhooks", given.args[0], "skip"),
    body: { eventId: given.text("event") },
  }),
  shape: { skipped: "number" },
  show: ({ skipped }, io) => io.say(`relay: skipped ${skipped}`),
});

export const commands = [order, skip];
