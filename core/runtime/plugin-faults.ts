/** Names the plug-in that cannot start: what it throws is its own fault or its surroundings', never one of the relay. */
import { StartError, StorageError } from "../model/errors.ts";
import type { Plugin } from "../ports/plugin.ts";

const EX_UNAVAILABLE = 69;
const EX_CONFIG = 78;

/**
 * The result of one step of a plug-in's start.
 * @param hide masks secrets in what is thrown
 * @throws StartError: the plug-in's own as it is; else one with its name, 69 when something outside does not answer, 78 otherwise
 */
export async function startOf<T>(
  { kind, name }: Pick<Plugin<string, unknown>, "kind" | "name">,
  step: () => Promise<T> | T,
  hide: (text: string) => string = (text) => text,
): Promise<T> {
  try {
    return await step();
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const shown = hide(why);
    // The cause of a message that had to be masked is dropped: a stack would print it.
    const options = shown === why ? { cause } : {};
    if (cause instanceof StartError) throw shown === why ? cause : new StartError(cause.exitCode, shown);
    const code = isOutside(cause) ? EX_UNAVAILABLE : EX_CONFIG;
    throw new StartError(code, `the ${kind} plug-in ${name} cannot start: ${shown}`, options);
  }
}

/** A failed system call, such as a refused connection, or a storage that does not answer: it may work later. */
const isOutside = (error: unknown): boolean =>
  error instanceof StorageError
    ? error.fault !== "broken"
    : typeof (error as { syscall?: unknown })?.syscall === "string";
