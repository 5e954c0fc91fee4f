/** NATS with JetStream: a stream of all that is published to `deposits.…`. */
import { jetstreamManager, type JetStreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { toNats } from "../../../plugins/transport/nats.ts";
import { atLeast, type Arrived, type BusHarness, type FarBus } from "../bus-laws.ts";
import { startNats } from "../nats.ts";
import { needs } from "../needs.ts";

interface FarNats extends FarBus {
  readonly manager: JetStreamManager;
}

export const natsBus: BusHarness<FarNats> = {
  system: "NATS",
  missing: needs("nats"),
  make: toNats,
  options: (at) => ({ name: "bus", servers: `nats://${at}` }),
  everyOption: {
    ...{ name: "bus", servers: ["a:4222", "tls://b"], user: "u", password: "p", credentials: "c" },
    ...{ token: { secretFrom: { env: "T" } }, tls: { caFile: "ca" } },
  },
  wrongOptions: [
    [{ name: "", servers: "nats://user:s3cret@a", password: "" }, "name", "servers", "password"],
    [{}, "servers"],
  ],
  urls: {
    rule: "a subject",
    right: ["a", "deposits.paid", "a_b-c.0.D"],
    wrong: ["", "$JS.API.STREAM.DELETE.LAW", "a.$b", "_INBOX.x", "a.*", "a.>", ">", "a..b", ".a", "a.", "a b", "a/b"],
  },
  place: /^200 stream DEPOSITS, sequence \d+$/,
  refused: ["nats://bus/nobody.takes.this", /^error no stream takes the subject nobody.takes.this$/],
  async start() {
    const server = await startNats();
    const client = await connect({ servers: server.url, maxReconnectAttempts: -1, reconnectTimeWait: 100 });
    const manager = await jetstreamManager(client);
    await manager.streams.add({ name: "DEPOSITS", subjects: ["deposits.>"] });
    async function arrived(subject: string): Promise<readonly Arrived[]> {
      const { messages } = (await manager.streams.info("DEPOSITS")).state;
      const found: Arrived[] = [];
      for (let seq = 1; seq <= messages; seq++) {
        const message = await manager.streams.getMessage("DEPOSITS", { seq });
        if (message?.subject !== subject) continue;
        const all = message.header.keys().map((name) => [name, message.header.get(name)]);
        const { "Nats-Msg-Id": messageId, ...headers } = Object.fromEntries(all) as Record<string, string>;
        found.push({ headers, body: message.data, ...(messageId !== undefined && { messageId }) });
      }
      return found;
    }
    return {
      at: `127.0.0.1:${server.port}`,
      manager,
      server,
      destination: (name) => Promise.resolve(`nats://bus/deposits.${name}`),
      arrived: (url, least) => atLeast(least, () => arrived(url.slice("nats://bus/".length))),
      async [Symbol.asyncDispose]() {
        await client.close();
        await server[Symbol.asyncDispose]();
      },
    };
  },
};
