/** Transforms that fail, take long, hang and ask to wait, until all is well; and a book of the runs that failed. */
import { transformFailed } from "../../core/deliver/send.ts";
import type { Transforms } from "../../core/runtime/transforms/transforms.ts";
import type { Seen } from "./network.ts";
import { DEADLINE_MS } from "./schedule.ts";
import { GENESIS, type Life, type World } from "./world.ts";

/** The name that subscriptions give. */
export const TRANSFORM = "sim";
const SLOW_MS = 5_000;
const BUSY_MS = 3_000;
const HEAD = '{"made":true,"of":';

export const transformed = (body: string): string => `${HEAD}${body}}`;

/** The body that was published, where a transform has made this one. */
export const untransformed = (body: string): string | undefined =>
  body.startsWith(HEAD) ? body.slice(HEAD.length, -1) : undefined;

export interface SimTransforms {
  /** True while runs may fail. */
  hostile: boolean;
  /** Runs that failed; `sentAt` is when they ended. */
  readonly failed: Seen[];
  /** An attempt begins with the run of its transform. */
  begun(sent: readonly Seen[]): readonly Seen[];
  of(life: Life): Transforms;
}

export function simTransforms(world: World): SimTransforms {
  const { random, say } = world;
  const begun = new Map<string, number>();
  const made: SimTransforms = {
    begun: (sent) =>
      sent.map((one) => {
        const from = begun.get(`${one.node.name} ${one.subscriptionId} ${one.eventId} ${one.cycle} ${one.number}`);
        return from === undefined || one.thawedAt === one.sentAt ? one : { ...one, sentAt: Math.min(from, one.sentAt) };
      }),
    hostile: true,
    failed: [],
    of: (life) => ({
      names: () => [TRANSFORM],
      reload: () => undefined,
      stop: () => Promise.resolve(),
      async transform({ id }, { event }, turn, signal) {
        signal.throwIfAborted();
        const { clock } = life;
        const startedAt = clock.now();
        const from = world.now();
        begun.set(`${life.name} ${id} ${event.id} ${turn.cycle} ${turn.number}`, from);
        const mood = made.hostile
          ? random.pick(["well", "well", "failing", "slow", "hanging", "busy"] as const)
          : "well";
        if (mood === "busy") return random.next() * BUSY_MS;
        if (mood === "slow") await clock.sleep(clock.now() + random.next() * SLOW_MS, signal);
        if (mood === "hanging") await clock.sleep(clock.now() + DEADLINE_MS, signal);
        if (mood === "well" || mood === "slow") return { event, body: Buffer.from(transformed(event.body)) };
        const now = world.now();
        made.failed.push({
          ...{ subscriptionId: id, eventId: event.id, ...turn, headers: {}, body: event.body, node: life },
          ...{ sentAt: now, thawedAt: life.frozenUntil(), offset: clock.now() - GENESIS - now },
        });
        say(`${life.name}: the transform of ${event.id} for ${id.slice(4, 10)} is ${mood}`);
        return transformFailed(turn, mood, { startedAt, durationMs: now - from });
      },
    }),
  };
  return made;
}
