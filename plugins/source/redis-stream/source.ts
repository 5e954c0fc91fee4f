/** The source behind `fromRedisStream()`, loaded only where a config names it. */
import type { ConnectionOptions as TlsOptions } from "node:tls";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import { hostname } from "node:os";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import { connectedSource, type Session } from "../messages/connected.ts";
import { createIntake } from "../messages/intake.ts";
import { readingOf, type MessageOptions } from "../messages/message.ts";
import type { StreamEntry } from "./entries.ts";
import { createStreamReader, type StreamOptions } from "./reader.ts";

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

/** @param url where Redis is: the option, read and checked */
export function startRedisStream(ctx: PluginContext, options: FromRedisStreamOptions, url: string): Source {
  const { stream, group = "relay", consumer = hostname(), dead = `${stream}:dead`, claimAfterMs = 30_000 } = options;
  const { tls } = options;
  const settings: StreamOptions = { url, stream, group, consumer, dead, claimAfterMs, tls };
  const reader = createStreamReader(settings, ctx.clock);
  const intake = createIntake<StreamEntry>(ctx, {
    reading: readingOf(options, "redisStream"),
    maxInFlight: options.maxInFlight ?? 2_000,
    settle: (settled) => reader.settle(settled),
  });
  const session: Session = ({ stopping, connected }) => reader.session(intake, stopping, connected);
  return connectedSource(intake, ctx.clock, session, reader);
}
