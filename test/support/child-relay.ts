/** A relay as an operator runs it: the command in a process of its own, on a folder that outlives it. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { request } from "undici";
import { systemClock } from "../../core/runtime/clock.ts";
import { makeKeys, mintToken } from "../../core/runtime/keys/keyring.ts";
import { testAuthority } from "./certificates.ts";
import { startCommand, type Running } from "./command.ts";
import { shortcuts, TEST_ENV, TEST_KEYS, type Shortcuts } from "./relay.ts";

export interface ChildRelay extends AsyncDisposable, Shortcuts {
  readonly url: string;
  readonly pid: number;
  readonly running: Running;
  publish(body: unknown): Promise<{ readonly status: number; readonly json: ReturnType<typeof JSON.parse> }>;
  call(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ readonly status: number; readonly json: ReturnType<typeof JSON.parse> }>;
  /** SIGKILL, and until it is gone. */
  kill(): Promise<void>;
}

export interface ChildOptions {
  /** Source text of config entries, e.g. `retry: { firstDelayMs: 10 },`. */
  readonly config?: string;
  readonly under?: readonly string[];
  /** Imports of the config from `relaybox`, beside defineRelay. */
  readonly imports?: readonly string[];
  /** More lines at the head of the config file. */
  readonly head?: string;
  /** Variables beside the keys. */
  readonly env?: Readonly<Record<string, string>>;
}

export async function startChild(folder: string, options: ChildOptions = {}): Promise<ChildRelay> {
  const { ca } = await testAuthority();
  writeFileSync(join(folder, "ca.pem"), ca);
  const file = join(folder, "relay.config.ts");
  writeFileSync(
    file,
    `import { ${["defineRelay", ...(options.imports ?? [])].join(", ")} } from "relaybox";
${options.head ?? ""}
export default defineRelay({
  server: { port: 0, shutdownMs: 2000 },
  guard: { allow: ["127.0.0.1:*"], ca: "./ca.pem" },
  limits: { "*": false }, abuse: false, log: { level: "warn" },
  ${options.config ?? ""}
});
`,
  );
  const running = startCommand(["start", "--config", file], {
    cwd: folder,
    under: options.under,
    env: {
      ...TEST_ENV,
      // One thread for files, so that a fault injected at the nth call hits the nth call.
      UV_THREADPOOL_SIZE: "1",
      ...options.env,
    },
  });
  const [, url = ""] = await running.waitFor(/listening at (http[^\s"]+)["\n]/);
  const token = await mintToken(
    makeKeys(TEST_KEYS),
    { sub: "tester", keys: ["*"], mfa: true, ttlMs: 600_000 },
    systemClock(),
  );

  async function send(method: string, path: string, bearer: string, body: unknown) {
    const headers = {
      authorization: `Bearer ${bearer}`,
      ...(body !== undefined && { "content-type": "application/json" }),
    };
    const answer = await request(url + path, {
      method: method as "GET",
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      headersTimeout: 20_000,
      bodyTimeout: 20_000,
    });
    const text = await answer.body.text();
    return { status: answer.statusCode, json: text === "" ? undefined : JSON.parse(text) };
  }

  return {
    url,
    pid: running.pid,
    running,
    publish: (body) => send("POST", "/events", TEST_KEYS.publishToken, body),
    call: (method, path, body) => send(method, path, token, body),
    ...shortcuts((method, path, body) => send(method, path, token, body)),
    async kill() {
      running.kill("SIGKILL");
      await running.ended;
    },
    [Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
  };
}
