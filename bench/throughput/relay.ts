// The relay under measurement: the real command, in a process of its own, on a folder of its own.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { freePort } from "../../tools/free-port.ts";
import { nowMs } from "./event.ts";

const HERE = resolve(import.meta.dirname, "../..");
/** A relay that does not answer by then has failed. */
const START_MS = 60_000;

export interface RelayOptions {
  readonly folder: string;
  readonly ca: string;
  /** As it stands in the config: an expression over the names of `relaybox`. @default "sqlite()" */
  readonly storage?: string;
  /** @default "info" */
  readonly logLevel?: string;
  readonly profile?: string;
  /** Lines of the config that the measurement is about. All others are as by default. */
  readonly config?: string;
  /** Script that is started in place of the command, with the config as its argument. */
  readonly script?: string;
  /** Folder of the checkout whose relay is measured. @default this one */
  readonly home?: string;
}

export interface RunningRelay {
  readonly child: ChildProcess;
  /** From the command's start until the first 200 of `/healthz`. */
  readonly startMs: number;
  stop(): Promise<void>;
}

export interface RelayUnderTest {
  readonly port: number;
  readonly publishToken: () => Promise<string>;
  start(): Promise<RunningRelay>;
  /** Makes the subscription; resolves to its secret. */
  subscribe(keyId: string, url: string): Promise<string>;
  /** Makes many, one after the other. They are not to be limited by the config. */
  subscribeAll(subscriptions: readonly { readonly keyId: string; readonly body: object }[]): Promise<void>;
}

export async function prepare(options: RelayOptions): Promise<RelayUnderTest> {
  const { folder, home = HERE, storage = "sqlite()", logLevel = "info" } = options;
  // A checkout from before the command stood beside the core has it inside.
  const command = ["cli/relay.mjs", "core/cli/relay.mjs"].map((path) => join(home, path)).find(existsSync) ?? "";
  const port = await freePort();
  const config = join(folder, "relay.config.ts");
  await writeFile(join(folder, "ca.pem"), options.ca);
  await writeFile(
    config,
    `import * as relay from "relaybox";
export default relay.defineRelay({
  dataDir: "./data",
  server: { host: "127.0.0.1", port: ${port} },
  storage: relay.${storage},
  ${options.config ?? ""}
  guard: { allow: ["127.0.0.1:*"], ca: "./ca.pem" },
  log: { level: "${logLevel}" },
});
`,
  );
  const url = `http://127.0.0.1:${port}`;

  return {
    port,
    publishToken: () => Promise.resolve(KEYS.RELAY_PUBLISH_TOKEN),

    async start() {
      const profiling = options.profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${options.profile}`];
      const from = nowMs();
      const run = options.script === undefined ? [command, "start", "--config", config] : [options.script, config];
      const child = spawn(process.execPath, [...profiling, ...run], {
        stdio: ["ignore", "ignore", "pipe"],
        env: clean(),
      });
      // Read as a container's runtime reads it, and as cheaply as can be: the reader shares the cores. In a file beside the
      // database the log would go to disk with every sync.
      let said: Buffer | undefined;
      child.stderr.on("data", (chunk: Buffer) => (said = chunk));
      const ended = new Promise<void>((done) => child.once("exit", () => done()));
      while (!(await healthy(url))) {
        if (child.exitCode !== null || nowMs() - from > START_MS) {
          child.kill("SIGKILL");
          throw new Error(`the relay did not start:\n${said?.toString("latin1", -2_000)}`);
        }
        await new Promise((done) => setTimeout(done, 2));
      }
      const startMs = nowMs() - from;
      return {
        child,
        startMs,
        stop: async () => {
          if (child.exitCode === null) child.kill("SIGTERM");
          await ended;
        },
      };
    },

    async subscribe(keyId, target) {
      return create(await token(keyId), keyId, { url: target, events: ["bench:event"] });
    },

    async subscribeAll(subscriptions) {
      const bearer = await token("*");
      for (const { keyId, body } of subscriptions) await create(bearer, keyId, body);
    },
  };

  async function token(keyId: string): Promise<string> {
    const args = [command, "token", "--config", config, "--sub", "bench", "--keys", keyId];
    const { stdout } = await promisify(execFile)(process.execPath, args, { env: clean() });
    return stdout.trim();
  }

  async function create(bearer: string, keyId: string, subscription: object): Promise<string> {
    const answer = await fetch(`${url}/api-keys/${keyId}/webhooks`, {
      method: "POST",
      headers: { authorization: `Bearer ${bearer}`, "content-type": "application/json" },
      body: JSON.stringify(subscription),
    });
    const body = (await answer.json()) as { data?: { secret: string } };
    if (body.data === undefined) throw new Error(`the subscription was refused: ${JSON.stringify(body)}`);
    return body.data.secret;
  }
}

const fresh = (): string => randomBytes(32).toString("base64");
/** Given, as a storage that nodes share wants them; of this run alone. */
const KEYS = { RELAY_MASTER_KEY: fresh(), RELAY_SIGNING_KEY: fresh(), RELAY_PUBLISH_TOKEN: fresh() };

/** The environment without what would change the relay's config, or what Node trusts: a list of authorities takes 2 MB. */
const clean = (): NodeJS.ProcessEnv => ({
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^RELAY_|^NODE_EXTRA_CA_CERTS$/.test(name))),
  ...KEYS,
});

async function healthy(url: string): Promise<boolean> {
  try {
    const answer = await fetch(`${url}/healthz`);
    await answer.arrayBuffer();
    return answer.status === 200;
  } catch {
    return false;
  }
}
