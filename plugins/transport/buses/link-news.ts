/** Says that a connection of the config cannot be used, and that it can again: once each, and never for one that is closed. */
import type { Log } from "../../../core/ports/plugin.ts";

export interface LinkNews {
  /** Notes why there is no connection: said once for the same reason in a row. */
  failed(why: string): void;
  /** Notes that there is one: said where `failed` was. */
  there(): void;
}

/**
 * @param system for people: `NATS`
 * @param name of the connection
 */
export function linkNews(log: Log, system: string, name: string): LinkNews {
  let said: string | undefined;
  return {
    failed(why) {
      if (why !== said) log.warn(`a connection to ${system} failed`, { transport: name, error: why });
      said = why;
    },
    there() {
      if (said !== undefined) log.info(`the connection to ${system} is there again`, { transport: name });
      said = undefined;
    },
  };
}
