/** A log and metrics that remember what they were told. */
import type { Log, LogFields, Metrics } from "../../core/ports/plugin.ts";

export interface Line {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  readonly fields: LogFields;
}

export function quietLog(): Log & { readonly lines: Line[] } {
  const lines: Line[] = [];
  const at =
    (level: Line["level"]) =>
    (message: string, fields: LogFields = {}): void =>
      void lines.push({ level, message, fields });
  return { lines, debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

export function quietMetrics(): Metrics & {
  readonly counted: Map<string, number>;
  /** Gauges as they stand. */
  readonly shown: Map<string, number>;
} {
  const [counted, shown] = [new Map<string, number>(), new Map<string, number>()];
  return {
    counted,
    shown,
    count: (name, labels = {}, by = 1) => {
      const full = [name, ...Object.values(labels)].join(" ");
      counted.set(full, (counted.get(full) ?? 0) + by);
    },
    gauge: (name, value, labels = {}) => void shown.set([name, ...Object.values(labels)].join(" "), value),
    observe: () => {},
  };
}
