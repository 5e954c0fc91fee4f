// relay listen: a receiver that checks what arrives with the subscription's secret and answers as it is told.
import { createHmac } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { expect, it } from "vitest";
import { ends, urlOf } from "../support/command-stage.ts";
import { runCommand, startCommand } from "../support/command.ts";
import { testFolder } from "../support/folder.ts";

const folder = testFolder();
const LISTEN = ["listen", "--port", "0", "--dir", "ca"];
/** Starts a receiver, and resolves to it and its port. */
async function listen(...more: readonly string[]) {
  const listening = startCommand([...LISTEN, ...more], { cwd: folder });
  return { listening, port: Number(new URL(await urlOf(listening)).port) };
}

const SECRET = `whsec_${Buffer.alloc(32, 5).toString("base64")}`;

/** Posts a delivery as the relay would, with the certificate checked, and resolves to the status. */
function post(port: number, body: string, secret: string): Promise<number> {
  const id = "evt_1";
  const at = new Date();
  const headers = {
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(at.getTime() / 1_000)),
    "webhook-signature": new Webhook(secret).sign(id, at, body),
    "x-relay-webhook-signature": createHmac("sha256", secret).update(body).digest("hex"),
    "x-relay-event": "deposit:paid",
    "x-relay-attempt": "1",
  };
  const ca = readFileSync(join(folder, "ca", "ca.pem"));
  const to = { host: "127.0.0.1", port, path: "/hook", method: "POST", headers, ca, agent: false };
  return new Promise((resolve, reject) => {
    const sent = request(to, (answer) => resolve(answer.resume().statusCode ?? 0));
    sent.on("error", reject).end(body);
  });
}

it("checks signatures, answers in turn, and prints each delivery safely", async () => {
  writeFileSync(join(folder, "secret"), `${SECRET}\n`);
  const { listening, port } = await listen("--secret", "@secret", "--status", "500,200");
  await using _ = listening;
  expect(await post(port, '{"n":1,"evil":"\u001b[2J"}', SECRET)).toBe(500);
  expect(await post(port, '{"n":2}', SECRET)).toBe(200);
  expect(await post(port, '{"n":3}', SECRET)).toBe(200);
  expect(await post(port, '{"n":4}', SECRET.replace("BQ", "CQ"))).toBe(401);
  await listening.waitFor(/"n":4/);
  const lines = listening.stdout().split("\n");
  expect(lines[0]).toMatch(/deposit:paid {2}evt_1 {2}attempt 1 {2}signature verified {2}answered 500$/);
  expect(lines[1]).toBe('  {"n":1,"evil":"\\u001b[2J"}');
  expect(lines[6]).toMatch(/SIGNATURE WRONG {2}answered 401$/);
  listening.kill("SIGINT");
  expect((await listening.ended).code).toBe(0);
});

it("takes the secret from a file that is written after its start, by the answer of a create", async () => {
  const { listening, port } = await listen("--secret", "@later");
  await using _ = listening;
  await listening.waitFor(/as soon as later holds the secret/);
  expect(await post(port, '{"n":1}', SECRET)).toBe(200);
  await listening.waitFor(/signature not checked/);
  writeFileSync(join(folder, "later"), `id      sub_1\nsecret  ${SECRET}\n`);
  expect(await post(port, '{"n":2}', SECRET)).toBe(200);
  await listening.waitFor(/signature verified/);
  expect(await post(port, '{"n":3}', SECRET.replace("BQ", "CQ"))).toBe(401);
});

it("keeps its authority for its owner alone, and uses it again", async () => {
  const ca = join(folder, "ca", "ca.pem");
  const before = readFileSync(ca, "utf8");
  const { listening, port } = await listen();
  await using _ = listening;
  await listening.waitFor(/signatures are not checked/);
  expect(listening.stderr()).toContain(`guard: { allow: ["127.0.0.1:${port}"], ca: "${ca}" }`);
  expect(statSync(join(folder, "ca", "ca-key.pem")).mode & 0o777).toBe(0o600);
  expect(readFileSync(ca, "utf8")).toBe(before);
  expect(await post(port, "{}", SECRET)).toBe(200);
});

it("refuses a path and any other text in place of a secret, and repeats only the path", async () => {
  writeFileSync(join(folder, "given"), SECRET);
  const listen = (secret: string) =>
    runCommand(["listen", "--port", "0", "--dir", "ca", "--secret", secret], { cwd: folder });
  expect(await listen("given")).toMatchObject({
    code: 64,
    stderr: "relay: --secret given is a file: write --secret @given\nSee relay listen --help\n",
  });
  const refused = await listen("hunter2hunter2");
  expect(refused).toMatchObject({ code: 64, stdout: "" });
  expect(refused.stderr).toMatch(/^relay: --secret takes @file/);
  expect(refused.stderr).not.toContain("hunter2");
});

it("goes on when the file of the secret can no longer be read, and says so", async () => {
  writeFileSync(join(folder, "gone"), SECRET);
  const { listening, port } = await listen("--secret", "@gone");
  await using _ = listening;
  rmSync(join(folder, "gone"));
  mkdirSync(join(folder, "gone"));
  expect(await post(port, "{}", SECRET)).toBe(200);
  await listening.waitFor(/signature not checked/);
  expect(listening.stderr()).toContain("--secret names a file that cannot be read (EISDIR)");
});

it("keeps nothing in the working folder when XDG_DATA_HOME is empty, as it then counts as unset", async () => {
  const env = { XDG_DATA_HOME: "", HOME: join(folder, "home") };
  await using listening = startCommand(["listen", "--port", "0"], { cwd: folder, env });
  await listening.waitFor(/listening at/);
  expect(existsSync(join(folder, "relay"))).toBe(false);
  expect(existsSync(join(folder, "home", ".local", "share", "relay", "listen", "ca-key.pem"))).toBe(true);
});

it("says what to do about an authority that was cut off", async () => {
  mkdirSync(join(folder, "torn"));
  copyFileSync(join(folder, "ca", "ca-key.pem"), join(folder, "torn", "ca-key.pem"));
  writeFileSync(join(folder, "torn", "ca.pem"), "");
  const ran = await runCommand(["listen", "--port", "0", "--dir", "torn"], { cwd: folder });
  expect(ran).toMatchObject(ends(69, "ca.pem or ca-key.pem is damaged: delete both, and new ones are made"));
});
