/** The egress proxy: tunnels to the address that the guard has checked, over real sockets. */
import { once } from "node:events";
import { connect, createServer, Socket, type AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { resolvePlan } from "../../config/validate.ts";
import { secretFrom } from "../../core/model/secret-option.ts";
import { https } from "../../plugins/transport/https.ts";
import type { HttpsOptions } from "../../plugins/transport/https.ts";
import { freePort } from "../../tools/free-port.ts";
import { clientCertificate } from "../support/certificates.ts";
import { runCommand } from "../support/command.ts";
import { testFolder } from "../support/folder.ts";
import { openHttps } from "../support/https.ts";
import { pacedClock } from "../support/paced-clock.ts";
import { startProxy } from "../support/proxy.ts";
import { startReceiver } from "../support/receiver.ts";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

const folder = testFolder();

describe("every connection goes through the proxy", () => {
  it.each([false, true])("to the checked address, verified by the name (the proxy speaks TLS: %s)", async (tls) => {
    await using proxy = await startProxy({ tls });
    await using receiver = await startReceiver({ clients: true });
    const url = `${tls ? "https" : "http"}://us%20er:p%40ss@localhost:${proxy.port}`;
    const names: string[] = [];
    const guard = {
      allow: ["127.0.0.1:*", "hooks.shop-example.com:*", "localhost:*"],
      resolver: (name: string) => {
        names.push(name);
        return Promise.resolve(["127.0.0.1"]);
      },
    };
    await using line = await openHttps({ options: { proxy: url }, guard });
    const credentials = { clientCertificate: await clientCertificate() };
    const send = (host: string) => line.send({ url: `https://${host}:${receiver.port}/hook`, credentials });
    expect(await send("localhost")).toMatchObject({ status: 200 });
    expect(await send("localhost")).toMatchObject({ status: 200 });
    const authorization = `Basic ${Buffer.from("us er:p@ss").toString("base64")}`;
    // The address and not the name; one tunnel for both requests.
    expect(proxy.asked).toEqual([{ authority: `127.0.0.1:${receiver.port}`, authorization }]);
    expect(receiver.connections()).toBe(1);
    // The certificate is not for this name.
    expect(await send("hooks.shop-example.com")).toMatchObject({ error: "tls" });
    expect(names).toContain("hooks.shop-example.com");
  });

  it("and never to an address that the guard refuses, or from a name that does not resolve", async () => {
    await using proxy = await startProxy();
    const guard = {
      resolver: (name: string) => Promise.resolve(name === "empty.example.com" ? [] : ["127.0.0.1", "10.0.0.1"]),
      allow: [],
    };
    const options = { proxy: `http://127.0.0.1:${proxy.port}` };
    await using line = await openHttps({ options, guard });
    for (const [host, error] of [
      ["hooks.shop-example.com", "guard"],
      ["127.0.0.1", "guard"],
      ["169.254.169.254", "guard"],
      ["empty.example.com", "dns"],
    ])
      expect(await line.send({ url: `https://${host}/hook` }), host).toMatchObject({ error });
    expect(proxy.asked).toEqual([]);
  });

  it("and tries the target's other addresses when the proxy cannot reach the first", async () => {
    await using proxy = await startProxy();
    await using receiver = await startReceiver();
    const guard = { resolver: () => Promise.resolve(["127.0.0.9", "127.0.0.1"]), allow: ["localhost:*"] };
    await using line = await openHttps({ options: { proxy: `http://127.0.0.1:${proxy.port}` }, guard });
    expect(await line.send({ url: `https://localhost:${receiver.port}/` })).toMatchObject({ status: 200 });
    expect(proxy.asked.map(({ authority }) => authority)).toEqual([
      `127.0.0.9:${receiver.port}`,
      `127.0.0.1:${receiver.port}`,
    ]);
  });
});

describe("what the proxy answers", () => {
  const status = (text: string): string => `HTTP/1.1 ${text}\r\nContent-Length: 0\r\n\r\n`;
  it.each([
    [status("403 Forbidden"), { kind: "error", error: "connect", detail: "the proxy refuses the connection (403)" }],
    [status("504 Gateway Timeout"), { kind: "error", error: "connect", detail: "the proxy cannot connect (504)" }],
    [status("407 Proxy Authentication Required"), { kind: "unavailable", detail: expect.stringContaining("407") }],
    // The answer of tinyproxy to a wrong password.
    [status("401 Unauthorized"), { kind: "unavailable", detail: expect.stringContaining("credentials (401)") }],
    ["", { kind: "unavailable", detail: "the proxy closed the connection" }],
    ["SSH-2.0-x\r\n\r\n", { kind: "unavailable", detail: "the proxy's answer is not HTTP" }],
    [`HTTP/1.1 200 OK\r\nX: ${"x".repeat(9_000)}`, { kind: "unavailable", detail: "the proxy's answer is not HTTP" }],
    ["HTTP/1.1 200 OK\r\n\r\nhello", { kind: "unavailable", detail: "the proxy's answer is not HTTP" }],
  ])("%#: is the target's fault or its own", async (answer, reply) => {
    await using proxy = await startProxy();
    await using receiver = await startReceiver();
    await using line = await openHttps({ options: { proxy: `http://127.0.0.1:${proxy.port}` } });
    proxy.refuse(answer);
    expect(await line.send({ url: receiver.url() })).toEqual(reply);
    // A refusal of the proxy itself shows in /readyz until a connection comes through again.
    expect(line.transport.readiness?.()).toEqual(reply.kind === "unavailable" ? reply.detail : undefined);
    proxy.refuse(undefined);
    expect(await line.send({ url: receiver.url() })).toMatchObject({ status: 200 });
    expect(line.transport.readiness?.()).toBeUndefined();
  });

  it("or nobody, where no proxy listens: nothing of the subscription is used up", async () => {
    const { port } = await startProxy().then(async (proxy) => {
      await proxy[Symbol.asyncDispose]();
      return proxy;
    });
    await using receiver = await startReceiver();
    await using line = await openHttps({ options: { proxy: `http://127.0.0.1:${port}` } });
    expect(await line.send({ url: receiver.url() })).toEqual({
      kind: "unavailable",
      detail: expect.stringMatching(
        /^the proxy cannot be reached: cannot connect: nothing listens there \(ECONNREFUSED/,
      ),
    });
  });
});

it("an access token that the proxy keeps away uses up nothing of the subscription", async () => {
  await using proxy = await startProxy();
  await using endpoint = await startReceiver({ otherwise: { do: "reply", body: '{"access_token":"abc"}' } });
  await using receiver = await startReceiver();
  await using line = await openHttps({ options: { proxy: `http://127.0.0.1:${proxy.port}` } });
  const oauth2 = { tokenUrl: endpoint.url("/token"), clientId: "a", clientSecret: "b" };
  const send = () => line.send({ url: receiver.url(), credentials: { oauth2 } });
  proxy.refuse("");
  expect(await send()).toEqual({ kind: "unavailable", detail: "the proxy closed the connection" });
  proxy.refuse(undefined);
  expect(await send()).toMatchObject({ status: 200 });
  expect(receiver.requests.map(({ headers }) => headers.authorization)).toEqual(["Bearer abc"]);
});

it("a proxy stays away in /readyz while only connections fail that never asked it", async () => {
  const guard = { allow: ["127.0.0.1:*", "empty.example.com:*"], resolver: () => Promise.resolve([]) };
  await using line = await openHttps({ options: { proxy: `http://127.0.0.1:${await freePort()}` }, guard });
  expect(await line.send({ url: "https://127.0.0.1/" })).toMatchObject({ kind: "unavailable" });
  const away = expect.stringMatching(
    /^the proxy cannot be reached: cannot connect: nothing listens there \(ECONNREFUSED/,
  );
  for (const [host, error] of [
    ["empty.example.com", "dns"],
    ["10.0.0.1", "guard"],
  ]) {
    expect(await line.send({ url: `https://${host}/`, subscriptionId: "sub_2" })).toMatchObject({ error });
    expect(line.transport.readiness?.()).toEqual(away);
  }
});

describe("a proxy that does not answer is the operator's fault", () => {
  const away = "the proxy cannot be reached: it does not answer";
  const clock = pacedClock((ms) => ms / 20);
  const allow = ["127.0.0.1:*"];

  it("when its address is silent, as a host that is off", async () => {
    // A socket whose SYN nobody answers has neither connected nor failed.
    const dial = (host: string, port: number) => (host === "127.0.0.9" ? new Socket() : connect({ host, port }));
    await using line = await openHttps({ options: { proxy: "http://127.0.0.9:3128" }, guard: { dial, allow }, clock });
    const reply = await line.send({ url: "https://127.0.0.1/", timeoutMs: 10_000 });
    expect(reply).toEqual({ kind: "unavailable", detail: away });
    expect(line.transport.readiness?.()).toEqual(away);
  });

  it("when its TLS handshake hangs", async () => {
    const hung = createServer((socket) => void socket.on("error", () => {}).resume()).listen(0, "127.0.0.1");
    await once(hung, "listening");
    const { port } = hung.address() as AddressInfo;
    await using line = await openHttps({ options: { proxy: `https://127.0.0.1:${port}` }, guard: { allow }, clock });
    const reply = await line.send({ url: "https://127.0.0.1/", timeoutMs: 10_000 });
    hung.close();
    expect(reply).toEqual({ kind: "unavailable", detail: away });
    expect(line.transport.readiness?.()).toEqual(away);
  });
});

describe("the option", () => {
  it("is refused with its path and without its value when it is no proxy's URL", () => {
    for (const proxy of ["socks5://user:hunter2@a:1", "http://user:hunter2@a:1/path", "hunter2", "http://"]) {
      const around = { configDir: folder, cwd: folder, settings: {} };
      try {
        resolvePlan({ transports: [https({ proxy })] }, around);
        expect.unreachable(proxy);
      } catch (error) {
        const { problems } = error as { problems: readonly { path: string; message: string }[] };
        expect(problems).toMatchObject([{ path: "transports[0].proxy" }]);
        expect(JSON.stringify(problems)).not.toContain("hunter2");
      }
    }
    expect(https({ proxy: secretFrom({ env: "PROXY" }) } satisfies HttpsOptions).problems).toEqual([]);
  });

  it("is shown by relay check without its credentials, and used by relay check --url", async () => {
    await using proxy = await startProxy();
    await using receiver = await startReceiver();
    writeFileSync(join(folder, "ca.pem"), receiver.ca);
    const config = `import { defineRelay, https, secretFrom } from "relaybox";
const proxy = process.env["FROM"] === undefined ? "http://user:hunter2@127.0.0.1:${proxy.port}" : secretFrom({ env: "FROM" });
export default defineRelay({ guard: { allow: ["127.0.0.1:*"], ca: "ca.pem" }, transports: [https({ proxy })] });`;
    writeFileSync(join(folder, "relay.config.ts"), config);
    const checked = await runCommand(["check"], { cwd: folder });
    expect(checked.stdout).toContain(`https (through the proxy http://127.0.0.1:${proxy.port})`);
    const environments: Record<string, string>[] = [{}, { FROM: `http://user:hunter2@127.0.0.1:${proxy.port}` }];
    for (const env of environments) {
      const seen = await runCommand(["check", "--url", receiver.url()], { cwd: folder, env });
      expect(seen.stdout).toContain(`${receiver.url()}: `);
      expect(seen.stdout + seen.stderr + checked.stdout).not.toContain("hunter2");
    }
    expect(proxy.asked).toHaveLength(2);
  });
});
