/** Shows the order of a subscription: what waits for its turn, and what holds it up, with a button to skip that. */
import type { ComponentChildren } from "preact";
import { ask, path } from "../state/api.ts";
import { type Bind, Field, Select } from "../kit/fields.tsx";
import { Button, Card, link, notice, problem, showToast, useAction, When } from "../kit/elements.tsx";
import { useAsk } from "../state/load.ts";
import { count } from "../state/format.ts";
import { to } from "../state/route.ts";
import type { OfKey, Order, Subscription } from "../shapes.ts";
import { may } from "../state/token.ts";

/** An order path as it is edited: a list of names stands as JSON. */
export const pathText = (given: Subscription["orderBy"]): string =>
  given === undefined ? "" : typeof given === "string" ? given : JSON.stringify(given);

/** The fields of a subscription that say how it is ordered. */
export const ORDER = ["ordered", "orderBy", "onFailed"] as const;
const ORDERS = [
  ["none", "none: several at once"],
  ["skip", "in order of acceptance; a failed one is passed"],
  ["hold", "in order of acceptance; a failed one holds up those behind it"],
] as const;

/** Returns the fields that `order`, a value of the form's list, and the path mean. @throws Error as `readPath` does */
export const orderOf = (order: string, orderBy: string): Readonly<Record<(typeof ORDER)[number], unknown>> =>
  order === "none"
    ? { ordered: undefined, orderBy: undefined, onFailed: undefined }
    : { ordered: true, orderBy: readPath(orderBy), onFailed: order };

/** @param order the value of the form's list */
export const orderFields = (bind: Bind<"order" | "orderBy">, order: string): readonly ComponentChildren[] => [
  <Select
    {...bind("order", "Order")}
    options={ORDERS}
    hint="In order, a delivery goes when the one before it is delivered or failed."
  />,
  order !== "none" && (
    <Field
      {...bind("orderBy", "In order for each")}
      optional
      hint={["A path, such as ", <code>data.account</code>, ". Empty: one order for all."]}
    />
  ),
];

/** Returns the path of a field; `undefined` when it is empty. @throws Error when it is a list that is not JSON */
function readPath(text: string): unknown {
  const given = text.trim();
  if (!given.startsWith("[")) return given === "" ? undefined : given;
  try {
    return JSON.parse(given) as unknown;
  } catch {
    throw new Error("The path is not JSON.");
  }
}

/** Says the order in words. */
export const orderText = ({ ordered, orderBy, onFailed = "skip" }: Subscription): string => {
  if (ordered !== true) return "none: several at once";
  const by = orderBy === undefined ? "one after another" : `one after another for each ${pathText(orderBy)}`;
  return `${by}; a failed one ${onFailed === "hold" ? "holds up those behind it" : "is passed"}`;
};

/** At most once in this time it is read again, ms: each reading counts for the limits. */
const CALM_MS = 3_000;

export const OrderCard = ({ keyId, one }: OfKey & { readonly one: Subscription }) => {
  const route = path("/api-keys/{}/webhooks/{}", [keyId, one.id]);
  const { data, error, again } = useAsk<Order>(
    `${route}/order`,
    // An event may be for this subscription or not: the relay knows.
    (message) => (message.event !== "attempt" || message.data.subscriptionId === one.id) && CALM_MS,
  );
  const skip = useAction(async () => {
    const { data: done } = await ask<{ readonly skipped: number }>("POST", `${route}/skip`);
    showToast(done.skipped === 0 ? "Nothing is held any more" : `Skipped ${count(done.skipped)}`);
    again();
  });
  if (data === undefined) return problem(error, again);
  const { waiting, held } = data.data;
  return (
    <Card id="order" title="Order">
      <p>{`${count(waiting)} waiting for their turn.`}</p>
      {held.length > 0 &&
        notice(
          "warn",
          <p>These failed deliveries hold up those behind them. Replay them, or skip them.</p>,
          <ul>
            {held.map(({ eventId, since }) =>
              eventId === undefined ? (
                <li>One whose record is damaged</li>
              ) : (
                <li key={eventId}>
                  {link(to(["k", keyId, "events", eventId]), <code>{eventId}</code>)}{" "}
                  {since !== undefined && <When at={since} />}
                </li>
              ),
            )}
          </ul>,
          may("change") && (
            <div class="row">
              <Button text={held.length === 1 ? "Skip it" : "Skip them"} off={skip.busy} act={skip.run} />
            </div>
          ),
        )}
      {problem(error, again)}
      {problem(skip.error)}
    </Card>
  );
};
