/** The other nodes on the same Redis, by their signs of life, and the messages to them. */
import type { Clock } from "../../../core/ports/clock.ts";
import type { Nodes } from "../../../core/ports/storage.ts";
import { type Message, questions } from "../shared/questions.ts";
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

/** A node that was silent for this long does not count, ms. */
const SILENT_MS = 5_000;
/** Takes the place of an epoch where there is none. */
export const NO_EPOCH = "0";

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
  const liveNodes = (silentMs: number, message?: Message): Promise<readonly string[]> =>
    calls.run(ASK, [now(), node, silentMs, message === undefined ? "" : JSON.stringify(message)]) as Promise<
      readonly string[]
    >;
  const reply = (answer: Message): Promise<unknown> =>
    calls.ask((client) => client.publish(`${tag}:words`, `${NO_EPOCH} ${JSON.stringify(answer)}`));

  return {
    ...questions(clock, node, { ask: liveNodes, reply }),
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
  };
}
