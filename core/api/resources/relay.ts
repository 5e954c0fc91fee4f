/** The relay itself, for tokens that own every key: its state, a new master key, a backup while it serves. */
import { once } from "node:events";
import { z } from "zod";
import { within } from "../../lib/within.ts";
import { canTap, backupLines, endedLine } from "../../maintenance/backup.ts";
import { Problem } from "../../model/problem.ts";
import { WHOLE_RELAY } from "../../model/schema.ts";
import type { Clock } from "../../ports/clock.ts";
import { auditChange } from "../../records/audit-trail.ts";
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

export const relayOperations = (deps: ResourceDeps): readonly AnyOperation[] => [status(deps), rekey(deps)];

const status = ({ figures }: ResourceDeps) =>
  operationsOf("Figures")("GET /relay/status", {
    id: "getRelayStatus",
    summary: "Nodes, storage and backlog; for tokens that own every key",
    everyKey: true,
    query: z.strictObject({ range: range.optional() }),
    // The names of the figures grow with the relay.
    reply: { status: 200, data: z.record(z.string(), z.unknown()).meta({ id: "RelayStatus" }) },
    async handle({ query }) {
      const now = await figures.status();
      if (query.range === undefined) return { data: now };
      return { data: { ...now, figures: chartView(await figures.relay(query.range)) } };
    },
  });

const rekey = ({ rekey: seal }: ResourceDeps) =>
  operationsOf("Operating")("POST /relay/rekey", {
    id: "rekey",
    summary:
      "Seal all secrets again, with the present master key; for tokens that own every key, with a fresh second factor",
    everyKey: true,
    stepUp: "secrets.rekeyed",
    reply: { status: 200, data: rekeyed },
    problems: ["STEP_UP_REQUIRED", "CONFLICT"],
    handle: async ({ actor }) => ({ data: await seal(actor) }),
  });

/** A client that takes nothing for so long is disconnected, ms. */
const STALLED_MS = 30_000;

export function backupOperations({ storage, clock, log }: ResourceDeps): readonly AnyOperation[] {
  let running = false;
  return [
    operationsOf("Operating")("GET /relay/backup", {
      id: "takeBackup",
      summary:
        "Everything that is stored, as it is at the end of the answer; for tokens that own every key, with a fresh second factor",
      everyKey: true,
      // It holds everything, the hashes of passwords too.
      access: "manage",
      stepUp: "backup.taken",
      reply: { status: 200, type: "application/x-ndjson" },
      problems: ["STEP_UP_REQUIRED", "CONFLICT"],
      async handle({ actor, call }) {
        if (!canTap(storage)) {
          throw new Problem("CONFLICT", "This storage is shared with others: take the backup with its own means.");
        }
        if (running) throw new Problem("CONFLICT", "A backup is being taken already.");
        if (call.method !== "HEAD") {
          running = true;
          const entry = { action: "backup.taken", target: "relay" } as const;
          const noted = storage.commit([auditChange(WHOLE_RELAY, actor, clock, entry)]);
          await noted.catch((error: unknown) => {
            running = false;
            throw error;
          });
        }
        return {
          async stream({ res, signal, method }, headers) {
            res.writeHead(200, {
              ...headers,
              "Content-Type": "application/x-ndjson",
              "Cache-Control": "no-store",
              "X-Content-Type-Options": "nosniff",
            });
            if (method === "HEAD") return void res.end();
            try {
              for await (const part of backupLines(storage, { storage: storage.name ?? "", at: clock.now() })) {
                if (signal.aborted) return;
                if (!res.write(part)) await drained(res, signal, clock);
              }
              res.end();
            } catch (error) {
              if (!signal.aborted) log.error("a backup ended before it was whole", { error: String(error) });
              // The client learns why. Where it takes nothing more, the missing last line tells.
              if (signal.aborted || error instanceof Stalled) res.destroy();
              else res.end(endedLine(error));
            } finally {
              running = false;
            }
          },
        };
      },
    }),
  ];
}

class Stalled extends Error {}

/** Waits until the client has taken what was written. @throws Stalled when it does not */
async function drained(res: NodeJS.EventEmitter, signal: AbortSignal, clock: Clock): Promise<void> {
  if (!(await within(clock, STALLED_MS, once(res, "drain", { signal })))) throw new Stalled("the client takes nothing");
}
