/** The source behind `fromRedisStream()`, loaded only where a config names it. */
import type { ConnectionOptions as TlsOptions } from "node:tls";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import { hostname } from "node:os";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import { connectedSource } from "../messages/connected.ts";
import { Intake } from "../messages/intake.ts";
import type { MessageOptions, Reading } from "../messages/message.ts";
import { StreamReader } from "./reader.ts";

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
export function startRedisStream(ctx: PluginContext, options: FromRedisStreamOptions & Reading, url: string): Source {
  const { stream, group = "relay", consumer = hostname(), dead = `${stream}:dead`, claimAfterMs = 30_000 } = options;
  const { tls, maxInFlight = 2_000 } = options;
  const reader = new StreamReader({ url, stream, group, consumer, dead, claimAfterMs, tls }, ctx.clock);
  const intake = new Intake(ctx, { reading: options, maxInFlight, upstream: reader });
  return connectedSource(intake, ctx.clock, (life) => reader.session(intake, life), { close: () => reader.close() });
}
