/** The transform test: the body that a transform makes of an event, or why it makes none. Nothing is sent or stored. */
import { z } from "zod";
import type { RelayEvent } from "../../model/event.ts";
import type { Subscription } from "../../model/subscription.ts";
import type { Storage } from "../../ports/storage.ts";
import type { SubscriptionCache } from "../../subscriptions/subscriptions.ts";
import { type AnyOperation, operation } from "../http/operation.ts";
import { findReadable, WEBHOOK } from "./subscriptions.ts";
import { transformTested } from "./transform-schema.ts";
import { isOneEvent, NOT_ONE_EVENT, ONE_EVENT, storedEvent, testedEvent } from "./tested-event.ts";

/** Runs the transform of a subscription where those of deliveries run, within the same limits. */
export type TransformPreview = (
  subscription: Subscription,
  of: RelayEvent | { readonly type: string; readonly data: unknown },
  signal: AbortSignal,
) => Promise<{ readonly body: string } | { readonly error: string }>;

const body = z
  .strictObject({
    ...testedEvent,
    transform: z
      .string()
      .max(64)
      .nullable()
      .optional()
      .meta({ description: "Run in place of the subscription's own; `null` stands for none." }),
  })
  .refine(isOneEvent, NOT_ONE_EVENT)
  .meta({ id: "TransformTestRequest", ...ONE_EVENT });

export function transformTestOperations(deps: {
  readonly preview?: TransformPreview | undefined;
  readonly subscriptionCache: SubscriptionCache;
  readonly storage: Pick<Storage, "getItem" | "getMany">;
}): readonly AnyOperation[] {
  const { preview, subscriptionCache, storage } = deps;
  if (preview === undefined) return [];
  return [
    operation({
      method: "POST",
      path: `${WEBHOOK}/transform/test`,
      summary: "Test a transform on an event: the body that it makes, or why it makes none",
      tag: "Subscriptions",
      portal: true,
      access: "read",
      body,
      reply: { status: 200, data: transformTested },
      // Its stored record is damaged.
      problems: ["CONFLICT"],
      async handle({ keyId, params, call, body: asked }) {
        const subscription = await findReadable(subscriptionCache, keyId, params["subscriptionId"] ?? "");
        const event = asked.event ?? (await storedEvent(storage, keyId, asked.eventId ?? ""));
        const transform = asked.transform === undefined ? subscription.transform : (asked.transform ?? undefined);
        const made = await preview({ ...subscription, transform }, event, call.signal);
        const [text, error] = "body" in made ? [made.body, null] : [null, made.error];
        return { data: { transform: transform ?? null, made: text !== null, body: text, error } };
      },
    }),
  ];
}
