/** The source behind `cron()`, loaded only where a config names it. */
import { StartError } from "../../../core/model/errors.ts";
import { atOnce } from "../../../core/lib/at-once.ts";
import { stepsFit, tellTicks } from "../../../core/lib/ticks.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import { Intake } from "../messages/intake.ts";
import type { MappedEvent } from "../messages/message.ts";
import { messageText } from "../messages/read.ts";
import { causeOf } from "../../../core/lib/reason.ts";

interface CronEvent extends MappedEvent {
  readonly type: string;
  readonly keyId: string;
}

export interface CronOptions {
  /** Cron expression, UTC, of five fields, or of six with seconds first. */
  readonly schedule: string;
  /**
   * The event, or a function of the time of the tick that returns it, or `undefined`: none. Each of several nodes calls
   * it, and the first event counts.
   */
  readonly event: CronEvent | ((at: Date) => CronEvent | undefined);
  /**
   * Stands in metrics, the log and `/readyz`, and begins the ids of the events. Up to 32 letters, digits and `-`; each
   * schedule needs its own. @default "cron"
   */
  readonly name?: string;
}

/** Calls `tick` with the time of each tick, until what it returns is called. @throws StartError 78 for a wrong schedule */
export type Schedule = (
  schedule: string,
  tick: (at: Date) => void,
  clock: Pick<Clock, "now" | "sleep">,
) => Promise<() => Promise<void>>;

/** Ticks that wait while nothing can be stored; beyond them the newest is dropped. */
const MOST_WAITING = 1_000;

export async function startCron(
  ctx: PluginContext,
  { event, name, ...rest }: CronOptions,
  schedule: Schedule = nodeCron,
): Promise<Source> {
  // So that a wrong schedule is found before anything starts.
  await (
    await schedule(rest.schedule, () => {}, ctx.clock)
  )();
  const source = name ?? "cron";
  const { log } = ctx;
  let stopTicks: (() => Promise<void>) | undefined;
  const upstream = { stored: () => {}, setAside: () => {} };
  const intake = new Intake(ctx, { reading: { source }, maxInFlight: MOST_WAITING, firstWins: true, upstream });

  function tick(time: Date): void {
    // The second is the finest step of a schedule.
    const at = Math.floor(time.getTime() / 1_000) * 1_000;
    const when = new Date(at).toISOString().replace(".000", "");
    try {
      const made = typeof event === "function" ? atOnce("event", event(new Date(at))) : event;
      if (made === undefined) return;
      if (intake.isFull) return log.warn("a tick is dropped: too many wait", { source, tick: when });
      const place = `${name === undefined ? "" : `${name}-`}${String(made.type).replaceAll(".", ":")}-${when}`;
      const payload = messageText({ createdAt: new Date(at), ...made });
      intake.offer([{ payload, subject: source, at, place }]);
    } catch (error) {
      log.error("a tick made no event", { source, tick: when, error: causeOf(error) });
    }
  }

  return {
    async start(accept) {
      if (intake.stopping.aborted || stopTicks !== undefined) return;
      intake.start(accept);
      stopTicks = await schedule(rest.schedule, tick, ctx.clock);
    },
    async stop() {
      await stopTicks?.();
      await intake.stop();
    },
    readiness: () => intake.readiness(),
  };
}

async function nodeCron(
  schedule: string,
  tick: (at: Date) => void,
  clock: Pick<Clock, "now" | "sleep">,
): Promise<() => Promise<void>> {
  const { default: lib } = await import("node-cron");
  if (!lib.validate(schedule) || !stepsFit(schedule))
    throw new StartError(78, `schedule is no cron expression: ${schedule}`);
  const task = lib.createTask(schedule, () => undefined, { timezone: "UTC" });
  const stopping = new AbortController();
  const over = tellTicks(clock, { expression: schedule, matches: (at) => task.match(at) }, stopping.signal, tick);
  return async () => {
    stopping.abort(new Error("stopping"));
    await over;
    await task.destroy();
  };
}
