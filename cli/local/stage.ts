/** Runs a relay and a TLS receiver side by side on this machine, for `demo` and `dev`. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Authority } from "../support/certificates.ts";
import { openApi } from "../support/client.ts";
import { Given } from "../support/command.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { EX_UNAVAILABLE, ExitError } from "../support/exit.ts";
import { type ReceiverOptions, startReceiver } from "./receiver.ts";
import { spawnRelay } from "./relay-process.ts";

const LOCAL_HOST = "127.0.0.1";

interface StageOptions extends Pick<ReceiverOptions, "secrets" | "answer" | "arrived"> {
  /** The relay's config, as `writeStageConfig` writes it. */
  readonly config: string;
  readonly authority: Authority;
}

/** @throws ExitError 69 when the relay does not start */
export async function openLocalStage({ config, authority, ...options }: StageOptions, io: CliEnvironment) {
  const certificate = await authority.issue([LOCAL_HOST]);
  const receiver = await startReceiver({ host: LOCAL_HOST, port: 0, clock: io.clock, certificate, ...options });
  const relay = spawnRelay(["start", "--config", config], io);
  // Resolves to the relay's exit code. May be called twice.
  const close = async (): Promise<number | string> => {
    const code = await relay.stop();
    await receiver.close();
    return code;
  };
  try {
    const relayUrl = await relay.listening.catch(() => {
      throw new ExitError(EX_UNAVAILABLE, `the relay does not start:\n${relay.output().trim()}`);
    });
    // The commands' own client, with tokens signed by the key that the relay has just made.
    const given = new Given([], { url: [relayUrl], config: [config] });
    const inside: CliEnvironment = { ...io, env: {} };
    const api = await openApi(given, inside);
    const publisher = await openApi(given, inside, "publish");
    const { ended, output } = relay;
    return { api, publisher, relayUrl, receiverUrl: receiver.origin, ended, output, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Writes a config as an operator would; only the waits are short. @returns its file */
export async function writeStageConfig(folder: string, port: number, retry: string, by: string): Promise<string> {
  const file = join(folder, "relay.config.ts");
  await writeFile(
    file,
    `import { defineRelay, http, https, sqlite } from "relaybox";

// Written by ${by} at each start.
export default defineRelay({
  dataDir: "./data",
  server: { host: "${LOCAL_HOST}", port: ${port} },
  storage: sqlite(),
  sources: [http()],
  transports: [https()],
  retry: ${retry},
  guard: { allow: ["${LOCAL_HOST}:*"], ca: "./ca.pem" },
  log: { level: "warn" },
});
`,
  );
  return file;
}
