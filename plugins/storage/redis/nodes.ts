/** Messages between nodes: one asks, the others act and confirm. Lost messages are repeated; dead nodes are not waited for. */
import { setNewest } from "../../../core/lib/bounded-map.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Nodes } from "../../../core/ports/storage.ts";
import type { Calls } from "./calls.ts";
import { inRedis } from "./lua.ts";
import type { TimeArgument } from "./time-argument.ts";

/** now, node → the epoch. */
const ALIVE = inRedis(`
evenWhenFull()
noteClock()
call('ZADD', P .. ':nodes', now, ARGV[2])
call('ZREMRANGEBYSCORE', P .. ':nodes', '-inf', now - 60000)
return epochNow('any')
`);
/** now, node, silent ms, text or empty → the other live nodes, which get the text. */
const ASK = inRedis(`
local others = {}
for _, one in ipairs(call('ZRANGEBYSCORE', P .. ':nodes', now - tonumber(ARGV[3]), '+inf')) do
  if one ~= ARGV[2] then others[#others + 1] = one end
end
if #others > 0 and ARGV[4] ~= '' then
  call('PUBLISH', P .. ':words', epochNow('any') .. ' ' .. ARGV[4])
end
return others
`);

/** A question without an answer is repeated after this, ms: it may have been lost. */
const AGAIN_MS = 400;
/** A node that was silent for this long does not count, ms. */
const SILENT_MS = 5_000;
/** Most answers remembered, for repeated questions. */
const REMEMBERED = 1_000;
/** Takes the place of an epoch where there is none. */
export const NO_EPOCH = "0";

/** A question has a word; an answer has its recipient. */
export interface Message {
  readonly id: string;
  readonly from: string;
  readonly to?: string;
  readonly word?: string;
}

export interface NodesOnRedis extends Nodes {
  /** Gives a sign of life. @returns the epoch of Redis */
  alive(): Promise<string>;
  /** Handles a message of the channel between nodes. */
  heard(message: Message): void;
  /** Returns how many nodes live, this one included. */
  count(): Promise<number>;
  /** Deregisters this node: nobody waits for it any more. */
  leave(): Promise<void>;
}

export function nodes(
  calls: Calls,
  tag: string,
  clock: Clock,
  node: string,
  { now, noted }: TimeArgument,
): NodesOnRedis {
  const actors = new Set<(word: string) => Promise<unknown>>();
  /** Our open questions: who has answered, and what to call then. */
  const open = new Map<string, { readonly answered: Set<string>; changed: () => void }>();
  /** The work of our actors, under way or done, for questions of other nodes. */
  const acted = new Map<string, Promise<unknown>>();
  let asked = 0;

  const liveNodes = (silentMs: number, message?: Message): Promise<readonly string[]> =>
    calls.run(ASK, [now(), node, silentMs, message === undefined ? "" : JSON.stringify(message)]) as Promise<
      readonly string[]
    >;

  async function act({ id, from, word = "" }: Message): Promise<void> {
    const acting = acted.get(id) ?? Promise.allSettled([...actors].map((actor) => actor(word)));
    setNewest(acted, id, acting, REMEMBERED);
    await acting;
    const answer: Message = { id, from: node, to: from };
    await calls.ask((client) => client.publish(`${tag}:words`, `${NO_EPOCH} ${JSON.stringify(answer)}`));
  }

  return {
    async alive() {
      const sentAt = clock.monotonic();
      const epoch = await calls.run(ALIVE, [now(), node]);
      noted(sentAt);
      return String(epoch);
    },
    count: async () => (await liveNodes(SILENT_MS)).length + 1,
    async leave() {
      await calls.ask((client) => client.zrem(`${tag}:nodes`, node)).catch(() => {});
    },
    heard({ id, from, to, word }) {
      if (to === node) {
        const question = open.get(id);
        question?.answered.add(from);
        question?.changed();
      } else if (to === undefined && from !== node) {
        // The asking node repeats its question when an answer is lost.
        act({ id, from, word }).catch(() => {});
      }
    },
    answer(actor) {
      actors.add(actor);
      return () => void actors.delete(actor);
    },
    async ask(word, { mostMs, silentMs }) {
      const id = `${node}.${(++asked).toString(36)}`;
      const question = { answered: new Set<string>(), changed: (): void => {} };
      open.set(id, question);
      const until = clock.monotonic() + mostMs;
      try {
        for (;;) {
          const asking = await liveNodes(silentMs, { id, from: node, word });
          const missing = (): boolean => asking.some((one) => !question.answered.has(one));
          if (!missing()) return true;
          const over = new AbortController();
          question.changed = () => void (missing() || over.abort());
          const left = until - clock.monotonic();
          await clock.sleep(clock.now() + Math.min(AGAIN_MS, left), over.signal).catch(() => {});
          if (!missing()) return true;
          if (clock.monotonic() >= until) return false;
        }
      } finally {
        open.delete(id);
      }
    },
  };
}
