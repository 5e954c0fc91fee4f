/** A backup of everything, as lines of text, while the relay serves. Secrets in it stay sealed. */
import { once } from "node:events";
import { canTap, backupLines, endedLine } from "../../maintenance/backup.ts";
import { Problem } from "../../model/problem.ts";
import { WHOLE_RELAY } from "../../model/schema.ts";
import type { Clock } from "../../ports/clock.ts";
import { auditChange } from "../../records/audit-trail.ts";
import { type AnyOperation, operationsOf } from "../http/operation.ts";
import type { ResourceDeps } from "./deps.ts";

const operation = operationsOf("Operating");

/** A client that takes nothing for so long is disconnected, ms. */
const STALLED_MS = 30_000;

export function backupOperations({ storage, clock, log }: ResourceDeps): readonly AnyOperation[] {
  let running = false;
  return [
    operation("GET /relay/backup", {
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
              if (!signal.aborted) log?.error("a backup ended before it was whole", { error: String(error) });
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
  const over = new AbortController();
  const late = clock.sleep(clock.now() + STALLED_MS, over.signal).then(() => {
    throw new Stalled("the client takes nothing");
  });
  try {
    await Promise.race([once(res, "drain", { signal: AbortSignal.any([signal, over.signal]) }), late]);
  } finally {
    over.abort();
    late.catch(() => undefined);
  }
}
