/** Sets up a developer's desk: a relay on its own folder, a local TLS receiver, and a subscription to everything. */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { systemReason } from "../../core/lib/system-error.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { openApi, type Api } from "../support/client.ts";
import { readGiven } from "../support/command.ts";
import { EX_UNAVAILABLE, ExitError } from "../support/exit.ts";
import { keptAuthority } from "../support/kept-authority.ts";
import { startReceiver, type Arrival } from "../support/receiver.ts";
import { spawnRelay } from "../support/relay-process.ts";
import { record } from "../support/response-shape.ts";

/** The API key of the desk. */
export const DEV_KEY = "key_dev";
const PATH = "/hook";

export interface Desk {
  readonly relayUrl: string;
  /** File with the token that may publish. */
  readonly tokenFile: string;
  /** What signs the deliveries; the same after a restart. */
  readonly secret: string;
  publish(body: string): Promise<{ readonly id: string; readonly deliveries: number }>;
  /** Resolves when the relay ends by itself, to what it said last. */
  readonly ended: Promise<string>;
  /** Stops everything. May be called twice. */
  close(): Promise<void>;
}

interface DeskOptions {
  /** Where the relay and the receiver keep what outlives them. */
  readonly folder: string;
  /** Of the relay; 0 asks for any free one. */
  readonly port: number;
  answer(arrival: Arrival): number | Promise<number>;
  arrived(arrival: Arrival, status: number): void;
}

interface Subscribed {
  readonly id: string;
  readonly secret: string;
}

/** @throws ExitError 69 when the folder cannot be used or the relay does not start */
export async function openDesk({ folder, port, answer, arrived }: DeskOptions, io: CliEnvironment): Promise<Desk> {
  const file = join(folder, "relay.config.ts");
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeFile(join(folder, ".gitignore"), "*\n");
    await writeFile(file, configOf(port));
  } catch (error) {
    throw new ExitError(EX_UNAVAILABLE, `cannot keep anything in ${folder}: ${systemReason(error)}`);
  }
  const authority = await keptAuthority(folder, io);
  let secret = "nothing is subscribed yet";
  const receiver = await startReceiver({
    host: "127.0.0.1",
    port: 0,
    clock: io.clock,
    certificate: await authority.issue(["127.0.0.1"]),
    secrets: () => [secret],
    answer,
    arrived,
  });
  const relay = spawnRelay(["start", "--config", file], io);
  let closed: Promise<void> | undefined;
  let closing = false;
  const close = async (): Promise<void> => {
    closing = true;
    await relay.stop();
    await receiver.close();
  };
  const desk = { close: () => (closed ??= close()) };
  try {
    const relayUrl = await relay.listening.catch(() => {
      throw new ExitError(EX_UNAVAILABLE, `the relay does not start:\n${relay.output().trim()}`);
    });
    const given = readGiven([], { url: [relayUrl], config: [file] });
    const inside: CliEnvironment = { ...io, env: {} };
    const api = await openApi(given, inside);
    const publisher = await openApi(given, inside, "publish");
    ({ secret } = await subscribed(api, join(folder, "subscription.json"), receiver.origin + PATH));
    return {
      ...desk,
      relayUrl,
      secret,
      tokenFile: join(folder, "data", "keys", "publish-token"),
      ended: relay.ended.then((code) => (closing ? "" : `the relay ended (${code}):\n${relay.output().trim()}`)),
      async publish(body) {
        const answer = await publisher.ask("POST", "/events", body);
        return record<{ id: string; deliveries: number }>(answer, { id: "text", deliveries: "number" });
      },
    };
  } catch (error) {
    await desk.close();
    throw error;
  }
}

/** The subscription of an earlier run with the receiver's new address; a new one where there is none. */
async function subscribed(api: Api, file: string, url: string): Promise<Subscribed> {
  const webhooks = `/api-keys/${DEV_KEY}/webhooks`;
  const kept = await readFile(file, "utf8")
    .then((text) => JSON.parse(text) as Subscribed)
    .catch(() => undefined);
  if (kept !== undefined) {
    const { data } = await api.ask("GET", webhooks);
    if ((data as readonly { readonly id: string }[]).some(({ id }) => id === kept.id)) {
      await api.ask("PATCH", `${webhooks}/${kept.id}`, { url, status: "active" });
      return kept;
    }
  }
  const made = record<Subscribed>(await api.ask("POST", webhooks, { url, events: ["*"] }), {
    id: "text",
    secret: "text",
  });
  await writeFile(file, JSON.stringify({ id: made.id, secret: made.secret }), { mode: 0o600 });
  return made;
}

const configOf = (port: number): string => `import { defineRelay, http, https, sqlite } from "relaybox";

// Written by relay dev at each start.
export default defineRelay({
  dataDir: "./data",
  server: { host: "127.0.0.1", port: ${port} },
  storage: sqlite(),
  sources: [http()],
  transports: [https()],
  retry: { attempts: 5, firstDelayMs: 1_000, factor: 2, maxDelayMs: 10_000 },
  guard: { allow: ["127.0.0.1:*"], ca: "./ca.pem" },
  log: { level: "warn" },
});
`;
