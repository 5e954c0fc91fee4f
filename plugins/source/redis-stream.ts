/** `fromRedisStream({ url, stream, group })` reads a Redis stream as a member of a consumer group. */
import type { ConnectionOptions as TlsOptions } from "node:tls";
import type { FieldError } from "../../core/model/problem.ts";
import type { SecretOption } from "../../core/model/secret-option.ts";
import type { Plugin, PluginContext } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { connectedSource } from "./messages/connected.ts";
import { createIntake } from "./messages/intake.ts";
import type { MessageOptions } from "./messages/message.ts";
import {
  checkedUrl,
  countProblems,
  messageProblems,
  readingOf,
  textProblems,
  urlProblems,
} from "./messages/options.ts";
import { messageSource } from "./messages/plugin.ts";
import type { StreamEntry } from "./redis-stream/entries.ts";
import { createStreamReader, type StreamOptions } from "./redis-stream/reader.ts";

export interface FromRedisStreamOptions extends MessageOptions {
  /** `redis://user:password@host:port/db`, `rediss://` for TLS. */
  readonly url: SecretOption;
  /** The key of the stream. */
  readonly stream: string;
  /** The consumer group. It is made, with all that is in the stream, when it is missing. @default "relay" */
  readonly group?: string;
  /** This node's name in the group. Nodes need names of their own. @default the host's name */
  readonly consumer?: string;
  /** The stream that messages are moved to when they hold no valid event. @default the stream's key and `:dead` */
  readonly dead?: string;
  /** Entries that another consumer has left for this long are taken over, ms. @default 30_000 */
  readonly claimAfterMs?: number;
  /** Most entries that were read and not acknowledged. @default 2_000 */
  readonly maxInFlight?: number;
  /** Passed to `tls.connect`: `ca`, `cert`, `key`, `servername`. For a URL that begins with `rediss:`. */
  readonly tls?: TlsOptions;
}

const OWN = ["url", "stream", "group", "consumer", "dead", "claimAfterMs", "maxInFlight", "tls"];
const KIND = "redisStream";
const PROTOCOLS = ["redis:", "rediss:"];

/**
 * Publishes the field `event` of each entry of a stream. An entry is acknowledged (XACK) once its events are stored, and
 * stays in the stream. What a dead consumer left is taken over (XAUTOCLAIM). Redis 6.2 or newer.
 */
export function fromRedisStream(options: FromRedisStreamOptions): Plugin<"source", Source> {
  const url = (options as FromRedisStreamOptions | undefined)?.url;
  return messageSource({ kind: KIND, options, problems: problemsOf(options), secrets: { url }, open });
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

async function open(options: FromRedisStreamOptions, ctx: PluginContext): Promise<Source> {
  const { hostname } = await import("node:os");
  const { stream, group = "relay", consumer = hostname(), dead = `${stream}:dead`, claimAfterMs = 30_000 } = options;
  const { tls } = options;
  const url = checkedUrl("fromRedisStream()", ctx.secret("url"), PROTOCOLS);
  const settings: StreamOptions = { url, stream, group, consumer, dead, claimAfterMs, tls };
  const reader = await createStreamReader(settings, ctx.clock);
  const intake = createIntake<StreamEntry>(ctx, {
    reading: readingOf(options, KIND),
    maxInFlight: options.maxInFlight ?? 2_000,
    settle: (settled) => reader.settle(settled),
  });
  const source = connectedSource(intake, ctx.clock, ({ stopping, connected }) =>
    reader.session(intake, stopping, connected),
  );
  return {
    ...source,
    async stop() {
      await source.stop();
      reader.close();
    },
  };
}
