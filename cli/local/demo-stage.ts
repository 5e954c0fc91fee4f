/** Sets up the demo: a temporary folder, a receiver over TLS, and the relay as a child process. */
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { reasonOf } from "../../core/lib/reason.ts";
import { within } from "../../core/lib/within.ts";
import { verifyHex, verifyStandard } from "../../core/signing/verify.ts";
import { shaped } from "../support/ask.ts";
import { makeAuthority } from "../support/certificates.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { EX_UNAVAILABLE, ExitError } from "../support/exit.ts";
import { unfinished } from "../support/signals.ts";
import { openLocalStage, writeStageConfig } from "./stage.ts";
import type { Arrival } from "./receiver.ts";

export interface ReceivedDelivery extends Arrival {
  /** The receiver's answer. */
  readonly status: number;
  /** Since the event was published. */
  readonly afterMs: number;
}

export type Stage = Awaited<ReturnType<typeof openStage>>;

const KEY = "key_demo";
const PATIENCE_MS = 8_000;
const RETRY = "{ attempts: 5, firstDelayMs: 150, factor: 1.6, maxDelayMs: 1_000 }";

export async function openStage(io: CliEnvironment) {
  const { clock } = io;
  const authority = await makeAuthority(clock.now(), "Relay demo CA");
  const { config, folder } = await makeFolder(authority.ca);
  const arrivals = new Arrivals(clock);
  const { secrets, answers } = arrivals;
  const options = {
    config,
    authority,
    secrets: (path: string) => [secrets.get(path) ?? "nothing is subscribed here"],
    answer: ({ path }: Arrival) => answers.get(path)?.shift() ?? 200,
    arrived: (arrival: Arrival, status: number) => arrivals.add(arrival, status),
  };
  const local = await openLocalStage(options, io).catch((error: unknown) => {
    folder[Symbol.dispose]();
    throw error;
  });
  const { api, publisher, relayUrl, receiverUrl, output } = local;
  const event = (id: string): string => `/api-keys/${KEY}/events/${id}`;
  let published = 0;
  return {
    relayUrl,
    receiverUrl,
    arrivals,
    /** Returns the text that the relay wrote so far. */
    output,
    /** Stops everything, removes the folder, and resolves to the relay's exit code. May be called twice. */
    async close() {
      const code = await local.close();
      folder[Symbol.dispose]();
      return code;
    },
    /** @param statuses the receiver's first answers there; 200 from then on */
    async subscribe(path: string, type: string, statuses: readonly number[]) {
      answers.set(path, [...statuses]);
      const body = { url: receiverUrl + path, events: [type] };
      const answer = await api.ask("POST", `/api-keys/${KEY}/webhooks`, body);
      const { id, secret } = shaped(answer, { id: "text", secret: "text" });
      secrets.set(path, secret);
      return { path, type, id };
    },
    /** Resolves with its durability, which is `fsync` when it is on disk. */
    async publish(type: string, data: string) {
      // The demo chooses the id, so that the time of publishing is known before the first request arrives.
      const id = `demo_${++published}`;
      arrivals.begin(id);
      const body = `{"type":${JSON.stringify(type)},"keyId":"${KEY}","id":"${id}","data":${data}}`;
      const answer = await publisher.ask("POST", "/events", body);
      return { ...shaped(answer, { id: "text", deliveries: "number" }), durability: answer.durability };
    },
    /** Resolves to the event's status once it is no longer pending. @throws Error when it takes too long */
    async settled(id: string): Promise<string> {
      const until = clock.monotonic() + PATIENCE_MS;
      for (;;) {
        const { status } = shaped(await api.ask("GET", event(id)), { status: "text" });
        if (status !== "pending") return status;
        if (clock.monotonic() > until) throw late(`the end of ${id}`);
        // Ten in 5 s are allowed.
        await clock.sleep(clock.now() + 600);
      }
    },
    async replay(id: string): Promise<number> {
      arrivals.begin(id);
      return shaped(await api.ask("POST", `${event(id)}/replay`), { deliveries: "number" }).deliveries;
    },
  };
}

const late = (what: string): Error => new Error(`${what} took more than ${PATIENCE_MS / 1_000} s`);

/** Collects the requests that arrive at the receiver. */
class Arrivals {
  /** Path → the secret of its subscription. */
  readonly secrets = new Map<string, string>();
  /** Path → its next answers. */
  readonly answers = new Map<string, number[]>();
  readonly #clock: CliEnvironment["clock"];
  readonly #begun = new Map<string, number>();
  readonly #seen: ReceivedDelivery[] = [];
  #changed = Promise.withResolvers<void>();

  constructor(clock: CliEnvironment["clock"]) {
    this.#clock = clock;
  }

  /** Takes the time of its arrivals from now on. */
  begin(eventId: string): void {
    this.#begun.set(eventId, this.#clock.monotonic());
  }

  add(arrival: Arrival, status: number): void {
    const now = this.#clock.monotonic();
    const since = this.#begun.get(String(arrival.headers["webhook-id"])) ?? now;
    this.#seen.push({ ...arrival, status, afterMs: Math.round(now - since) });
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  /** Resolves when so many requests of the event have arrived. @throws Error when it takes too long */
  async of(eventId: string, count: number): Promise<readonly ReceivedDelivery[]> {
    const until = this.#clock.monotonic() + PATIENCE_MS;
    for (;;) {
      const of = this.#seen.filter(({ headers }) => headers["webhook-id"] === eventId);
      if (of.length >= count) return of;
      if (this.#clock.monotonic() > until) throw late(`arrival ${count} of ${eventId}`);
      await within(this.#clock, 250, this.#changed.promise);
    }
  }

  /** True when the signature is still valid after a byte of the body is changed: it must not be. */
  stillVerifies({ body, headers, path, at }: ReceivedDelivery): boolean {
    const changed = Buffer.from(body);
    changed[changed.length - 3] = (changed[changed.length - 3] ?? 0) ^ 1;
    const secret = this.secrets.get(path) ?? "";
    return verifyHex(changed, headers, secret) || verifyStandard(changed, headers, secret, at);
  }
}

/** Makes the folder of the relay with its config, which is removed with the demo. @throws ExitError 69 */
async function makeFolder(ca: string): Promise<{ readonly config: string; readonly folder: Disposable }> {
  let folder: Disposable | undefined;
  try {
    const path = await mkdtemp(join(tmpdir(), "relay-demo-"));
    folder = unfinished(path, { folder: true, signals: false });
    await writeFile(join(path, "ca.pem"), ca);
    return { config: await writeStageConfig(path, 0, RETRY, "relay demo"), folder };
  } catch (error) {
    folder?.[Symbol.dispose]();
    const message = `no folder can be made in ${tmpdir()}: ${reasonOf(error)}`;
    throw new ExitError(EX_UNAVAILABLE, message, { cause: error });
  }
}
