// The relay under torture: the real command, on a port and a folder that outlive it.
import { mkdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { makeKeys, mintToken } from "../../core/runtime/keys/keyring.ts";
import { freePort } from "../free-port.ts";
import { sleep, start, type Started } from "./process.ts";

/** The command of this checkout. */
export const COMMAND = [process.execPath, resolve(import.meta.dirname, "../../cli/relay.mjs")] as const;
const START_MS = 30_000;
const key = (byte: number): string => Buffer.alloc(32, byte).toString("base64");
/** Deadline of an attempt, ms. */
export const TIMEOUT_MS = 1_500;
/** Waits between attempts; a share of `JITTER` may be added. */
export const RETRY = { attempts: 5, firstDelayMs: 50, factor: 2, maxDelayMs: 400 };
export const KEYS = { master: key(1), signing: key(2), publishToken: "publish-token-of-the-torture" };

/** A token for every key, made here: the relay's clock may be stepped. */
export const accessToken = (): Promise<string> =>
  mintToken(makeKeys(KEYS), { sub: "torture", keys: ["*"], mfa: true, ttlMs: 3_600_000 }, { now: () => Date.now() });

export interface RelayOptions {
  readonly name: string;
  readonly folder: string;
  /** PEM of the authority of the receivers. */
  readonly ca: string;
  /** As it stands in the config: an expression over the names of `relaybox`. */
  readonly storage: string;
  /** As it stands in the config: the circuit breaker, or false. */
  readonly health: string;
  readonly env?: NodeJS.ProcessEnv;
  /** @default 1 */
  /** @default that of this checkout */
  readonly command?: readonly string[];
}

export interface Relay {
  readonly name: string;
  readonly url: string;
  readonly config: string;
  /** Resolves when it listens, at once when it does already. */
  start(): Promise<void>;
  /** True from the time it listens until it is killed or asked to stop. */
  up(): boolean;
  pid(): number;
  signal(name: NodeJS.Signals): void;
  kill(): Promise<void>;
  /** SIGTERM; killed when it takes too long. */
  stop(): Promise<void>;
  said(): string;
}

export async function makeRelay(options: RelayOptions): Promise<Relay> {
  const { name, folder } = options;
  const port = await freePort();
  await mkdir(folder, { recursive: true });
  const config = join(folder, `${name}.config.ts`);
  await writeFile(join(folder, "ca.pem"), options.ca);
  await writeFile(
    config,
    `import * as relay from "relaybox";
export default relay.defineRelay({
  dataDir: "./data-${name}",
  server: { port: ${port}, shutdownMs: 3000 },
  storage: relay.${options.storage},
  retry: ${JSON.stringify(RETRY)},
  delivery: { timeoutMs: ${TIMEOUT_MS} },
  subscriptions: { perKey: 1000 },
  health: ${options.health},
  guard: { allow: ["127.0.0.1:*"], ca: "./ca.pem" },
  limits: { "*": false }, abuse: false, log: { level: "error" },
});
`,
  );
  const env = {
    PATH: process.env["PATH"],
    HOME: process.env["HOME"],
    RELAY_MASTER_KEY: KEYS.master,
    RELAY_SIGNING_KEY: KEYS.signing,
    RELAY_PUBLISH_TOKEN: KEYS.publishToken,
    // One thread for files, so that a fault injected at the nth call is the nth call of the relay.
    UV_THREADPOOL_SIZE: "1",
    ...options.env,
  };
  let process_: Started | undefined;
  let up = false;

  async function begin(): Promise<void> {
    if (up) return;
    for (let tries = 0; ; tries++) {
      const listening = Promise.withResolvers<void>();
      const made = start([...(options.command ?? COMMAND), "start", "--config", config], {
        cwd: folder,
        env,
        heard: (text) => void (text.includes("listening at") && listening.resolve()),
      });
      process_ = made;
      await Promise.race([listening.promise, made.gone, sleep(START_MS)]);
      if (made.alive() && made.said().includes("listening at")) break;
      made.signal("SIGKILL");
      await made.gone;
      // A disk that is full or a store that cannot be reached for a moment is no end: a supervisor would start it again.
      if (tries >= 40) throw new Error(`${name} does not start:\n${made.said()}`);
      await sleep(250);
    }
    up = true;
  }

  async function end(name_: NodeJS.Signals): Promise<void> {
    up = false;
    const own = process_;
    own?.signal(name_);
    own?.signal("SIGCONT");
    const timer = setTimeout(() => own?.signal("SIGKILL"), 8_000);
    await own?.gone;
    clearTimeout(timer);
  }

  return {
    name,
    url: `http://127.0.0.1:${port}`,
    config,
    start: begin,
    up: () => up && process_?.alive() === true,
    pid: () => process_?.pid ?? 0,
    signal: (name_) => process_?.signal(name_),
    kill: () => end("SIGKILL"),
    stop: () => end("SIGTERM"),
    said: () => process_?.said() ?? "",
  };
}
