/** The tools that an assistant may call: each asks the API by the client, with the rights and the limits of the token. */
import { z } from "zod";
import { type Client, RelayProblem, type Schemas } from "../../core/client/index.ts";

export interface Allowed {
  /** Replay and test. */
  readonly changes: boolean;
  /** The data of events, and what receivers answered. */
  readonly payloads: boolean;
}

export interface Tool<Shape extends z.ZodRawShape = z.ZodRawShape> {
  readonly name: string;
  readonly description: string;
  readonly input: Shape;
  readonly changes?: true;
  ask(client: Client, input: z.output<z.ZodObject<Shape>>): Promise<unknown>;
}

/** Keeps what the schema says of the input for the function. */
const tool = <Shape extends z.ZodRawShape>(one: Tool<Shape>): Tool => one as unknown as Tool;

const keyId = z.string().describe("The API key, such as key_1; list_api_keys names them.");
const eventId = z.string().describe("The event, such as evt_01k….");
const subscriptionId = z.string().describe("The subscription, such as sub_01k….");
const cursor = z.string().optional().describe("Goes on where the last answer ended: its nextCursor.");
const time = z.iso.datetime({ offset: true }).optional();

export const toolsFor = ({ changes, payloads }: Allowed): readonly Tool[] =>
  [...reading(payloads), ...CHANGING].filter((one) => changes || one.changes !== true);

/** Leaves out of attempts what the receiver answered. */
const shown = (payloads: boolean, one: { readonly attempts: readonly Schemas["Attempt"][] }): object => ({
  ...one,
  attempts: one.attempts.map(({ responseExcerpt, responseTruncated, ...attempt }) =>
    payloads ? { ...attempt, responseExcerpt, responseTruncated } : attempt,
  ),
});

/** More keys are named one by one. */
const MOST_KEYS = 50;

/** Of a key, of the relay, or of the keys that the token owns, where it does not own all of them. */
async function needsAttention(client: Client, given: { keyId?: string; cursor?: string }): Promise<unknown> {
  if (given.keyId !== undefined) return client.listAttention({ keyId: given.keyId });
  try {
    return await client.listRelayAttention({ cursor: given.cursor });
  } catch (error) {
    if (!(error instanceof RelayProblem) || error.code !== "NOT_FOUND") throw error;
  }
  const { data: keys, meta } = await client.listApiKeys({ cursor: given.cursor, limit: MOST_KEYS });
  const data: unknown[] = [];
  for (const { id } of keys) data.push(...(await client.listAttention({ keyId: id })).data);
  return { data, meta };
}

const reading = (payloads: boolean): readonly Tool[] => [
  tool({
    name: "needs_attention",
    description:
      "What needs attention, why, and what helps: endpoints that are down, failing or disabled, failed deliveries, held order. Begin here.",
    input: { keyId: keyId.optional(), cursor },
    ask: needsAttention,
  }),
  tool({
    name: "list_api_keys",
    description: "The API keys that the token owns and that are in use.",
    input: { cursor },
    ask: (client, given) => client.listApiKeys(given),
  }),
  tool({
    name: "list_subscriptions",
    description: "The subscriptions of an API key: where its events go, which it wants, and its settings.",
    input: { keyId },
    ask: (client, given) => client.listSubscriptions(given),
  }),
  tool({
    name: "list_events",
    description:
      "Events of an API key, newest first, without their data; a page may be empty and still have a next one.",
    input: {
      keyId,
      status: z.enum(["pending", "delivered", "failed", "cancelled", "unmatched"]).optional(),
      type: z.string().optional(),
      subscriptionId: subscriptionId.optional(),
      since: time,
      until: time,
      limit: z.int().min(1).max(200).default(20),
      cursor,
    },
    ask: (client, given) => client.listEvents(given),
  }),
  tool({
    name: "show_event",
    description: `An event with its deliveries and their attempts, a page of them${payloads ? ", and its data" : "; its data is not shown"}.`,
    input: { keyId, eventId, cursor },
    async ask(client, given) {
      const { data: event, meta } = await client.getEvent({ ...given, limit: 50 });
      const { data, deliveries, ...head } = event;
      return { ...head, ...(payloads && { data }), deliveries: deliveries.map((one) => shown(payloads, one)), meta };
    },
  }),
  tool({
    name: "why_failed",
    description:
      "Why the delivery of an event failed or still waits: each attempt with its cause, over all replays, and its subscription.",
    input: { keyId, eventId, subscriptionId },
    async ask(client, { keyId: key, eventId: event, subscriptionId: id }) {
      const at = { keyId: key, eventId: event, subscriptionId: id };
      const { data: attempts } = await client.listDeliveryAttempts({ ...at, limit: 50 });
      const { data: head } = await client.getEvent({ keyId: key, eventId: event, limit: 200 });
      const delivery = head.deliveries.find((one) => one.subscriptionId === id);
      // A subscription that was deleted has left its deliveries behind.
      const subscription = await client.getSubscription({ keyId: key, subscriptionId: id }).catch(() => undefined);
      const { status, disabledReason, url } = subscription?.data ?? {};
      const all = shown(payloads, { ...delivery, attempts });
      return { type: head.type, ...all, subscription: subscription && { url, status, disabledReason } };
    },
  }),
];

const CHANGING: readonly Tool[] = [
  tool({
    name: "replay_event",
    description: "Sends an event again: its failed deliveries, or to one subscription. Ask the operator before.",
    input: { keyId, eventId, subscriptionId: subscriptionId.optional() },
    changes: true,
    ask: (client, { subscriptionId: id, ...at }) =>
      client.replayEvent({ ...at, body: id === undefined ? {} : { subscriptionId: id } }),
  }),
  tool({
    name: "test_subscription",
    description: "Sends a test event to a subscription once, and answers with the attempt.",
    input: { keyId, subscriptionId, type: z.string().optional().describe("A type whose example is sent.") },
    changes: true,
    async ask(client, { type, ...at }) {
      const { data } = await client.testSubscription({ ...at, body: type === undefined ? {} : { type } });
      const { responseExcerpt: _excerpt, ...attempt } = data;
      return attempt;
    },
  }),
];
