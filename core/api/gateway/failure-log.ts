/** Logs what failed at the upstream: within a bound per minute for one cause, since an upstream that is away fails every request. */
import type { Clock } from "../../ports/clock.ts";
import type { Log, LogFields } from "../../ports/plugin.ts";
import { createLineBound } from "../http/line-bound.ts";

/** Logs one failure, unless the minute of its cause is full. The lines that are left out are counted. */
type LogFailure = (level: "warn" | "error", message: string, fields: LogFields) => void;

export function createFailureLog({ clock, log }: { readonly clock: Clock; readonly log: Log }): LogFailure {
  const mayTell = createLineBound(clock, (count) =>
    log.warn("more requests of the gateway failed than are logged", { count }),
  );
  return (level, message, fields) => {
    if (mayTell(`${message} ${String(fields["error"])} ${String(fields["detail"])}`)) log[level](message, fields);
  };
}
