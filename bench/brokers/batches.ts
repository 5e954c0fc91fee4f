// Publishes events over HTTP in batches: the measure of every other source, and what the transports are fed with.
import { randomUUID } from "node:crypto";
import { publication } from "../throughput/event.ts";
import type { RelayUnderTest } from "../throughput/relay.ts";

/** Events of one request. */
const SIZE = 500;
/** Requests under way. */
const LINES = 4;
const BUSY_MS = 20;

/**
 * Events as text, so that making them is no part of what is measured.
 * @param named with ids, as random as those of most publishers
 */
export const events = (count: number, keyId: string, named = false): string[] =>
  Array.from({ length: count }, () =>
    named ? `{"id":"${randomUUID()}",${publication(keyId).slice(1)}` : publication(keyId),
  );

/** Resolves when all are accepted. A request that meets back-pressure is made again. */
export async function publishBatches(relay: RelayUnderTest, bodies: readonly string[]): Promise<void> {
  const headers = {
    authorization: `Bearer ${await relay.publishToken()}`,
    "content-type": "application/json",
  };
  const requests: string[] = [];
  for (let at = 0; at < bodies.length; at += SIZE) requests.push(`[${bodies.slice(at, at + SIZE).join(",")}]`);
  const line = async (): Promise<void> => {
    for (let body = requests.pop(); body !== undefined; body = requests.pop()) await publish(body);
  };
  async function publish(body: string): Promise<void> {
    for (;;) {
      const answer = await fetch(`http://127.0.0.1:${relay.port}/events`, { method: "POST", headers, body });
      const text = await answer.text();
      if (answer.status === 202) return;
      if (answer.status !== 429) throw new Error(`a batch was refused: ${text.slice(0, 300)}`);
      await new Promise((resolve) => setTimeout(resolve, BUSY_MS));
    }
  }
  await Promise.all(Array.from({ length: LINES }, line));
}
