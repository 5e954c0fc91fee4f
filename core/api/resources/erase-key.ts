/** Erases an API key: asks for a second factor, and begins the job that does it. */
import { z } from "zod";
import { API_KEY } from "../../model/schema.ts";
import { isoTime } from "../../lib/time.ts";
import type { Storage } from "../../ports/storage.ts";
import type { KeyErasure } from "../../retention/erase-key.ts";
import { notFound } from "../http/checks.ts";
import { type AnyOperation, operation } from "../http/operation.ts";

const begun = z
  .strictObject({
    id: z.string().meta({ description: "The API key." }),
    startedAt: z.string().meta({ description: "When the erasure that is under way began." }),
  })
  .meta({ id: "KeyErasure" });

export function keyOperations(deps: {
  readonly storage: Pick<Storage, "getItem">;
  readonly eraseKey: KeyErasure["erase"];
}): readonly AnyOperation[] {
  const { storage, eraseKey } = deps;
  return [
    operation({
      method: "DELETE",
      path: "/api-keys/{keyId}",
      summary: "Erase a key with its subscriptions, events and deliveries; asks for a fresh second factor",
      tag: "Catalogue",
      stepUp: "key.erased",
      reply: { status: 202, data: begun },
      problems: ["STEP_UP_REQUIRED"],
      async handle({ keyId, actor }) {
        if ((await storage.getItem(API_KEY.key({ keyId }))) === undefined) throw notFound();
        return { data: { id: keyId, startedAt: isoTime(await eraseKey(keyId, actor)) } };
      },
    }),
  ];
}
