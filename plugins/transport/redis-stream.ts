/** The Redis stream transport adds each delivery to a stream with XADD. It uses ioredis, with every wait bounded. */
import { checkedUrl, optional, secretUrl, whole } from "../../core/ports/options.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import { tlsRule } from "../../core/ports/tls-files.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { busPlugin } from "./buses/plugin.ts";
import type { ToRedisStreamOptions } from "./redis-stream/transport.ts";

const PROTOCOLS = ["redis:", "rediss:"];

/**
 * Delivers to `redis-stream:` URLs: `redis-stream://<name>/deposits` is the stream `deposits`. An entry has the signed
 * headers as fields, named as they are, and the exact body in the field `event`, which `fromRedisStream()` reads. The
 * answer to XADD makes it delivered: what that is worth on a disk is the server's setting.
 */
export const toRedisStream = (options: ToRedisStreamOptions): Plugin<"transport", Transport> =>
  busPlugin({
    scheme: "redis-stream",
    options,
    rules: {
      url: secretUrl(PROTOCOLS, true),
      maxLen: optional(whole(1)),
      tls: tlsRule(),
    },
    secrets: { url: options?.url },
    async open(options, context) {
      const url = checkedUrl("toRedisStream", context.secret("url"), PROTOCOLS, true);
      const { RedisStreamBus } = await import("./redis-stream/transport.ts");
      return new RedisStreamBus(options, context, url).connect();
    },
  });
