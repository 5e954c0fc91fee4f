/** Messages between nodes: one asks, the others act and confirm. Lost messages are repeated; dead nodes are not waited for. */
import { setNewest } from "../../../core/model/bounded-map.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Nodes } from "../../../core/ports/storage.ts";
import { type Calls, script } from "./calls.ts";
import { NO_EPOCH } from "./channel.ts";
import { inRedis } from "./lua.ts";
import type { TimeArgument } from "./time-argument.ts";

/** now, node → the epoch. */
const ALIVE = script(
  inRedis(`
evenWhenFull()
noteClock()
call('ZADD', P .. ':nodes', now, ARGV[2])
call('ZREMRANGEBYSCORE', P .. ':nodes', '-inf', now - 60000)
return epochNow('any')
`),
);
/** now, node, silent ms, text or empty → the other live nodes, which get the text. */
const ASK = script(
  inRedis(`
local others = {}
for _, one in ipairs(call('ZRANGEBYSCORE', P .. ':nodes', now - tonumber(ARGV[3]), '+inf')) do
  if one ~= ARGV[2] then others[#others + 1] = one end
end
if #others > 0 and ARGV[4] ~= '' then
  call('PUBLISH', P .. ':words', epochNow('any') .. ' ' .. ARGV[4])
end
return others
`),
);

/** A question without an answer is repeated after this, ms: it may have been lost. */
const AGAIN_MS = 400;
/** A node that was silent for this long does not count, ms. */
const SILENT_MS = 5_000;
/** Most answers remembered, for repeated questions. */
const REMEMBERED = 1_000;
const SAID = { repeatable: true, changes: false };

/** A question has a word; an answer has its recipient. */
interface Message {
  readonly id: string;
  readonly from: string;
  readonly to?: string;
  readonly word?: string;
}

interface NodesOnRedis extends Nodes {
  /** Gives a sign of life. @returns the epoch of Redis */
  alive(): Promise<string>;
  /** Handles a message of the channel between nodes. */
  heard(text: string): void;
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
  /** Questions of other nodes: under way, or done. */
  const acted = new Map<string, "under way" | "done">();
  let asked = 0;

  const liveNodes = (silentMs: number, message?: Message): Promise<readonly string[]> =>
    calls.run(ASK, [now(), node, silentMs, message === undefined ? "" : JSON.stringify(message)], SAID) as Promise<
      readonly string[]
    >;

  async function act({ id, from, word = "" }: Message): Promise<void> {
    const before = acted.get(id);
    if (before === "under way") return;
    if (before === undefined) {
      acted.set(id, "under way");
      await Promise.allSettled([...actors].map((actor) => actor(word)));
      setNewest(acted, id, "done", REMEMBERED);
    }
    const answer: Message = { id, from: node, to: from };
    await calls.ask((client) => client.publish(`${tag}:words`, `${NO_EPOCH} ${JSON.stringify(answer)}`), SAID);
  }

  return {
    async alive() {
      const sentAt = clock.monotonic();
      const epoch = await calls.run(ALIVE, [now(), node], SAID);
      noted(sentAt);
      return String(epoch);
    },
    count: async () => (await liveNodes(SILENT_MS)).length + 1,
    async leave() {
      await calls.ask((client) => client.zrem(`${tag}:nodes`, node), SAID).catch(() => {});
    },
    heard(text) {
      const message = readable(text);
      if (message === undefined) return;
      if (message.to === undefined) {
        // The asking node repeats its question when an answer is lost.
        if (message.from !== node) act(message).catch(() => {});
      } else if (message.to === node) {
        const question = open.get(message.id);
        question?.answered.add(message.from);
        question?.changed();
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

function readable(text: string): Message | undefined {
  try {
    const message: unknown = JSON.parse(text);
    return typeof message === "object" && message !== null ? (message as Message) : undefined;
  } catch {
    return undefined;
  }
}
