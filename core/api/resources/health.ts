/** The probes: `/healthz` (the process runs) and `/readyz` (it can serve). */
import { z } from "zod";
import { isoTime } from "../../lib/time.ts";
import { withoutAddresses } from "../../lib/without-addresses.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Route } from "../../ports/route.ts";
import { envelope } from "../http/reply.ts";
import { meta } from "./fields.ts";

/** One part of the relay, as `/readyz` shows it. */
export interface HealthPart {
  readonly ready: boolean;
  /** Says in a few words why it is not ready. Nothing secret: anyone may ask. */
  readonly state?: string;
  /** False: the relay serves without it, and is degraded. @default true */
  readonly required?: boolean;
}

/** Returns true when the relay can serve: every part that it needs is ready. */
export const isReady = (parts: Readonly<Record<string, HealthPart>>): boolean =>
  Object.values(parts).every((part) => part.ready || part.required === false);

/** Called at every probe. It must answer soon. */
type Readiness = () => Promise<Readonly<Record<string, HealthPart>>> | Readonly<Record<string, HealthPart>>;

const time = z.iso.datetime();
const health = z.strictObject({ status: z.string(), startedAt: time }).meta({ id: "Health" });
const alive = z.strictObject({ data: health, meta });
const parts = z.record(
  z.string(),
  z.strictObject({ ready: z.boolean(), state: z.string().optional(), required: z.boolean().optional() }),
);
const status = z.enum(["ready", "degraded", "not ready"]);
const readiness = z.strictObject({ status, parts }).meta({ id: "Readiness" });
const ready = z.strictObject({ data: readiness, meta });

/** Anyone may ask: what a driver says of its server is shown without addresses. The log has them. */
function shown(parts: Readonly<Record<string, HealthPart>>): Readonly<Record<string, HealthPart>> {
  const all = Object.entries(parts).map(([name, { state, ...part }]) => [
    name,
    { ...part, ...(state !== undefined && { state: withoutAddresses(state) }) },
  ]);
  return Object.fromEntries(all) as Record<string, HealthPart>;
}

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
      describe: {
        operationId: "getHealth",
        summary: "Alive",
        tag: "Probes",
        answers: [{ status: 200, content: { schema: alive } }],
      },
      handle: async () => envelope({ data: { status: "ok", startedAt: isoTime(startedAt) } }, clock.now()),
    },
    {
      method: "GET",
      path: "/readyz",
      describe: {
        operationId: "getReadiness",
        summary: "Ready to serve, with the state of each part",
        tag: "Probes",
        answers: [
          {
            status: 200,
            description:
              "Every part is ready; or `degraded`: some source or transport is not, and the relay serves without it.",
            content: { schema: ready },
          },
          { status: 503, description: "A part that the relay needs is not ready.", content: { schema: ready } },
        ],
      },
      async handle() {
        const parts = shown(await readiness());
        const ready = isReady(parts);
        const whole = Object.values(parts).every((part) => part.ready);
        const data = { status: whole ? "ready" : ready ? "degraded" : "not ready", parts };
        return envelope({ status: ready ? 200 : 503, data }, clock.now());
      },
    },
  ];
}
