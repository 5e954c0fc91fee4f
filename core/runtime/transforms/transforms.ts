/** Runs the transforms of the config for deliveries: shares a few workers among the subscriptions, and judges each run. */
import { transformFailed, type SentAttempt, type Transforming } from "../../deliver/send.ts";
import type { TransformLimits } from "../../model/transform.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log, Metrics } from "../../ports/plugin.ts";
import { shortened } from "./run.ts";
import { Turns, type TransformTurn } from "./turns.ts";
import { type RunEnd, type RunInput, type SpawnTransforms, TransformWorker } from "./worker.ts";

/** A subscription pays this much for a process that has to be started again, ms. */
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

/** The transforms as the path knows them. */
export type Transforms = Pick<TransformPool, keyof TransformPool>;

export class TransformPool {
  readonly #deps: TransformsDeps;
  readonly #workers: readonly TransformWorker[];
  readonly #idle: TransformWorker[];
  readonly #turns: Turns<Job>;
  #names: ReadonlySet<string>;
  /** Monotonic time until which no run is tried. */
  #unreadyUntil = 0;
  #stopped = false;

  constructor(deps: TransformsDeps) {
    this.#deps = deps;
    const { workers } = deps.limits;
    this.#workers = Array.from({ length: workers }, () => new TransformWorker(deps));
    this.#idle = [...this.#workers];
    this.#turns = new Turns<Job>(workers, Math.max(4, Math.min(64, Math.floor(deps.concurrency / 8))));
    this.#names = new Set(deps.names);
  }

  /** Names that the config has now. */
  names(): readonly string[] {
    return [...this.#names];
  }

  /** Takes over the names of a config that was read again. Runs from now on are by that config. */
  reload(names: readonly string[]): void {
    this.#names = new Set(names);
    this.#unreadyUntil = 0;
    for (const worker of this.#workers) worker.retire();
  }

  /** Ends every process; runs that wait or are under way fail. */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const job of this.#turns.drain()) job.done({ kind: "unready", detail: "the relay stops" });
    await Promise.all(this.#workers.map((worker) => worker.stop()));
  }

  readonly transform: Transforming = async (sub, { event }, turn, signal) => {
    const { clock, metrics, hide } = this.#deps;
    signal.throwIfAborted();
    const name = sub.transform as string;
    if (!this.#names.has(name)) {
      metrics.count("transforms", { result: "unknown" });
      return unknown(name, turn, clock);
    }
    const unready = this.#unreadyUntil - clock.monotonic();
    if (unready > 0 || this.#stopped) return Math.max(unready, 1_000);
    const input = { name, body: event.body, context: { subscriptionId: sub.id } };
    const end = await this.#run(sub.id, input, signal);
    if (typeof end === "number") return end;
    if (end.kind === "unready") return UNREADY_MS;
    metrics.count("transforms", { result: end.kind });
    metrics.observe("transform_seconds", end.ms / 1_000);
    if (end.kind === "made") return { event, body: Buffer.from(end.text, "utf8") };
    return transformFailed(turn, shortened(hide(`${name} ${end.detail}`)), {
      startedAt: Math.round(clock.now() - end.ms),
      durationMs: Math.round(end.ms * 10) / 10,
    });
  };

  /** @returns how the run ended, or how long to wait, ms @throws the signal's reason */
  #run(subscriptionId: string, input: RunInput, signal: AbortSignal): Promise<RunEnd | number> {
    return new Promise((resolve, reject) => {
      const aborted = (): void => {
        this.#turns.leave(job);
        reject(signal.reason as Error);
      };
      const job: Job = {
        ...input,
        done(end) {
          signal.removeEventListener("abort", aborted);
          resolve(end);
        },
      };
      const ms = this.#turns.join(subscriptionId, input.name, job);
      if (ms !== undefined) return resolve(ms);
      signal.addEventListener("abort", aborted, { once: true });
      this.#pump();
    });
  }

  #pump(): void {
    while (!this.#stopped) {
      const turn = this.#turns.next(this.#deps.clock.monotonic());
      if (turn === undefined) return;
      void this.#serve(turn);
    }
  }

  async #serve(turn: TransformTurn<Job>): Promise<void> {
    const { clock, log, metrics, hide } = this.#deps;
    // One that has loaded the config, if there is one: another is only started when this is not enough.
    const at = this.#idle.findLastIndex(({ ready }) => ready);
    const [worker] = this.#idle.splice(at < 0 ? this.#idle.length - 1 : at, 1) as [TransformWorker];
    let end = await worker.run(turn.job);
    // Something that an earlier run left behind, such as a timer that never ends, may have been the cause: it is not blamed on
    // this one.
    if (endedProcess(end) && !end.fresh && !this.#stopped) {
      metrics.count("transforms", { result: "again" });
      end = await worker.run(turn.job);
    }
    if (end.kind === "unready") {
      this.#unreadyUntil = clock.monotonic() + UNREADY_MS;
      if (!this.#stopped)
        log.error("the transforms of the config cannot be loaded", { error: shortened(hide(end.detail)) });
    }
    const ended = endedProcess(end);
    if (ended) worker.prepare();
    this.#idle.push(worker);
    this.#turns.ended(turn, end.kind === "unready" ? 0 : end.ms + (ended ? RESTART_MS : 0));
    turn.job.done(end);
    this.#pump();
  }
}
