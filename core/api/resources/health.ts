/** The probes: alive at all, and ready to serve. */
import { isoTime } from "../../model/time.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Route } from "../../ports/plugin.ts";
import { envelope } from "../http/reply.ts";

/** One part of the relay, as `/readyz` shows it. */
export interface HealthPart {
  readonly ready: boolean;
  /** One word or two for people: why not. Nothing secret: anyone may ask. */
  readonly state?: string;
}

/** Asked at every probe; must answer soon. */
export type Readiness = () => Promise<Readonly<Record<string, HealthPart>>> | Readonly<Record<string, HealthPart>>;

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
      handle: async () => envelope({ data: { status: "ok", startedAt: isoTime(startedAt) } }, clock.now()),
    },
    {
      method: "GET",
      path: "/readyz",
      async handle() {
        const parts = await readiness();
        const ready = Object.values(parts).every((part) => part.ready);
        const data = { status: ready ? "ready" : "not ready", parts };
        return envelope({ status: ready ? 200 : 503, data }, clock.now());
      },
    },
  ];
}
