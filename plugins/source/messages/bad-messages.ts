/** Counts and names the messages that are set aside, each once: one that upstream keeps comes again and again. */
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Fate, RawMessage, Settled } from "./message.ts";
import { poisonOf } from "./poison.ts";

interface BadMessages {
  /** Returns the fate of a message that can never be stored. */
  fateOf(message: RawMessage, error: unknown): Fate;
  /** Notes what was settled. @param kept those that upstream still has, though they are bad */
  settled(settled: readonly Settled<RawMessage>[], kept: ReadonlySet<RawMessage>): void;
}

/** Most places that are remembered. Beyond that the oldest is forgotten: it is counted again when it comes again. */
const MOST = 10_000;

export function createBadMessages(
  { log, metrics }: Pick<PluginContext, "log" | "metrics">,
  source: string,
): BadMessages {
  /** Places of messages that are counted: those that are being set aside, and those that upstream has kept. */
  const known = new Set<string>();
  return {
    fateOf(message, error) {
      const poison = poisonOf(error);
      if (!known.has(message.place)) {
        metrics.count("source_dead_lettered", { source });
        log.warn("a message is set aside", { source, name: message.place, code: poison.code, detail: poison.detail });
        known.add(message.place);
      }
      return { kind: "poison", ...poison };
    },
    settled(settled, kept) {
      if (known.size === 0 && kept.size === 0) return;
      for (const { message, fate } of settled) {
        known.delete(message.place);
        if (fate.kind === "poison" && kept.has(message)) known.add(message.place);
      }
      while (known.size > MOST) known.delete(known.values().next().value as string);
    },
  };
}
