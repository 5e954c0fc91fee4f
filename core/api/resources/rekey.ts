/** Seals everything with a new master key while the relay serves. */
import { z } from "zod";
import type { Actor } from "../../model/audit.ts";
import { type AnyOperation, operation } from "../http/operation.ts";

/** Begins, or joins one that runs. Resolves when it is over, or after a few seconds with how far it is. */
export type RekeyAll = (actor: Actor) => Promise<{
  readonly state: "running" | "done" | "blocked";
  readonly sealed: number;
  readonly unreadable: readonly string[];
}>;

const rekeyed = z
  .strictObject({
    state: z.enum(["running", "done", "blocked"]).meta({
      description: "`running`: ask again. `blocked`: the subscriptions named can be opened by no key that is known.",
    }),
    sealed: z.int().meta({ description: "Subscriptions whose secrets were sealed again." }),
    unreadable: z.array(z.string()),
  })
  .meta({ id: "Rekeyed" });

export function rekeyOperations({ rekey }: { readonly rekey?: RekeyAll | undefined }): readonly AnyOperation[] {
  if (rekey === undefined) return [];
  return [
    operation({
      method: "POST",
      path: "/relay/rekey",
      summary:
        "Seal all secrets again, with the present master key; for tokens that own every key, with a fresh second factor",
      tag: "Operating",
      everyKey: true,
      stepUp: "secrets.rekeyed",
      reply: { status: 200, data: rekeyed },
      problems: ["STEP_UP_REQUIRED", "CONFLICT"],
      handle: async ({ actor }) => ({ data: await rekey(actor) }),
    }),
  ];
}
