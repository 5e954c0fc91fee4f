/** `fromRedisStream({ url, stream, group })` reads a Redis stream as a member of a consumer group. */
import { anything, optional, text, whole } from "../../core/ports/options.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { messageSource } from "./messages/plugin.ts";
import type { FromRedisStreamOptions } from "./redis-stream/source.ts";

/**
 * Publishes the field `event` of each entry of a stream. An entry is acknowledged (XACK) once its events are stored, and
 * stays in the stream. What a dead consumer left is taken over (XAUTOCLAIM). Redis 6.2 or newer.
 */
export function fromRedisStream(options: FromRedisStreamOptions): Plugin<"source", Source> {
  return messageSource({
    factory: "fromRedisStream",
    kind: "redisStream",
    options,
    protocols: ["redis:", "rediss:"],
    rules: {
      stream: text("the key of a stream"),
      group: optional(text("the name of a group")),
      consumer: optional(text("a name")),
      dead: optional(text("the key of a stream")),
      claimAfterMs: optional(whole(1_000, 86_400_000)),
      maxInFlight: optional(whole(1, 10_000)),
      tls: anything,
    },
    async open(ctx, options, url) {
      const { startRedisStream } = await import("./redis-stream/source.ts");
      return startRedisStream(ctx, options, url);
    },
  });
}
