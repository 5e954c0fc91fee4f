// Reads counters of the relay from its `/metrics`.
import { randomBytes } from "node:crypto";
import { nowMs } from "../throughput/event.ts";

const TOKEN = randomBytes(32).toString("hex");

/** A line of the relay's config. */
export const METRICS = `metrics: { token: "${TOKEN}" },`;

export interface Counters {
  /** The value of a counter with exactly these labels, such as `relay_accepted_total{source="amqp"}`; 0 before it counts. */
  read(series: string): number;
}

export async function readCounters(port: number): Promise<Counters> {
  const answer = await fetch(`http://127.0.0.1:${port}/metrics`, { headers: { authorization: `Bearer ${TOKEN}` } });
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`/metrics answered ${answer.status}: ${text}`);
  return {
    read(series) {
      const line = text.split("\n").find((one) => one.startsWith(`${series} `));
      return line === undefined ? 0 : Number(line.slice(series.length + 1));
    },
  };
}

/** Bounds of the wait between two looks, ms, and the first one. */
const [SHORTEST_MS, FIRST_MS, LONGEST_MS] = [15, 100, 100];

/**
 * Resolves to the monotonic ms at which the counter was found to be `least` or more. Looks seldom while much is left: a look
 * costs the relay some ms, which would count against what is measured. @throws Error after `withinMs`
 */
export async function reached(port: number, series: string, least: number, withinMs: number): Promise<number> {
  const began = nowMs();
  let first: { readonly value: number; readonly at: number } | undefined;
  for (;;) {
    const value = (await readCounters(port)).read(series);
    const at = nowMs();
    if (value >= least) return at;
    if (at > began + withinMs) throw new Error(`${series} is ${value} after ${withinMs} ms, not ${least}`);
    const leftMs =
      first === undefined || value === first.value
        ? FIRST_MS
        : (((least - value) * (at - first.at)) / (value - first.value)) * 0.7;
    first ??= { value, at };
    await new Promise((resolve) => setTimeout(resolve, Math.min(LONGEST_MS, Math.max(SHORTEST_MS, leftMs))));
  }
}
