// The clients of docs/clients.md are generated as the page says, compiled, and run against a relay: create, publish, list, replay,
// rotate. What is installed for it is kept in node_modules/.cache, and in Go's own caches.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findCommand } from "../../tools/find-program.ts";
import { eventually } from "../support/until.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay, TEST_KEYS, type TestRelay } from "../support/relay.ts";

interface Language {
  /** As the page marks its code: `python client`. */
  readonly fence: string;
  /** Commands that the machine must have; `tools/setup.mjs` installs none of them. */
  readonly needs: readonly string[];
  readonly file: string;
  readonly run: readonly [command: string, ...args: string[]];
  /** What the page installs, kept for the next run: its path from the folder. */
  readonly kept?: string;
}

const LANGUAGES: readonly Language[] = [
  { fence: "ts", needs: [], file: "app.ts", run: [process.execPath, "app.ts"] },
  { fence: "python", needs: ["python3", "curl"], file: "app.py", run: [".venv/bin/python", "app.py"], kept: ".venv" },
  { fence: "go", needs: ["go", "curl"], file: "main.go", run: ["go", "run", "."] },
  { fence: "java", needs: ["java", "npx", "curl"], file: "App.java", run: ["true"] },
];

const root = resolve(import.meta.dirname, "../..");
const page = readFileSync(join(root, "docs/clients.md"), "utf8");
const code = (fence: string): string | undefined =>
  new RegExp(`^\`\`\`${fence}\n([\\s\\S]*?)^\`\`\`$`, "m").exec(page)?.[1];
const exec = promisify(execFile);

let relay: TestRelay;
let receiver: Receiver;
let folder: string;
let env: NodeJS.ProcessEnv;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "relay-clients-guide-"));
  receiver = await startReceiver({ otherwise: 500 });
  relay = await startRelay({ retry: { attempts: 1 } });
  await relay.subscribe(receiver.url());
  await relay.publish({ type: "deposit:paid", keyId: "key_1", id: "lost", data: 1 });
  await eventually("an event has failed", async () => (await relay.event("lost")).status === "failed");
  env = {
    ...process.env,
    RELAY_URL: relay.url,
    RELAY_TOKEN: await relay.token({ mfa: true }),
    RELAY_PUBLISH_TOKEN: TEST_KEYS.publishToken,
  };
});
afterAll(async () => {
  await relay[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

/** Runs the page's commands in a shell. */
const shell = (script: string, cwd: string) => exec("sh", ["-e", "-c", script], { cwd, env, maxBuffer: 1 << 26 });

/** Installs what the page says, or says why that cannot be done here. A second run finds it. */
async function install({ fence, kept }: Language, at: string): Promise<string | undefined> {
  const script = code(`sh ${fence} install`);
  if (script === undefined) return undefined;
  const cache = join(
    root,
    "node_modules/.cache/clients",
    createHash("sha256").update(script).digest("hex").slice(0, 16),
  );
  const done = join(cache, "installed");
  if (!existsSync(done)) {
    rmSync(cache, { recursive: true, force: true });
    mkdirSync(cache, { recursive: true });
    try {
      await shell(script, cache);
    } catch (error) {
      return `what generates it cannot be installed here: ${String(error).slice(0, 500)}`;
    }
    writeFileSync(done, "");
  }
  if (kept !== undefined) symlinkSync(join(cache, kept), join(at, kept));
  return undefined;
}

describe("the clients of the guide", () => {
  it("are all tried", () => {
    const fences = [...page.matchAll(/^```(\w+) client$/gm)].map(([, fence]) => fence);
    expect(fences).toEqual(
      LANGUAGES.map(({ fence }) => fence).filter((fence) => code(`${fence} client`) !== undefined),
    );
  });

  it.for(LANGUAGES)(
    "in $fence create, publish, list, replay and rotate",
    { timeout: 600_000 },
    async (language, { skip }) => {
      const absent = language.needs.filter((command) => findCommand(command) === undefined);
      skip(absent.length > 0, `there is no ${absent.join(" and no ")} here, and tools/setup.mjs does not install it`);
      const at = join(folder, language.fence);
      mkdirSync(at);
      const failed = await install(language, at);
      skip(failed !== undefined, failed);
      const generate = code(`sh ${language.fence} generate`);
      if (generate !== undefined) await shell(generate, at);
      const text = code(`${language.fence} client`);
      if (text === undefined) return;
      const client = `"${new URL("../../core/client/index.ts", import.meta.url).href}"`;
      const own = text.replace("https://hooks.example.com/relay", receiver.url()).replace('"relaybox/client"', client);
      writeFileSync(join(at, language.file), own);
      const [command, ...args] = language.run;
      const { stdout } = await exec(command.includes("/.venv") ? join(at, command) : command, args, { cwd: at, env });
      const lines = stdout.trim().split("\n");
      const id = lines[0]?.split(" ")[1] ?? "";
      expect(lines[0]).toMatch(/^created sub_\w+$/);
      expect(lines).toContain("replayed lost 1");
      expect(lines.at(-1)).toBe(`rotated ${id}`);
      const published = await relay.call("GET", `/api-keys/key_1/events?subscriptionId=${id}`);
      expect(published.json.data).toMatchObject([{ type: "deposit:paid" }]);
    },
  );
});
