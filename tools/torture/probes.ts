// Two receivers that never change their mood: one that is always well, and must not be held up by the others; and one that
// always fails, by which the retry schedule, the end after the last attempt and the replay of what failed are seen.
import type { Operator } from "./operator.ts";
import { sleep } from "./process.ts";
import type { Publisher } from "./publisher.ts";
import type { Kind, Published } from "./publications.ts";
import type { Receivers } from "./receivers.ts";
import type { Subject } from "./subject.ts";
import type { Timeline } from "./timeline.ts";

export interface Probes {
  readonly failing: Subject;
  /** Publishes to both at a steady pace until `finish`. */
  begin(): void;
  finish(): Promise<void>;
  /** All others hang for a while, and events for the one that is well come all the same. Needs a time without faults. */
  hostile(): Promise<void>;
  /** Replays what failed; from now on both are well. */
  replay(): Promise<void>;
  /** How long events waited for the receiver that is well while nothing disturbed it, ms, shortest first. */
  waits(): readonly number[];
  /** The same while all others hung. */
  readonly hostileWaits: readonly number[];
  readonly violations: () => readonly string[];
}

const WELL: Kind = { keyId: "key:well", type: "p:well" };
const FAILING: Kind = { keyId: "key:failing", type: "p:failing" };
/** While nothing disturbs it, a healthy receiver has its event by then, however many others are hostile. */
const HELD_UP_MS = 10_000;
/** A relay in which all is well again replays what failed within this. */
const REPLAY_MS = 60_000;
/** However long an event waits undisturbed, it waits no longer than so many times that, and this, while all others hang. */
const HOSTILE_TIMES = 10;
const HOSTILE_MS = 1_000;
const HOSTILE = { settleMs: 2_500, probes: 12, apartMs: 150, longestMs: 30_000 };

export interface ProbesOptions {
  readonly operator: Operator;
  readonly publisher: Publisher;
  readonly receivers: Receivers;
  readonly timeline: Timeline;
  /** How often each is published to, ms. */
  readonly paceMs: { readonly well: number; readonly failing: number };
}

export async function openProbes(options: ProbesOptions): Promise<Probes> {
  const { operator, publisher, receivers, timeline, paceMs } = options;
  const well = await operator.make(WELL, true, true);
  const failing = await operator.make(FAILING, true);
  failing.mood = "failing";
  well.moody = failing.moody = 0;
  const sent: Published[] = [];
  const failed: Published[] = [];
  const hostileWaits: number[] = [];
  const broken: string[] = [];
  let ending = false;
  let working: Promise<unknown> = Promise.resolve();

  async function publish(kind: Kind, ms: number, noted: Published[]): Promise<void> {
    while (!ending) {
      const event = await publisher.one(kind);
      if (event !== undefined) noted.push(event);
      for (let left = ms; left > 0 && !ending; left -= 100) await sleep(Math.min(100, left));
    }
  }

  const arrival = (event: Published): number | undefined => {
    const [id = ""] = event.accepted;
    return well.book.get(id)?.requests.get("0/1")?.[0];
  };

  /** Undefined when a fault came between, or it never arrived. */
  function wait(event: Published): number | undefined {
    const at = arrival(event);
    const { acceptedAt } = event;
    if (at === undefined || acceptedAt === undefined) return undefined;
    // Moods of other receivers are no excuse.
    const disturbed = timeline.within(acceptedAt - 500, at).some(({ name }) => name !== "receivers");
    return disturbed ? undefined : Math.max(0, at - acceptedAt);
  }

  const waits = (): readonly number[] => sent.flatMap((event) => wait(event) ?? []).sort((a, b) => a - b);

  return {
    failing,
    hostileWaits,
    begin() {
      working = Promise.all([publish(WELL, paceMs.well, sent), publish(FAILING, paceMs.failing, failed)]);
    },
    async finish() {
      ending = true;
      await working;
    },
    async hostile() {
      const others = receivers.subjects.filter((one) => one !== well && one !== failing);
      for (const one of others) one.mood = "hanging";
      await sleep(HOSTILE.settleMs);
      const published: Published[] = [];
      for (let i = 0; i < HOSTILE.probes; i++) {
        const event = await publisher.one(WELL);
        if (event !== undefined) published.push(event);
        await sleep(HOSTILE.apartMs);
      }
      const until = performance.now() + HOSTILE.longestMs;
      while (performance.now() < until && published.some((event) => arrival(event) === undefined)) await sleep(50);
      const now = performance.now();
      for (const event of published) hostileWaits.push(Math.max(0, (arrival(event) ?? now) - (event.acceptedAt ?? 0)));
      hostileWaits.sort((a, b) => a - b);
      const [alone, among] = [middle(waits()), middle(hostileWaits)];
      if (among > HOSTILE_MS + HOSTILE_TIMES * alone)
        broken.push(
          `an event waits ${Math.round(among)} ms for a healthy receiver while all others hang, ${Math.round(alone)} ms otherwise`,
        );
    },
    async replay() {
      failing.mood = "well";
      if (failed.length === 0) return;
      let replayed: number | undefined;
      for (const until = performance.now() + REPLAY_MS; replayed === undefined && performance.now() < until;) {
        replayed = await operator.replayFailed(failing);
        if (replayed === undefined) await sleep(250);
      }
      if (replayed === undefined || replayed < failed.length)
        broken.push(`${failed.length} events failed for good at ${failing.number}, and ${replayed} were replayed`);
    },
    waits,
    violations: () => [
      ...broken,
      ...sent.flatMap((event) => {
        const ms = wait(event);
        const [id] = event.accepted;
        return ms !== undefined && ms > HELD_UP_MS ? [`${id} was held up for ${Math.round(ms)} ms by others`] : [];
      }),
    ],
  };
}

/** The middle one of a sorted list; 0 when it is empty. */
export const middle = (sorted: readonly number[]): number => sorted[sorted.length >> 1] ?? 0;
