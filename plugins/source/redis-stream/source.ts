/** The source behind `fromRedisStream()`, loaded only where a config names it. */
import { hostname } from "node:os";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import { connectedSource, type Session } from "../messages/connected.ts";
import { createIntake } from "../messages/intake.ts";
import { readingOf } from "../messages/options.ts";
import type { FromRedisStreamOptions } from "./options.ts";
import type { StreamEntry } from "./entries.ts";
import { createStreamReader, type StreamOptions } from "./reader.ts";

/** @param url where Redis is: the option, read and checked */
export async function startRedisStream(
  ctx: PluginContext,
  options: FromRedisStreamOptions,
  url: string,
): Promise<Source> {
  const { stream, group = "relay", consumer = hostname(), dead = `${stream}:dead`, claimAfterMs = 30_000 } = options;
  const { tls } = options;
  const settings: StreamOptions = { url, stream, group, consumer, dead, claimAfterMs, tls };
  const reader = await createStreamReader(settings, ctx.clock);
  const intake = createIntake<StreamEntry>(ctx, {
    reading: readingOf(options, "redisStream"),
    maxInFlight: options.maxInFlight ?? 2_000,
    settle: (settled) => reader.settle(settled),
  });
  const session: Session = ({ stopping, connected }) => reader.session(intake, stopping, connected);
  return connectedSource(intake, ctx.clock, session, reader);
}
