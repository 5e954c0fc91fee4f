/** Counts and names the messages that are set aside, each once: one that upstream keeps comes again and again. */
import { setNewest } from "../../../core/lib/bounded-map.ts";
import { Problem } from "../../../core/model/problem.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Poison, RawMessage } from "./message.ts";

/** Most places that are remembered. Beyond that the oldest is forgotten: it is counted again when it comes again. */
const MOST = 10_000;
const LONGEST_DETAIL = 1_000;
/** Mistakes that are listed; the rest are counted. */
const LISTED = 5;

export type BadMessages = ReturnType<typeof createBadMessages>;

export function createBadMessages({ log, metrics }: Pick<PluginContext, "log" | "metrics">, source: string) {
  /** Places of messages that are counted: those that are being set aside, and those that upstream has kept. */
  const known = new Map<string, true>();
  return {
    /** Notes a message that can never be stored. Returns why. */
    note({ place }: RawMessage, error: unknown): Poison {
      const poison = poisonOf(error);
      if (known.has(place)) return poison;
      metrics.count("source_dead_lettered", { source });
      log.warn("a message is set aside", { source, name: place, code: poison.code, detail: poison.detail });
      setNewest(known, place, true, MOST);
      return poison;
    },
    /** Notes that upstream no longer has it: what comes from its place from now on is another message. */
    forget: ({ place }: RawMessage) => known.delete(place),
  };
}

/** Returns the code and all that helps to correct the message, without its content. */
function poisonOf(error: unknown): Poison {
  if (!(error instanceof Problem)) return { code: "INTERNAL_ERROR", detail: String(error).slice(0, LONGEST_DETAIL) };
  const { errors = [] } = error.extras;
  const listed = errors.slice(0, LISTED).map(({ path, message }) => `${path} ${message}`.trim());
  if (errors.length > LISTED) listed.push(`and ${errors.length - LISTED} more`);
  // Fields that are wrong say it all: a list to look into goes with no message.
  const said = error.code === "VALIDATION_FAILED" && listed.length > 0 ? [] : [error.detail];
  const detail = [...said, listed.join("; ")].join(" ").trim();
  return { code: error.code, detail: detail.slice(0, LONGEST_DETAIL) };
}
