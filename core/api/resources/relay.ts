/** The relay itself, for tokens that own every key: how it is, and sealing everything with a new master key. */
import { z } from "zod";
import { type AnyOperation, operationsOf } from "../http/operation.ts";
import type { ResourceDeps } from "./deps.ts";
import { note } from "./fields.ts";
import { chartView, range } from "./stats.ts";

const rekeyed = z
  .strictObject({
    state: note(
      z.enum(["running", "done", "blocked"]),
      "`running`: ask again. `blocked`: the subscriptions named can be opened by no key that is known.",
    ),
    sealed: note(z.int(), "Subscriptions whose secrets were sealed again."),
    unreadable: z.array(z.string()),
  })
  .meta({ id: "Rekeyed" });

export const relayOperations = (deps: ResourceDeps): readonly AnyOperation[] => [...status(deps), ...rekey(deps)];

function status({ figures }: ResourceDeps): readonly AnyOperation[] {
  const { status: read, relay } = figures ?? {};
  if (read === undefined) return [];
  return [
    operationsOf("Figures")("GET /relay/status", {
      summary: "Nodes, storage and backlog; for tokens that own every key",
      everyKey: true,
      query: z.strictObject({ range: range.optional() }),
      // The names of the figures grow with the relay.
      reply: { status: 200, data: z.record(z.string(), z.unknown()) },
      async handle({ query }) {
        const now = await read();
        if (query.range === undefined || relay === undefined) return { data: now };
        return { data: { ...now, figures: chartView(await relay(query.range)) } };
      },
    }),
  ];
}

const rekey = ({ rekey: seal }: ResourceDeps): readonly AnyOperation[] =>
  seal === undefined
    ? []
    : [
        operationsOf("Operating")("POST /relay/rekey", {
          summary:
            "Seal all secrets again, with the present master key; for tokens that own every key, with a fresh second factor",
          everyKey: true,
          stepUp: "secrets.rekeyed",
          reply: { status: 200, data: rekeyed },
          problems: ["STEP_UP_REQUIRED", "CONFLICT"],
          handle: async ({ actor }) => ({ data: await seal(actor) }),
        }),
      ];
