// The quick start of the README, typed as it stands there, on ports and a folder of its own.
import { spawn, type ChildProcess } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const CONFIG = "examples/quickstart/relay.config.ts";

/** The commands of the block under the heading, without comments. */
function quickStart(): readonly string[] {
  const [, block = ""] =
    /^## Quick start$[\s\S]*?^```sh\n([\s\S]*?)^```$/m.exec(readFileSync(join(root, "README.md"), "utf8")) ?? [];
  return block.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
}

interface Typed {
  readonly child: ChildProcess;
  /** Returns all that it has printed so far, on both streams. */
  printed(): string;
  readonly ended: Promise<number | null>;
}

let folder: string;
const running: Typed[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "relay-quick-start-"));
});
afterEach(async () => {
  for (const { child } of running) child.kill("SIGKILL");
  await Promise.all(running.splice(0).map(({ ended }) => ended));
  rmSync(folder, { recursive: true });
});

/** Types a line into a shell in the folder; `npm run relay` is the checkout's own command. */
function type(line: string, env: Readonly<Record<string, string>> = {}): Typed {
  const command = line.replace("npm run --silent relay --", 'exec "$NODE" "$RELAY"');
  const child = spawn("sh", ["-c", command], {
    cwd: folder,
    env: { PATH: process.env["PATH"], NODE: process.execPath, RELAY: join(root, "cli/relay.mjs"), ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let printed = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (printed += chunk));
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => (printed += chunk));
  const typed = {
    child,
    printed: () => printed,
    ended: new Promise<number | null>((done) => child.once("close", (code) => done(code))),
  };
  running.push(typed);
  return typed;
}

/** Waits until the command has printed the pattern. */
const prints = ({ printed }: Typed, pattern: RegExp): Promise<RegExpExecArray> =>
  vi.waitFor(() => pattern.exec(printed()) ?? expect.fail(`it has not printed ${pattern}: ${printed()}`), 60_000);

it("leads to a verified delivery in six commands", async () => {
  const [install, listen = "", start = "", ...rest] = quickStart();
  expect([install, rest.length]).toEqual(["npm ci", 3]);
  const receiver = type(`${listen} --port 0`);
  const [, port = ""] = await prints(receiver, /listening at https:\/\/127\.0\.0\.1:(\d+)/);

  mkdirSync(join(folder, "examples/quickstart"), { recursive: true });
  cpSync(join(root, "package.json"), join(folder, "package.json"));
  const config = readFileSync(join(root, CONFIG), "utf8");
  expect(config).toContain("127.0.0.1:8443");
  writeFileSync(join(folder, CONFIG), config.replace("8443", port));
  const [, url = ""] = await prints(type(start, { RELAY_PORT: "0" }), /(http:\/\/127\.0\.0\.1:\d+)(?![\d/])/);

  for (const line of rest.slice(0, 2)) {
    const typed = type(line.replace("8443", port), { RELAY_URL: url });
    expect(await typed.ended, typed.printed()).toBe(0);
  }
  await prints(receiver, /deposit:paid {2}evt_\w+ {2}attempt 1 {2}signature verified {2}answered 200/);
  await prints(receiver, /"keyId":"key_1","createdAt":"[^"]+","data":\{"amount":"12.50"\}\}/);
  await vi.waitFor(async () => {
    const typed = type(rest[2] as string, { RELAY_URL: url });
    expect(await typed.ended).toBe(0);
    expect(typed.printed()).toMatch(/deposit:paid +delivered/);
  }, 240_000);
});
