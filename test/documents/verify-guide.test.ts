// The receivers of docs/verify.md judge deliveries that the relay has signed: each in its language, where that is installed.
import { execFile } from "node:child_process";
import { createHmac } from "node:crypto";
import { accessSync, constants, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { signedHeaders } from "../../core/signing/headers.ts";
import { newSecret, signingKey } from "../../core/signing/secret.ts";
import { needs, type Program } from "../support/needs.ts";

interface Language {
  /** As the page marks its code: `python verify`. */
  readonly fence: string;
  /** The file that the code of the page is written to. */
  readonly file: string;
  /** Programs that the machine must have. */
  readonly command: string;
  /** The name in tools/programs.json, for a language that the set-up of the tests installs. */
  readonly program?: Program;
  /** Run in the folder with the code and the drivers; the last one gets the deliveries' folders too. */
  readonly steps: readonly (readonly [command: string, ...args: string[]])[];
}

const LANGUAGES: readonly Language[] = [
  { fence: "js", file: "verify.mjs", command: "node", steps: [[process.execPath, "driver.mjs"]] },
  { fence: "python", file: "verify.py", command: "python3", steps: [["python3", "driver.py"]] },
  {
    fence: "go",
    file: "verify.go",
    command: "go",
    steps: [["go", "build", "-o", "driver", "driver.go", "verify.go"], ["./driver"]],
  },
  { fence: "php", file: "verify.php", command: "php", program: "php", steps: [["php", "driver.php"]] },
  { fence: "ruby", file: "verify.rb", command: "ruby", program: "ruby", steps: [["ruby", "driver.rb"]] },
  {
    fence: "java",
    file: "Webhook.java",
    command: "javac",
    steps: [
      ["javac", "Webhook.java", "Driver.java"],
      ["java", "-cp", ".", "Driver"],
    ],
  },
  { fence: "csharp", file: "Webhook.cs", command: "dotnet", steps: [["dotnet", "run", "--"]] },
  { fence: "sh", file: "verify.sh", command: "openssl", steps: [["sh", "driver.sh"]] },
];

/**
 * Why a language is not tried here. One that the set-up does not install is skipped under CI=true as well: Debian has no
 * `dotnet`, and the compilers of Go and Java are large.
 */
function absent({ command, program }: Language): string | undefined {
  if (program !== undefined) return needs(program);
  const there = (process.env["PATH"] ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, command), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
  return there ? undefined : `there is no ${command} here, and tools/setup.mjs does not install it`;
}

interface Case {
  readonly name: string;
  readonly good: boolean;
  /** Secrets that signed it, newest first. */
  readonly signedBy: readonly string[];
  /** The one that the receiver has. */
  readonly held: string;
  /** Seconds since it was signed. */
  readonly age?: number;
  readonly change?: (headers: Record<string, string>) => void;
  readonly body?: string;
}
const [secret, older, other] = [newSecret(), newSecret(), newSecret()];
const BODY = '{"id":"evt_1","data":{"text":"Zürich – 東京"}}';

/** Signs with an empty key, as anybody can. */
function forge(headers: Record<string, string>): void {
  const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${BODY}`;
  headers["webhook-signature"] = `v1,${createHmac("sha256", "").update(signed).digest("base64")} v1,`;
}
/** Writes the names as some carriers do. */
function capitalise(headers: Record<string, string>): void {
  for (const [name, value] of Object.entries(headers)) {
    delete headers[name];
    headers[name.replaceAll(/(?<=^|-)[a-z]/g, (letter) => letter.toUpperCase())] = value;
  }
}
const CASES: readonly Case[] = [
  { name: "signed by its secret", good: true, signedBy: [secret], held: secret },
  { name: "during a rotation, to a receiver with the new secret", good: true, signedBy: [secret, older], held: secret },
  { name: "during a rotation, to a receiver with the old secret", good: true, signedBy: [secret, older], held: older },
  { name: "with its headers' names as they were sent", good: true, signedBy: [secret], held: secret, change: capitalise },
  { name: "signed a minute ago", good: true, signedBy: [secret], held: secret, age: 60 },
  { name: "signed by other secrets", good: false, signedBy: [secret, older], held: other },
  { name: "with another body", good: false, signedBy: [secret], held: secret, body: '{"n":2}' },
  { name: "signed ten minutes ago", good: false, signedBy: [secret], held: secret, age: 600 },
  { name: "signed ten minutes ahead", good: false, signedBy: [secret], held: secret, age: -600 },
  { name: "with another id", good: false, signedBy: [secret], held: secret, change: (all) => (all["webhook-id"] = "evt_2") },
  { name: "without a signature", good: false, signedBy: [secret], held: secret, change: (all) => delete all["webhook-signature"] },
  { name: "without a time", good: false, signedBy: [secret], held: secret, change: (all) => delete all["webhook-timestamp"] },
  { name: "signed with an empty key, to a receiver whose secret is not set", good: false, signedBy: [secret], held: "", change: forge },
  { name: "signed with an empty key, to a receiver with a secret without a key", good: false, signedBy: [secret], held: "whsec_", change: forge },
  { name: "with a time that is none", good: false, signedBy: [secret], held: secret, change: (all) => (all["webhook-timestamp"] = "now") },
]; // prettier-ignore

const page = readFileSync(new URL("../../docs/verify.md", import.meta.url), "utf8");
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "relay-verify-guide-"));
  cpSync(new URL("receivers", import.meta.url), folder, { recursive: true });
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Signs all cases now: a receiver looks at how old a signature is, and a compiler may take minutes. */
function sign(): void {
  for (const [i, one] of CASES.entries()) {
    const at = join(folder, String(i));
    mkdirSync(at, { recursive: true });
    const event = { eventId: "evt_1", type: "deposit:paid", attempt: 1, cycle: 0, body: Buffer.from(BODY) };
    const headers = signedHeaders(event, one.signedBy.map(signingKey), Date.now() - (one.age ?? 0) * 1_000);
    one.change?.(headers);
    writeFileSync(
      join(at, "headers"),
      Object.entries(headers)
        .map(([name, value]) => `${name}: ${value}\n`)
        .join(""),
    );
    writeFileSync(join(at, "body"), one.body ?? BODY);
    writeFileSync(join(at, "secret"), one.held);
  }
}

describe("the receivers of the guide", () => {
  it("are all tried", () => {
    const fences = [...page.matchAll(/^```(\w+) verify$/gm)].map(([, fence]) => fence);
    expect(fences).toEqual(LANGUAGES.map(({ fence }) => fence));
  });

  it.for(LANGUAGES)(
    "in $fence let in what the relay signed, and nothing else",
    { timeout: 600_000 },
    async (language, { skip }) => {
      const missing = absent(language);
      skip(missing !== undefined, missing);
      const [, code = ""] = new RegExp(`^\`\`\`${language.fence} verify\n([\\s\\S]*?)^\`\`\`$`, "m").exec(page) ?? [];
      writeFileSync(join(folder, language.file), code);
      const env = { ...process.env, GO111MODULE: "off" };
      let printed = "";
      for (const [i, [command, ...args]] of language.steps.entries()) {
        const last = i === language.steps.length - 1;
        if (last) sign();
        const folders = last ? CASES.map((_, at) => String(at)) : [];
        printed = (await promisify(execFile)(command, [...args, ...folders], { cwd: folder, env })).stdout;
      }
      const verdicts = printed.trim().split("\n");
      expect(CASES.map(({ name }, i) => `${verdicts[i]}: ${name}`)).toEqual(
        CASES.map(({ name, good }) => `${good}: ${name}`),
      );
    },
  );
});
