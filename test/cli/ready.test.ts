// `relay status --ready`: what a container's health check runs.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { ends } from "../support/command-stage.ts";
import { testAuthority } from "../support/certificates.ts";
import { runHere } from "../support/command-here.ts";
import { runCommand } from "../support/command.ts";
import { systemClock } from "../../core/runtime/clock.ts";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function serve(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  tls?: { readonly cert: string; readonly key: string },
): Promise<number> {
  const server = tls === undefined ? createServer(answer) : createTlsServer(tls, answer);
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  closing.push(() => {
    server.closeAllConnections();
    return new Promise((done) => server.close(done));
  });
  return (server.address() as AddressInfo).port;
}

const says =
  (status: number, parts: object) =>
  (_: unknown, response: ServerResponse): void =>
    void response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ data: { parts } }));

const ask = (port: number, env: Readonly<Record<string, string>> = {}, ...more: readonly string[]) =>
  runHere(["status", "--ready", ...more], { cwd: tmpdir(), env: { RELAY_PORT: String(port), ...env } });

it("ends with 0 and shows each part when the relay is ready", async () => {
  let asked: IncomingMessage | undefined;
  const port = await serve((request, response) => {
    asked = request;
    says(200, { relay: { ready: true, state: "running" }, storage: { ready: true } })(request, response);
  });
  const env = { RELAY_PORT: String(port) };
  const { code, stdout } = await runCommand(["status", "--ready"], { cwd: tmpdir(), env });
  expect(code).toBe(0);
  expect(stdout).toMatch(/^relay +running$/m);
  expect(stdout).toMatch(/^storage +ready$/m);
  expect(asked?.url).toBe("/readyz");
  expect(asked?.headers.authorization).toBeUndefined();
});

it("ends with 75 while it is not, and says which part is not", async () => {
  const port = await serve(says(503, { storage: { ready: false, state: "does not answer" } }));
  const { code, stdout } = await ask(port, {}, "--json");
  expect(code).toBe(75);
  expect(JSON.parse(stdout)).toEqual({ ready: false, parts: { storage: "does not answer" } });
});

it("ends with 69 where nobody answers, or something that is no relay", async () => {
  expect((await ask(1)).code).toBe(69);
  const port = await serve((_, response) => void response.end("<html>"));
  const { code, stderr } = await ask(port);
  expect(code).toBe(69);
  expect(stderr).toContain("as no relay does");
});

it("says in words why nobody answers, and refuses a URL that it would have to print with a password", async () => {
  expect(await ask(0, {}, "--url", "http://localhost:9")).toMatchObject(
    ends(69, "nothing listens there (ECONNREFUSED)"),
  );
  const port = await serve(says(200, {}));
  expect(await ask(0, {}, "--url", `https://127.0.0.1:${port}`)).toMatchObject({
    code: 69,
    stderr: expect.stringMatching(/: it speaks no TLS \([A-Z_]+\)\n$/),
  });
  for (const url of [`http://me:secret@127.0.0.1:${port}`, "ftp://127.0.0.1"]) {
    const ran = await ask(0, {}, "--url", url);
    expect(ran).toMatchObject({ code: 64, stdout: "" });
    expect(ran.stderr).not.toContain("secret");
  }
});

it("does not wait for ever", async () => {
  const asked = Promise.withResolvers<void>();
  const port = await serve(() => asked.resolve());
  const waits: number[] = [];
  const clock = {
    ...systemClock(),
    now: () => 0,
    async sleep(until: number) {
      waits.push(until);
      await asked.promise;
    },
  };
  const env = { RELAY_PORT: String(port) };
  const { code, stderr } = await runHere(["status", "--ready"], { cwd: tmpdir(), env, clock });
  expect([code, waits]).toEqual([69, [4_000]]);
  expect(stderr).toContain("none within 4 s");
});

it("reaches a relay that serves TLS under its public name", async () => {
  const authority = await testAuthority();
  const { cert, key } = await authority.issue(["relay.example.com"]);
  const folder = await mkdtemp(join(tmpdir(), "relay-ready-"));
  closing.push(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, "cert.pem"), cert);
  await writeFile(join(folder, "key.pem"), key);
  const port = await serve(says(200, {}), { cert, key });
  const config = `export default { server: { port: ${port}, tls: { cert: "./cert.pem", key: "./key.pem" } } };`;
  await writeFile(join(folder, "relay.config.ts"), config);
  const here = await runHere(["status", "--ready"], { cwd: folder });
  expect(here.stderr + here.stdout).toContain(`https://127.0.0.1:${port}`);
  expect(here.code).toBe(0);
  // One that is named is one somewhere else: there the certificate must be right.
  const named = await runHere(["status", "--ready", "--url", `https://127.0.0.1:${port}`], { cwd: folder });
  expect(named.code).toBe(69);
});
