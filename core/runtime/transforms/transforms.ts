/** Runs the transforms of the config for deliveries: shares a few workers among the subscriptions, and judges each run. */
import { transformFailed, type SentAttempt, type Transforming } from "../../deliver/send.ts";
import type { TransformLimits } from "../../model/transform.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log, Metrics } from "../../ports/plugin.ts";
import { shortened } from "./run.ts";
import { Turns, type TransformTurn } from "./turns.ts";
import { createTransformWorker, type RunEnd, type RunInput, type SpawnTransforms } from "./worker.ts";

export interface Transforms {
  readonly transform: Transforming;
  /** Names that the config has now. */
  names(): readonly string[];
  /** Takes over the names of a config that was read again. Runs from now on are by that config. */
  reload(names: readonly string[]): void;
  /** Ends every process; runs that wait or are under way fail. */
  stop(): Promise<void>;
}

/** What a subscription pays for a process that has to be started again, ms. */
const RESTART_MS = 500;
/** How long the subscriptions with a transform wait when the config cannot be loaded, ms. */
const UNREADY_MS = 10_000;

interface Job extends RunInput {
  readonly done: (end: RunEnd) => void;
}

/** @param transforms `undefined` where the config has none: then each name is unknown */
export function transforming(transforms: Pick<Transforms, "transform"> | undefined, clock: Clock): Transforming {
  if (transforms !== undefined) return transforms.transform;
  return ({ transform = "" }, _, turn) => Promise.resolve(unknown(transform, turn, clock));
}

const unknown = (name: string, turn: Parameters<Transforming>[2], clock: Clock): SentAttempt =>
  transformFailed(turn, `${name} is not in the config any more`, { startedAt: clock.now(), durationMs: 0 });

const endedProcess = (end: RunEnd): end is Extract<RunEnd, { fresh: boolean }> => "fresh" in end;

interface TransformsDeps {
  readonly spawn: SpawnTransforms;
  readonly names: readonly string[];
  readonly limits: TransformLimits;
  /** Most deliveries under way at once, of which those that wait for a transform are an eighth. */
  readonly concurrency: number;
  /** The text with every secret of the config masked. */
  readonly hide: (text: string) => string;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

export function createTransforms(deps: TransformsDeps): Transforms {
  const { spawn, limits, clock, log, metrics, hide } = deps;
  const workers = Array.from({ length: limits.workers }, () => createTransformWorker({ spawn, limits, clock }));
  const idle = [...workers];
  const turns = new Turns<Job>(limits.workers, Math.max(4, Math.min(64, Math.floor(deps.concurrency / 8))));
  let names: ReadonlySet<string> = new Set(deps.names);
  /** Monotonic time until which no run is tried. */
  let unreadyUntil = 0;
  let stopped = false;

  function pump(): void {
    while (!stopped) {
      const turn = turns.next(clock.monotonic());
      if (turn === undefined) return;
      void serve(turn);
    }
  }

  async function serve(turn: TransformTurn<Job>): Promise<void> {
    // One that has loaded the config, if there is one: another is only started when this is not enough.
    const at = idle.findLastIndex(({ ready }) => ready);
    const [worker] = idle.splice(at < 0 ? idle.length - 1 : at, 1) as [(typeof workers)[number]];
    let end = await worker.run(turn.job);
    // What an earlier run left behind, such as a timer that never ends, may have been the cause: it is not blamed on
    // this one.
    if (endedProcess(end) && !end.fresh && !stopped) {
      metrics.count("transforms", { result: "again" });
      end = await worker.run(turn.job);
    }
    if (end.kind === "unready") {
      unreadyUntil = clock.monotonic() + UNREADY_MS;
      if (!stopped) log.error("the transforms of the config cannot be loaded", { error: shortened(hide(end.detail)) });
    }
    const ended = endedProcess(end);
    if (ended) worker.prepare();
    idle.push(worker);
    turns.ended(turn, end.kind === "unready" ? 0 : end.ms + (ended ? RESTART_MS : 0));
    turn.job.done(end);
    pump();
  }

  /** @returns how the run ended, or how long to wait, ms @throws the signal's reason */
  function run(subscriptionId: string, input: RunInput, signal: AbortSignal): Promise<RunEnd | number> {
    return new Promise((resolve, reject) => {
      const aborted = (): void => {
        turns.leave(job);
        reject(signal.reason as Error);
      };
      const job: Job = {
        ...input,
        done(end) {
          signal.removeEventListener("abort", aborted);
          resolve(end);
        },
      };
      const ms = turns.join(subscriptionId, input.name, job);
      if (ms !== undefined) return resolve(ms);
      signal.addEventListener("abort", aborted, { once: true });
      pump();
    });
  }

  const transform: Transforming = async (sub, { event }, turn, signal) => {
    signal.throwIfAborted();
    const name = sub.transform as string;
    const failed = (detail: string, durationMs: number): SentAttempt => {
      const startedAt = clock.now() - durationMs;
      return transformFailed(turn, shortened(hide(`${name} ${detail}`)), {
        startedAt: Math.round(startedAt),
        durationMs: Math.round(durationMs * 10) / 10,
      });
    };
    if (!names.has(name)) {
      metrics.count("transforms", { result: "unknown" });
      return unknown(name, turn, clock);
    }
    const unready = unreadyUntil - clock.monotonic();
    if (unready > 0 || stopped) return Math.max(unready, 1_000);
    const input = { name, body: event.body, context: { subscriptionId: sub.id } };
    const end = await run(sub.id, input, signal);
    if (typeof end === "number") return end;
    if (end.kind === "unready") return UNREADY_MS;
    metrics.count("transforms", { result: end.kind });
    metrics.observe("transform_seconds", end.ms / 1_000);
    if (end.kind !== "made") return failed(end.detail, end.ms);
    return { event, body: Buffer.from(end.text, "utf8") };
  };

  return {
    transform,
    names: () => [...names],
    reload(next) {
      names = new Set(next);
      unreadyUntil = 0;
      for (const worker of workers) worker.retire();
    },
    async stop() {
      stopped = true;
      for (const job of turns.drain()) job.done({ kind: "unready", detail: "the relay stops" });
      await Promise.all(workers.map((worker) => worker.stop()));
    },
  };
}
