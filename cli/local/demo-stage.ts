/** Sets up the demo: a temporary folder, a receiver over TLS, and the relay as a child process. */
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemReason } from "../../core/lib/system-error.ts";
import { verifyHex, verifyStandard } from "../../core/signing/verify.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { makeAuthority } from "../support/certificates.ts";
import { EX_UNAVAILABLE, ExitError } from "../support/exit.ts";
import { openLocalStage, writeStageConfig } from "./stage.ts";
import type { Arrival } from "./receiver.ts";
import { unfinished } from "../support/unfinished.ts";

interface Subscribed {
  readonly path: string;
  readonly event: string;
  readonly id: string;
}

export interface ReceivedDelivery extends Arrival {
  /** What the receiver answered. */
  readonly status: number;
  /** Since the event was published. */
  readonly afterMs: number;
}

interface DemoEvent {
  readonly id: string;
  readonly deliveries: number;
  /** What the relay promises of it: `fsync` when it is on disk. */
  readonly durability: string | undefined;
}

export interface Stage {
  readonly relayUrl: string;
  readonly receiverUrl: string;
  /** @param statuses what the receiver answers there at first; 200 from then on */
  subscribe(path: string, event: string, statuses: readonly number[]): Promise<Subscribed>;
  publish(type: string, data: string): Promise<DemoEvent>;
  /** Resolves when so many requests of the event have arrived. @throws Error when it takes too long */
  arrivals(eventId: string, count: number): Promise<readonly ReceivedDelivery[]>;
  /** The event's status once it is no longer pending. @throws Error when it takes too long */
  settled(eventId: string): Promise<string>;
  replay(eventId: string): Promise<number>;
  /** Whether the signature is still valid after a byte of the body is changed: it must not be. */
  stillVerifies(seen: ReceivedDelivery): boolean;
  /** What the relay has said so far. */
  log(): string;
  /** Stops everything, removes the folder, and resolves to the relay's exit code. May be called twice. */
  close(): Promise<number | string>;
}

const KEY = "key_demo";
const PATIENCE_MS = 8_000;
const RETRY = "{ attempts: 5, firstDelayMs: 150, factor: 1.6, maxDelayMs: 1_000 }";

export async function openStage(io: CliEnvironment): Promise<Stage> {
  const { clock } = io;
  const authority = await makeAuthority(clock.now(), "Relay demo CA");
  const { config, removal } = await makeFolder(authority.ca);
  const secrets = new Map<string, string>();
  const answers = new Map<string, number[]>();
  const seen: ReceivedDelivery[] = [];
  const published = new Map<string, number>();
  let changed = Promise.withResolvers<void>();

  const local = await openLocalStage(
    {
      config,
      authority,
      secrets: (path) => [secrets.get(path) ?? "nothing is subscribed here"],
      answer: ({ path }) => answers.get(path)?.shift() ?? 200,
      arrived(arrival, status) {
        const since = published.get(String(arrival.headers["webhook-id"])) ?? clock.monotonic();
        seen.push({ ...arrival, status, afterMs: Math.round(clock.monotonic() - since) });
        changed.resolve();
        changed = Promise.withResolvers();
      },
    },
    io,
  ).catch((error: unknown) => {
    removal[Symbol.dispose]();
    throw error;
  });
  const { api, publisher, relayUrl, receiverUrl } = local;

  /** Resolves at the next arrival, or after `ms`. */
  async function next(ms: number): Promise<void> {
    const over = new AbortController();
    const wait = clock.sleep(clock.now() + ms, over.signal).catch(() => undefined);
    await Promise.race([changed.promise, wait]);
    over.abort();
  }
  const late = (what: string): Error => new Error(`${what} took more than ${PATIENCE_MS / 1_000} s`);

  return {
    relayUrl,
    receiverUrl,
    log: local.output,
    async close() {
      const code = await local.close();
      removal[Symbol.dispose]();
      return code;
    },
    async subscribe(path, event, statuses) {
      answers.set(path, [...statuses]);
      const body = { url: receiverUrl + path, events: [event] };
      const { data } = await api.ask("POST", `/api-keys/${KEY}/webhooks`, body);
      const { id, secret } = data as { id: string; secret: string };
      secrets.set(path, secret);
      return { path, event, id };
    },
    async publish(type, data) {
      // The demo chooses the id, so that the time of publishing is known before the first request arrives.
      const id = `demo_${published.size + 1}`;
      published.set(id, clock.monotonic());
      const body = `{"type":${JSON.stringify(type)},"keyId":"${KEY}","id":"${id}","data":${data}}`;
      const { data: accepted, durability } = await publisher.ask("POST", "/events", body);
      return { ...(accepted as { id: string; deliveries: number }), durability };
    },
    async arrivals(eventId, count) {
      const until = clock.monotonic() + PATIENCE_MS;
      for (;;) {
        const of = seen.filter(({ headers }) => headers["webhook-id"] === eventId);
        if (of.length >= count) return of;
        if (clock.monotonic() > until) throw late(`arrival ${count} of ${eventId}`);
        await next(250);
      }
    },
    async settled(eventId) {
      const until = clock.monotonic() + PATIENCE_MS;
      for (;;) {
        const { data } = await api.ask("GET", `/api-keys/${KEY}/events/${eventId}`);
        const { status } = data as { status: string };
        if (status !== "pending") return status;
        if (clock.monotonic() > until) throw late(`the end of ${eventId}`);
        // Ten in 5 s are allowed.
        await clock.sleep(clock.now() + 600);
      }
    },
    async replay(eventId) {
      published.set(eventId, clock.monotonic());
      const { data } = await api.ask("POST", `/api-keys/${KEY}/events/${eventId}/replay`);
      return (data as { deliveries: number }).deliveries;
    },
    stillVerifies({ body, headers, path, at }) {
      const changedBody = Buffer.from(body);
      changedBody[changedBody.length - 3] = (changedBody[changedBody.length - 3] ?? 0) ^ 1;
      const secret = secrets.get(path) ?? "";
      return verifyHex(changedBody, headers, secret) || verifyStandard(changedBody, headers, secret, at);
    },
  };
}

/** The folder of the relay with its config, which is removed with the demo. @throws ExitError 69 */
async function makeFolder(ca: string): Promise<{ readonly config: string; readonly removal: Disposable }> {
  let removal: Disposable | undefined;
  try {
    const folder = await mkdtemp(join(tmpdir(), "relay-demo-"));
    removal = unfinished(folder, { folder: true, signals: false });
    await writeFile(join(folder, "ca.pem"), ca);
    return { config: await writeStageConfig(folder, 0, RETRY, "relay demo"), removal };
  } catch (error) {
    removal?.[Symbol.dispose]();
    throw new ExitError(EX_UNAVAILABLE, `no folder can be made in ${tmpdir()}: ${systemReason(error)}`, {
      cause: error,
    });
  }
}
