/** The Redis stream transport adds each delivery to a stream with XADD. It uses ioredis, with every wait bounded. */
import { unknownOptions } from "../../core/model/field-errors.ts";
import type { FieldError } from "../../core/model/problem.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { nameProblems } from "./buses/destination.ts";
import { checkedUrl, urlProblems } from "./buses/secret-url.ts";
import { tlsFileProblems, tlsProblems } from "./buses/tls-files.ts";
import type { ToRedisStreamOptions } from "./redis-stream/options.ts";

export type { ToRedisStreamOptions } from "./redis-stream/options.ts";

const OWN: readonly (keyof ToRedisStreamOptions)[] = ["name", "url", "maxLen", "tls"];

const SCHEMES = ["redis", "rediss"];
/**
 * Delivers to `redis-stream:` URLs: `redis-stream://<name>/deposits` is the stream `deposits`. An entry has the signed
 * headers as fields, named as they are, and the exact body in the field `event`, which `fromRedisStream()` reads. The
 * answer to XADD makes it delivered: what that is worth on a disk is the server's setting.
 */
export const toRedisStream = (options: ToRedisStreamOptions): Plugin<"transport", Transport> => ({
  kind: "transport",
  name: `redis-stream:${options?.name}`,
  problems: [...problemsOf(options ?? {}), ...unknownOptions(options ?? {}, OWN)],
  secrets: { url: options?.url },
  fileProblems: (configDir) => tlsFileProblems(`redis-stream:${options?.name}`, options?.tls, configDir),
  async setup(context) {
    const url = checkedUrl("toRedisStream", context.secret("url"), SCHEMES);
    const { openRedisStream } = await import("./redis-stream/transport.ts");
    return openRedisStream(options, context, url);
  },
});

function problemsOf({ name, url, maxLen = 1, tls }: Partial<ToRedisStreamOptions>): readonly FieldError[] {
  const problems = [...nameProblems(name), ...urlProblems("url", url, SCHEMES), ...tlsProblems(tls)];
  if (!Number.isSafeInteger(maxLen) || maxLen < 1)
    problems.push({ path: "maxLen", message: "must be a whole number, 1 or more" });
  return problems;
}
