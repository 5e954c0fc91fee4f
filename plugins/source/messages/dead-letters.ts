/** Passes messages that hold no valid event to where the config wants them, and keeps those that nothing there takes. */
import type { PluginContext } from "../../../core/ports/plugin.ts";
import { failureReason } from "../../brokers/keep-connected.ts";
import type { Poison, RawMessage } from "./message.ts";
import { setAsideStore } from "./set-aside.ts";

export interface DeadLetters {
  /**
   * Publishes a message again and again until it works, as once an exchange has a queue. One that can never be published is
   * kept here.
   * @param ending ends the attempts
   * @throws the error of the last attempt when `ending` aborts before
   */
  pass(message: RawMessage, poison: Poison, publish: () => Promise<unknown>, ending: AbortSignal): Promise<void>;
  /** Resolves when the message is stored in the plug-in's own store. */
  keep(message: RawMessage, poison: Poison): Promise<void>;
  /** Says in one line for `/readyz` how many cannot be passed on now, and why; `undefined`: none. */
  readiness(): string | undefined;
}

/** What could not be passed on is tried again so often. */
const AGAIN_MS = 5_000;

/** @param isFinal true for an error that each further attempt would meet */
export function createDeadLetters(
  { clock, log, storage }: PluginContext,
  source: string,
  isFinal: (error: unknown) => boolean = () => false,
): DeadLetters {
  const kept = setAsideStore(storage, source);
  const keep = (message: RawMessage, poison: Poison): Promise<void> => kept.keep(message, poison, clock.now());
  /** As many as may be in flight would let nothing through. */
  const stuck = new Map<RawMessage, string>();
  return {
    keep,
    async pass(message, poison, publish, ending) {
      try {
        for (;;) {
          try {
            return void (await publish());
          } catch (error) {
            if (isFinal(error)) {
              log.warn("a dead letter cannot be written: the message is kept here", { source, error: String(error) });
              return await keep(message, poison);
            }
            const why = failureReason(error);
            if (!stuck.has(message)) log.warn("a message cannot be set aside", { source, error: why });
            stuck.set(message, why);
            await clock.sleep(clock.now() + AGAIN_MS, ending).catch(() => undefined);
            if (ending.aborted) throw error;
          }
        }
      } finally {
        stuck.delete(message);
      }
    },
    readiness: () =>
      stuck.size === 0 ? undefined : `${stuck.size} messages cannot be set aside: ${[...stuck.values()].at(-1)}`,
  };
}
