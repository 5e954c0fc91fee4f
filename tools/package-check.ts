// `npm run package-check`: packs, has publint and attw judge it, installs it into an empty folder from the registry, and uses it
// there as its users would: npx, types, the laws of the ports. Needs the registry.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

const PUBLINT = "publint@0.3.25";
const ATTW = "@arethetypeswrong/cli@0.18.5";

/** A relay that was started listens by then, and one that was asked to stop has ended, ms. */
const MOST_MS = 60_000;
/** The exit code of a check that cannot be made here. */
const SKIPPED = 77;

const root = resolve(import.meta.dirname, "..");
const { devDependencies } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as {
  devDependencies: Record<string, string>;
};
const run = async (cwd: string, command: string, ...args: readonly string[]): Promise<string> => {
  const { stdout, stderr } = await promisify(execFile)(command, args, { cwd, maxBuffer: 1 << 26, timeout: 240_000 });
  return stdout + stderr;
};
try {
  await run(root, "npm", "view", PUBLINT, "version");
} catch {
  console.error("not checked: the registry does not answer");
  process.exit(SKIPPED);
}
const folder = await mkdtemp(join(tmpdir(), "relay-package-"));
const user = join(folder, "user");
try {
  await check();
  console.log("the package is as it should be");
} catch (error) {
  const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
  console.error(stdout, stderr, error);
  process.exitCode = 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}

async function check(): Promise<void> {
  const packed = await run(root, "npm", "pack", "--silent", "--pack-destination", folder);
  const file = join(folder, /relaybox-\S+\.tgz/.exec(packed)?.[0] ?? "");
  console.log(`packed ${file.split("/").at(-1)}`);
  await run(folder, "npx", "--yes", PUBLINT, file, "--strict");
  console.log("publint finds nothing");
  await run(folder, "npx", "--yes", ATTW, file, "--profile", "esm-only");
  console.log("attw finds nothing");

  await mkdir(user);
  await writeFile(join(user, "package.json"), '{ "type": "module", "private": true }\n');
  const tools = ["vitest", "fast-check", "typescript", "@types/node"].map((name) => `${name}@${devDependencies[name]}`);
  await run(user, "npm", "install", "--no-audit", "--no-fund", file, ...tools);
  console.log("npm installs it");
  await serves();
  await holds();
}

/** `npx relaybox start`, until it says where it listens. */
async function serves(): Promise<void> {
  const env = { ...process.env, RELAY_PORT: "0" };
  const child = spawn("npx", ["relaybox", "start"], {
    cwd: user,
    env,
    stdio: ["ignore", "ignore", "pipe"],
    detached: true,
  });
  const ended = once(child, "exit");
  // npx does not pass the signal on to the relay, so the whole group gets it.
  const signalGroup = (name: NodeJS.Signals | 0): boolean => {
    try {
      return process.kill(-(child.pid as number), name);
    } catch {
      return false;
    }
  };
  const late = setTimeout(() => signalGroup("SIGKILL"), MOST_MS).unref();
  let said = "";
  for await (const part of child.stderr.setEncoding("utf8")) {
    said += String(part);
    const url = /listening at (http[^\s"]+)["\n]/.exec(said)?.[1];
    if (url === undefined) continue;
    const { status } = await fetch(`${url}/readyz`);
    if (status !== 200) {
      signalGroup("SIGKILL");
      throw new Error(`/readyz answers ${status}`);
    }
    break;
  }
  clearTimeout(late);
  signalGroup("SIGTERM");
  const [code, signal] = (await ended) as [number | null, string | null];
  const until = performance.now() + MOST_MS;
  while (signalGroup(0) && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 50));
  if (signalGroup("SIGKILL")) throw new Error(`the relay has not stopped after ${MOST_MS} ms`);
  if (!said.includes("listening at")) throw new Error(`npx relaybox start ended (${code ?? signal}):\n${said}`);
  console.log("npx relaybox start serves");
}

/** Types under strict rules, and the laws of the ports run with vitest. */
async function holds(): Promise<void> {
  await writeFile(
    join(user, "laws.test.ts"),
    `import { afterAll, it } from "vitest";
import { defineRelay, memory, type RelayConfig } from "relaybox";
import { verifyHex } from "relaybox/verify";
import * as laws from "relaybox/conformance";
export const config: RelayConfig = defineRelay({ storage: memory() });
export const good: boolean = verifyHex(Buffer.from(""), {}, "");
afterAll(() => { if (Object.keys(laws).length < 5) throw new Error("laws are missing"); });
it("can be imported", () => undefined);
`,
  );
  const compilerOptions = {
    module: "nodenext",
    target: "es2024",
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: ["node"],
  };
  await writeFile(join(user, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["laws.test.ts"] }));
  await run(user, "npx", "tsc", "-p", ".");
  console.log("its types hold");
  await run(user, "npx", "vitest", "run");
  console.log("the laws of the ports load in vitest");
}
