/**
 * Pub/Sub as the fake of Google's Go module plays it (tools/pubsub-fake), behind a door that a test may shut: the fake keeps what it
 * was told in memory, so a kill is that of the door, which cuts every connection and takes no new one.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { PubSub } from "@google-cloud/pubsub";
import { freePort } from "../../tools/free-port.ts";
import { startServer } from "./server-process.ts";
import { tcpShim } from "./tcp-shim.ts";

const HERE = join(import.meta.dirname, "../../node_modules/.cache/pubsub-fake");

/** Why there is no fake here, or undefined: Go is not on every machine, and is no package of the tests' own. */
export const needsPubSub = (): string | undefined =>
  existsSync(HERE) ? undefined : "needs the fake of Pub/Sub, which tools/setup.mjs builds where Go is";

/** A message as the fake tells of it. */
interface Told {
  readonly ID: string;
  readonly Topic: string;
  readonly Acks: number;
  readonly Deliveries: number;
  readonly OrderingKey: string;
  readonly Attributes: Readonly<Record<string, string>> | null;
  /** In base64. */
  readonly Data: string | null;
}

export const PROJECT = "relay-tests";

export async function startPubSub() {
  const [inner, tells] = [await freePort(), await freePort()];
  const told = async (topic: string): Promise<readonly Told[]> => {
    const all = (await (await fetch(`http://127.0.0.1:${tells}/`)).json()) as readonly Told[] | null;
    return (all ?? []).filter(({ Topic }) => Topic === `projects/${PROJECT}/topics/${topic}`);
  };
  const server = await startServer({
    command: HERE,
    args: [String(inner), String(tells)],
    env: {},
    ready: async () => (await told("none")).length === 0,
  });
  const door = await tcpShim(inner);
  const client = new PubSub({ projectId: PROJECT, apiEndpoint: `127.0.0.1:${inner}` });
  return {
    port: door.port,
    client,
    /** Tells of all messages that were ever published to the topic. */
    told,
    /** Takes requests and answers none. */
    pause: () => door.swallowReplies(),
    async kill(): Promise<void> {
      door.aim(await freePort());
      door.cut();
      door.pass();
    },
    start(): Promise<void> {
      door.aim(inner);
      return Promise.resolve();
    },
    async [Symbol.asyncDispose]() {
      await client.close();
      await door[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}
