// `relay status --ready`: what a container's health check runs.
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { beforeEach, expect, it } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";
import { testAuthority } from "../support/certificates.ts";
import { runHere } from "../support/command-here.ts";
import { CommandStage, ends, fakeRelay, says } from "../support/command-stage.ts";
import { runCommand } from "../support/command.ts";

const fake = fakeRelay();
beforeEach(() => void (fake.asked = []));
const parts = (status: number, all: object) => says(status, { data: { parts: all } });

const ask = (port: number, ...more: readonly string[]) =>
  runHere(["status", "--ready", ...more], { cwd: tmpdir(), env: { RELAY_PORT: String(port) } });

it("ends with 0 and shows each part when the relay is ready", async () => {
  fake.answer = parts(200, { relay: { ready: true, state: "running" }, storage: { ready: true } });
  const env = { RELAY_PORT: String(fake.port) };
  const { code, stdout } = await runCommand(["status", "--ready"], { cwd: tmpdir(), env });
  expect(code).toBe(0);
  expect(stdout).toMatch(/^relay +running$/m);
  expect(stdout).toMatch(/^storage +ready$/m);
  expect(fake.asked[0]?.url).toBe("/readyz");
  expect(fake.asked[0]?.headers.authorization).toBeUndefined();
});

it("ends with 75 while it is not, and says which part is not", async () => {
  fake.answer = parts(503, { storage: { ready: false, state: "does not answer" } });
  const { code, stdout } = await ask(fake.port, "--json");
  expect(code).toBe(75);
  expect(JSON.parse(stdout)).toEqual({ ready: false, parts: { storage: "does not answer" } });
});

it("ends with 69 where nobody answers, or something that is no relay", async () => {
  expect((await ask(1)).code).toBe(69);
  fake.answer = (_, response) => void response.end("<html>");
  expect(await ask(fake.port)).toMatchObject(ends(69, "as no relay does"));
});

it("says in words why nobody answers, and refuses a URL that it would have to print with a password", async () => {
  expect(await ask(0, "--url", "http://localhost:9")).toMatchObject(ends(69, "nothing listens there (ECONNREFUSED)"));
  const plain = await ask(0, "--url", `https://127.0.0.1:${fake.port}`);
  expect(plain).toMatchObject({
    code: 69,
    stderr: expect.stringMatching(/: it speaks no TLS \([A-Z_]+\): see whether that port speaks TLS/),
  });
  for (const url of [`http://me:secret@127.0.0.1:${fake.port}`, "ftp://127.0.0.1"]) {
    const ran = await ask(0, "--url", url);
    expect(ran).toMatchObject({ code: 64, stdout: "" });
    expect(ran.stderr).not.toContain("secret");
  }
});

it("does not wait for ever", async () => {
  const asked = Promise.withResolvers<void>();
  fake.answer = () => asked.resolve();
  const waits: number[] = [];
  const sleep = async (until: number): Promise<void> => {
    waits.push(until);
    await asked.promise;
  };
  const env = { RELAY_PORT: String(fake.port) };
  const clock = { ...systemClock(), now: () => 0, sleep };
  const ran = await runHere(["status", "--ready"], { cwd: tmpdir(), env, clock });
  expect(ran).toMatchObject(ends(69, "none within 4 s"));
  expect(waits).toEqual([4_000]);
});

it("reaches a relay that serves TLS under its public name", async () => {
  const { cert, key } = await (await testAuthority()).issue(["relay.example.com"]);
  const server = createServer({ cert, key }, parts(200, {}));
  await new Promise<void>((done) => void server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  const url = `https://127.0.0.1:${port}`;
  const stage = new CommandStage(`server: { port: ${port}, tls: { cert: "./cert.pem", key: "./key.pem" } }`);
  stage.write("cert.pem", cert);
  stage.write("key.pem", key);
  const here = await stage.run("status --ready");
  expect(here).toMatchObject({ code: 0, stdout: expect.stringContaining(url) });
  // A command that sends a token asks the same server, whose certificate the config names.
  expect(await stage.run("stats --token x --key k")).toMatchObject(ends(69, "the answer is not that of a relay"));
  // One that is named is one somewhere else: there the certificate must be right.
  expect((await stage.run(`status --ready --url ${url}`)).code).toBe(69);
  server.closeAllConnections();
  await new Promise((done) => void server.close(done));
});
