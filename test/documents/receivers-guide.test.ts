// The receivers of docs/receivers.md run as they are written there: each answers deliveries that the relay has signed, and
// others, over HTTP. One whose framework cannot be had here is skipped, and says why, under CI=true too.
import { execFile, spawn } from "node:child_process";
import { hash } from "node:crypto";
import { once } from "node:events";
import { copyFile, cp, mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { signedHeaders } from "../../core/signing/headers.ts";
import { newSecret, signingKey } from "../../core/signing/secret.ts";
import { freePort } from "../../tools/free-port.ts";
import { ask } from "../support/ask.ts";
import { type Build, builtOnce } from "../support/built-once.ts";
import { eventually } from "../support/until.ts";

const root = resolve(import.meta.dirname, "../..");
const run = promisify(execFile);
const page = await readFile(join(root, "docs/receivers.md"), "utf8");
const guide = await readFile(join(root, "docs/verify.md"), "utf8");

interface Receiver {
  readonly fence: string;
  /** The file that the code of the page is written to. */
  readonly file: string;
  /** The fence of docs/verify.md whose function it uses, and its file. */
  readonly verify?: readonly [fence: string, file: string];
  /** Prepares it. @returns why it cannot be run here, or undefined */
  readonly lacks?: (folder: string) => Promise<string | undefined>;
  /** Starts it; `$PORT` is the port. */
  readonly start: readonly [command: string, ...args: string[]];
}

const door = pathToFileURL(join(root, "config/module-resolver.ts")).href;
const node = (file: string) => ({ file, start: [process.execPath, "serve.mjs", door, `./${file}`] as const });
const python = { verify: ["python verify", "verify.py"], lacks: noPython } as const;

const RECEIVERS: readonly Receiver[] = [
  { fence: "js express", ...node("express.mjs") },
  { fence: "js fastify", ...node("fastify.mjs") },
  { fence: "js hono", ...node("hono.mjs") },
  { fence: "ts next", ...node("route.ts") },
  { fence: "python flask", file: "shop.py", ...python, start: ["python3", "-m", "flask", "--app", "shop", "run", "-p", "$PORT"] },
  { fence: "python fastapi", file: "orders.py", ...python, start: ["python3", "-m", "uvicorn", "orders:app", "--port", "$PORT"] },
  { fence: "python django", file: "views.py", ...python, start: ["python3", "django_server.py"] },
  { fence: "go receiver", file: "receiver.go", verify: ["go verify", "verify.go"], lacks: noGo, start: ["./receiver"] },
  { fence: "php receiver", file: "receiver.php", verify: ["php verify", "verify.php"], lacks: () => missing("php"), start: ["php", "-S", "127.0.0.1:$PORT", "receiver.php"] },
  { fence: "php laravel", file: "api.php", lacks: () => byHand("Laravel and Composer"), start: ["php"] },
  { fence: "ruby rails", file: "webhooks_controller.rb", verify: ["ruby verify", "verify.rb"], lacks: noRails, start: ["ruby", "rails_server.rb"] },
  { fence: "java spring", file: "WebhookController.java", lacks: noSpring, start: ["java", "-jar", "receiver.jar", "--server.port=$PORT"] },
  { fence: "rust axum", file: "main.rs", lacks: noAxum, start: ["./axum-receiver"] },
  { fence: "csharp aspnet", file: "Program.cs", lacks: () => byHand(".NET"), start: ["dotnet", "run"] },
]; // prettier-ignore

/** What the set-up of the tests does not install. */
const byHand = (what: string) => Promise.resolve(`needs ${what}: not run here`);

async function missing(command: string, ...args: string[]): Promise<string | undefined> {
  const tried = run(command, args.length > 0 ? args : ["--version"], { timeout: 60_000 });
  return tried.then(
    () => undefined,
    () => `needs ${[command, ...args].join(" ")}`,
  );
}
function noRails(): Promise<string | undefined> {
  return missing("ruby", "-e", 'require "rails"; require "puma"');
}

async function noGo(folder: string): Promise<string | undefined> {
  const absent = await missing("go", "version");
  if (absent !== undefined) return absent;
  await writeFile(join(folder, "go.mod"), "module receiver\n\ngo 1.22\n");
  await run("go", ["build", "-o", "receiver", "receiver.go", "verify.go"], { cwd: folder });
  return undefined;
}

const kept = (name: string): Promise<string> => readFile(join(import.meta.dirname, "receivers", name), "utf8");

async function built(build: Build, at: string): Promise<string | undefined> {
  const made = await builtOnce(build);
  if ("lacks" in made) return made.lacks;
  await copyFile(made.file, at);
  return undefined;
}

async function noSpring(folder: string): Promise<string | undefined> {
  const inPackage = (code: string): string => `package shop;\n\n${code}`;
  const sources = {
    "pom.xml": await kept("spring/pom.xml"),
    "src/shop/App.java": await kept("spring/App.java"),
    "src/shop/Webhook.java": inPackage(codeOf(guide, "java verify")),
    "src/shop/WebhookController.java": inPackage(codeOf(page, "java spring")),
  };
  const tries = [
    ["-B", "-q", "-o", "package"],
    ["-B", "-q", "package"],
  ];
  const build = { sources, tool: "mvn", tries, product: "target/receiver.jar", wrong: /COMPILATION ERROR/ };
  return built(build, join(folder, "receiver.jar"));
}

async function noAxum(folder: string): Promise<string | undefined> {
  const sources = {
    "Cargo.toml": await kept("axum/Cargo.toml"),
    "Cargo.lock": await kept("axum/Cargo.lock"),
    "main.rs": codeOf(page, "rust axum"),
  };
  const tries = [
    ["build", "-q", "--locked", "--offline"],
    ["build", "-q", "--locked"],
  ];
  const build = {
    sources,
    tool: "cargo",
    tries,
    product: "target/debug/receiver",
    wrong: /could not compile `receiver`/,
  };
  return built(build, join(folder, "axum-receiver"));
}

const requirements = join(import.meta.dirname, "receivers/requirements.txt");
const packages = join(root, "node_modules/.cache/receivers", hash("sha256", await readFile(requirements)).slice(0, 12));
let installing: Promise<string | undefined> | undefined;

/** Installs the pinned packages once, beside those of npm. */
async function noPython(): Promise<string | undefined> {
  const absent = await missing("python3", "-m", "pip", "--version");
  if (absent !== undefined || existsSync(packages)) return absent;
  return (installing ??= install());
}
async function install(): Promise<string | undefined> {
  await mkdir(join(packages, ".."), { recursive: true });
  const made = await mkdtemp(`${packages}-`);
  const args = ["-m", "pip", "install", "-q", "--target", made, "-r", requirements];
  try {
    await run("python3", args, { timeout: 300_000 });
    if (!existsSync(packages)) await rename(made, packages);
    return undefined;
  } catch {
    return "pip cannot install test/documents/receivers/requirements.txt here";
  } finally {
    await rm(made, { recursive: true, force: true });
  }
}

const codeOf = (text: string, fence: string): string => {
  const [, code = ""] = new RegExp(`^\`\`\`${fence}\n([\\s\\S]*?)^\`\`\`$`, "m").exec(text) ?? [];
  return code;
};

let folder: string;
beforeAll(async () => {
  await mkdir(join(root, "dist"), { recursive: true });
  folder = await mkdtemp(join(root, "dist/receivers-"));
  await cp(join(import.meta.dirname, "receivers"), folder, { recursive: true });
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const secret = newSecret();
/** Printed again by any library, it has other bytes. */
const BODY =
  '{"id":"evt_1","type":"deposit:paid","keyId":"key_1","createdAt":"2026-11-20T10:00:00.000Z","data":{"n": 1.0, "text":"Zürich \\u2013 東京"}}';

async function post(port: number, body: string, signedBy?: string): Promise<number> {
  const event = { eventId: "evt_1", type: "deposit:paid", attempt: 1, cycle: 0, body: Buffer.from(BODY) };
  const headers =
    signedBy === undefined
      ? { "Content-Type": "application/json" }
      : signedHeaders(event, [signingKey(signedBy)], Date.now());
  return (await ask(port, "POST", "/webhooks", { headers, body })).status;
}

describe("the whole receivers of the guide", () => {
  it("are all tried", () => {
    const fences = [...page.matchAll(/^```(\S.*)$/gm)].map(([, fence]) => fence);
    expect(fences).toEqual(RECEIVERS.map(({ fence }) => fence));
  });

  it.for(RECEIVERS)(
    "keep what the relay signed, and refuse the rest: $fence",
    { timeout: 600_000 },
    async (one, { skip }) => {
      await writeFile(join(folder, one.file), codeOf(page, one.fence));
      if (one.verify !== undefined) await writeFile(join(folder, one.verify[1]), codeOf(guide, one.verify[0]));
      const reason = await one.lacks?.(folder);
      skip(reason !== undefined, reason);
      const port = await freePort();
      const [command, ...args] = one.start.map((arg) => arg.replace("$PORT", String(port)));
      const env = { ...process.env, PORT: String(port), WEBHOOK_SECRET: secret, PYTHONPATH: packages };
      const child = spawn(command as string, args, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
      let said = "";
      for (const stream of [child.stdout, child.stderr])
        stream.on("data", (chunk: Buffer) => (said += chunk.toString()));
      const over = once(child, "exit");
      try {
        await eventually(`${one.fence} listens`, async () => {
          if (child.exitCode !== null) throw new Error(`it has ended: ${said}`);
          return ask(port, "GET", "/").then(
            () => true,
            () => false,
          );
        });
        const answers = [
          await post(port, BODY, secret),
          await post(port, BODY, newSecret()),
          await post(port, BODY.replace("1.0", "2.0"), secret),
          await post(port, BODY),
        ];
        expect(answers, said).toEqual([204, 401, 401, 401]);
      } finally {
        child.kill("SIGKILL");
        await over;
      }
    },
  );
});
