/** Messages between the nodes on one PostgreSQL: rows of a table, which each node reads when the bell rings. */
import type { Clock } from "../../../core/ports/clock.ts";
import { type Message, questions } from "../shared/questions.ts";
import type { Link } from "./link.ts";
import type { TimeArgument } from "./time-argument.ts";

/** An answer goes to every node that gave a sign of life within this time, ms. */
const LIVING_MS = 60_000;

export function nodes(link: Link, schema: string, clock: Clock, node: string, time: TimeArgument) {
  async function ask(silentMs: number, message: Message): Promise<readonly string[]> {
    const values = (): readonly unknown[] => [...time.now(), node, Math.floor(silentMs), JSON.stringify(message)];
    const [row] = await link.run({ text: `select "${schema}".ask($1,$2,$3,$4,$5)`, values });
    return JSON.parse(row?.[0] ?? "[]") as readonly string[];
  }
  return questions(clock, node, { ask, reply: (answer) => ask(LIVING_MS, answer) });
}
