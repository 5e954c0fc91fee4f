/** `fromRedisStream({ url, stream, group })` reads a Redis stream as a member of a consumer group. */
import type { FieldError } from "../../core/model/problem.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { checkedUrl, countProblems, messageProblems, textProblems, urlProblems } from "./messages/options.ts";
import { messageSource } from "./messages/plugin.ts";
import type { FromRedisStreamOptions } from "./redis-stream/options.ts";

export type { FromRedisStreamOptions } from "./redis-stream/options.ts";

const OWN = ["url", "stream", "group", "consumer", "dead", "claimAfterMs", "maxInFlight", "tls"];
const PROTOCOLS = ["redis:", "rediss:"];

/**
 * Publishes the field `event` of each entry of a stream. An entry is acknowledged (XACK) once its events are stored, and
 * stays in the stream. What a dead consumer left is taken over (XAUTOCLAIM). Redis 6.2 or newer.
 */
export function fromRedisStream(options: FromRedisStreamOptions): Plugin<"source", Source> {
  const url = (options as FromRedisStreamOptions | undefined)?.url;
  return messageSource({
    kind: "redisStream",
    options,
    problems: problemsOf(options),
    secrets: { url },
    async open(options, ctx) {
      const url = checkedUrl("fromRedisStream()", ctx.secret("url"), PROTOCOLS);
      const { startRedisStream } = await import("./redis-stream/source.ts");
      return startRedisStream(ctx, options, url);
    },
  });
}

function problemsOf(options: FromRedisStreamOptions | undefined): readonly FieldError[] {
  const { url, stream, group, consumer, dead, claimAfterMs, maxInFlight } = options ?? ({} as FromRedisStreamOptions);
  return [
    ...messageProblems(options, OWN),
    ...urlProblems("url", url, PROTOCOLS),
    ...textProblems("stream", stream, "the key of a stream"),
    ...textProblems("group", group, "the name of a group", true),
    ...textProblems("consumer", consumer, "a name", true),
    ...textProblems("dead", dead, "the key of a stream", true),
    ...countProblems("claimAfterMs", claimAfterMs, 1_000, 86_400_000),
    ...countProblems("maxInFlight", maxInFlight, 1, 10_000),
  ];
}
