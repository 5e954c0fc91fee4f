// docs/incoming.md from its first example to the delivery, on ports of its own. `relay check` tries its configs elsewhere.
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { testAuthority } from "../support/certificates.ts";
import { runCommand, startCommand } from "../support/command.ts";
import { testFolder } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { startReceiver } from "../support/receiver.ts";
import { TEST_ENV } from "../support/relay.ts";
import * as presets from "../../plugins/source/webhooks/presets.ts";

const page = readFileSync(new URL("../../docs/incoming.md", import.meta.url), "utf8");
const block = (info: string, at = 0): string =>
  [...page.matchAll(new RegExp(`^\`\`\`${info}\\n([\\s\\S]*?)^\`\`\`$`, "gm"))][at]?.[1] ?? expect.fail(info);
const missing = needs("curl") ?? needs("openssl");

it("the guide to webhooks that come in leads from the provider to the service", async ({ skip }) => {
  skip(missing !== undefined, missing);
  const folder = testFolder();
  await using receiver = await startReceiver();
  const { port } = new URL(receiver.url());
  mkdirSync(join(folder, "tls"));
  writeFileSync(join(folder, "tls/ca.pem"), (await testAuthority()).ca);
  writeFileSync(join(folder, "relay.config.ts"), block("ts config").replace("127.0.0.1:8443", `127.0.0.1:${port}`));
  const options = { cwd: folder, env: { ...TEST_ENV, RELAY_PORT: "0" } };
  await using relay = startCommand(["start"], options);
  const [, url = ""] = await relay.waitFor(/listening at (http[^\s"]+)["\n]/);

  const line = block("sh").split("\n")[1] ?? "";
  const [, args = ""] = /^relay (.*)$/.exec(line) ?? [];
  const words = args.replaceAll("'", "").replace("https://127.0.0.1:8443/stripe", receiver.url()).split(" ");
  const made = await runCommand(words, { ...options, env: { ...options.env, RELAY_URL: url } });
  expect(made.code, made.stderr).toBe(0);

  const script = block("sh run").replace("http://127.0.0.1:8080", url);
  const { stdout } = await promisify(execFile)("sh", ["-e", "-c", script], { cwd: folder });
  expect(`${stdout}\n`).toBe(block("text answer"));
  const anyTime = (text: string): string => text.replace(/"createdAt":"[^"]+"/, "");
  await expect
    .poll(() => receiver.requests.map(({ body }) => `${anyTime(body.toString())}\n`))
    .toEqual([anyTime(block("text body"))]);

  const status = await runCommand(["status"], { ...options, env: { ...options.env, RELAY_URL: url } });
  expect(status.stdout).toMatch(/sources +.*\/in\/stripe.*key billing.*accepted 1/);
});

it("the guide has a row for every preset", () => {
  const rows = [...page.matchAll(/^\| `(\w+)\(\{/gm)].map(([, name]) => name);
  const general = new Set(["hmac", "ed25519", "basic", "apiKey", "addresses"]);
  expect(rows.toSorted()).toEqual(
    Object.keys(presets)
      .filter((name) => !general.has(name))
      .toSorted(),
  );
});
