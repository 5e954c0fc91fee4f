/** The probes: `/healthz` (the process runs) and `/readyz` (it can serve). */
import { z } from "zod";
import { isoTime } from "../../model/time.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Route } from "../../ports/route.ts";
import { envelope } from "../http/reply.ts";

/** One part of the relay, as `/readyz` shows it. */
export interface HealthPart {
  readonly ready: boolean;
  /** Says in a few words why it is not ready. Nothing secret: anyone may ask. */
  readonly state?: string;
}

/** Called at every probe. It must answer soon. */
export type Readiness = () => Promise<Readonly<Record<string, HealthPart>>> | Readonly<Record<string, HealthPart>>;

const time = z.iso.datetime();
const meta = z.strictObject({ timestamp: time });
const alive = z.strictObject({ data: z.strictObject({ status: z.string(), startedAt: time }), meta });
const parts = z.record(z.string(), z.strictObject({ ready: z.boolean(), state: z.string().optional() }));
const ready = z.strictObject({ data: z.strictObject({ status: z.string(), parts }), meta });

export function healthRoutes(deps: {
  readonly clock: Pick<Clock, "now">;
  readonly readiness: Readiness;
}): readonly Route[] {
  const { clock, readiness } = deps;
  const startedAt = clock.now();
  return [
    {
      method: "GET",
      path: "/healthz",
      describe: { summary: "Alive", tag: "Probes", answers: [{ status: 200, content: { schema: alive } }] },
      handle: async () => envelope({ data: { status: "ok", startedAt: isoTime(startedAt) } }, clock.now()),
    },
    {
      method: "GET",
      path: "/readyz",
      describe: {
        summary: "Ready to serve, with the state of each part",
        tag: "Probes",
        answers: [
          { status: 200, description: "Every part is ready.", content: { schema: ready } },
          { status: 503, description: "Some part is not.", content: { schema: ready } },
        ],
      },
      async handle() {
        const parts = await readiness();
        const ready = Object.values(parts).every((part) => part.ready);
        const data = { status: ready ? "ready" : "not ready", parts };
        return envelope({ status: ready ? 200 : 503, data }, clock.now());
      },
    },
  ];
}
