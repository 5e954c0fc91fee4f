/** The https transport over real TLS and HTTP/1.1, against a receiver that behaves as badly as receivers do. */
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, it } from "vitest";
import type { GuardOptions } from "../../core/guard/index.ts";
import type { Reply, TransportRequest } from "../../core/ports/transport.ts";
import { makeAuthority, testAuthority } from "../support/certificates.ts";
import { openHttps } from "../support/https.ts";
import { startReceiver, type ReceiverOptions, type Step } from "../support/receiver.ts";
import vectors from "../fixtures/vectors/ssrf.json" with { type: "json" };

const opened: AsyncDisposable[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one[Symbol.asyncDispose]();
});

/** A receiver with a script and a line to it, both closed after the test. */
const facing = async (script: readonly Step[], guard: Partial<GuardOptions> = {}, receiving: ReceiverOptions = {}) => {
  const receiver = await startReceiver({ script, ...receiving });
  opened.push(receiver);
  const line = await openHttps({ guard });
  opened.push(line);
  const send = (over: Partial<TransportRequest> = {}, signal?: AbortSignal): Promise<Reply> =>
    line.send({ url: receiver.url(), ...over }, signal);
  return { receiver, line: { ...line, send } };
};

const excerptOf = (reply: Reply): string =>
  reply.kind === "response" ? new TextDecoder().decode(reply.excerpt) : `no response: ${reply.detail}`;

describe("a request", () => {
  it("reaches a name that the operator allows, with that name in TLS", async () => {
    const { receiver, line } = await facing([200]);
    expect(await line.send({ url: `https://localhost:${receiver.port}/` })).toMatchObject({ status: 200 });
  });

  it("goes straight to the receiver, whatever proxy the environment names", async () => {
    const names = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    const before = names.map((name) => [name, process.env[name]] as const);
    for (const name of names) process.env[name] = "http://127.0.0.1:1";
    try {
      const { line } = await facing([200]);
      expect(await line.send()).toMatchObject({ status: 200 });
    } finally {
      for (const [name, value] of before) {
        if (value === undefined) delete process.env[name];
        else process.env[name] = value;
      }
    }
  });
});

describe("a redirect is an answer like any other, and its target is never contacted", () => {
  const targets = vectors.flatMap(({ redirects_to, id }) => (redirects_to === undefined ? [] : [[id, redirects_to]]));
  it.each([...targets, ["own host", "/elsewhere"]])("%s: %s", async (_, location = "") => {
    for (const status of [301, 302, 303, 307, 308]) {
      const { receiver, line } = await facing([{ do: "reply", status, headers: { location } }]);
      expect(await line.send()).toMatchObject({ kind: "response", status });
      expect(line.targets).toEqual([{ hostname: "127.0.0.1", port: receiver.port }]);
      expect(receiver.requests).toHaveLength(1);
    }
  });
});

describe("the status decides, and what happens to the body after it changes nothing", () => {
  it("a 200 whose body stalls is a 200 at the deadline", async () => {
    const { receiver, line } = await facing([{ do: "stall", status: 200 }]);
    const reply = await line.send({ timeoutMs: 1_500 });
    expect(reply).toMatchObject({ kind: "response", status: 200, truncated: true });
    expect(excerptOf(reply)).toBe("half");
    await receiver.waitForAborted(1);
  });

  it("a 500 whose body drips for ever is a 500 at the deadline", async () => {
    const { receiver, line } = await facing([{ do: "drip", everyMs: 5, status: 500 }]);
    expect(await line.send({ timeoutMs: 1_500 })).toMatchObject({ kind: "response", status: 500 });
    await receiver.waitForAborted(1);
  });

  it("of a flood no more than 64 KiB is read", async () => {
    const { receiver, line } = await facing([{ do: "flood", bytes: 50_000_000, status: 200 }]);
    const reply = await line.send();
    expect(reply).toMatchObject({ kind: "response", status: 200, truncated: true });
    expect(excerptOf(reply)).toBe("x".repeat(4_096));
    await receiver.waitForAborted(1);
  });

  it("a body of 64 KiB is read to its end, and the connection is kept", async () => {
    const { receiver, line } = await facing([{ do: "flood", bytes: 65_536 }, 200]);
    expect(await line.send()).toMatchObject({ status: 200, truncated: true });
    expect(await line.send()).toMatchObject({ status: 200 });
    expect(receiver.connections()).toBe(1);
  });

  it("a body of exactly 4 KiB is not truncated", async () => {
    const { line } = await facing([{ do: "flood", bytes: 4_096 }]);
    expect(await line.send()).toMatchObject({ truncated: false });
  });

  it("gzip is kept as it came", async () => {
    const body = gzipSync("x".repeat(100_000));
    const { line } = await facing([{ do: "reply", headers: { "content-encoding": "gzip" }, body }]);
    const reply = await line.send();
    expect(reply.kind === "response" && Buffer.compare(reply.excerpt, body)).toBe(0);
  });
});

describe("what goes wrong is reported with its stage", () => {
  const failing = async (step: Step, over: Partial<TransportRequest> = {}): Promise<Reply> => {
    const { line } = await facing([step]);
    return await line.send(over);
  };

  it("no answer: timeout", async () => {
    expect(await failing({ do: "hang" }, { timeoutMs: 1_500 })).toEqual({
      kind: "error",
      error: "timeout",
      detail: "no complete response headers within 1500 ms",
    });
  });

  it("a header block that drips: timeout in total, not between bytes", async () => {
    const began = performance.now();
    expect(await failing({ do: "drip", everyMs: 20 }, { timeoutMs: 300 })).toMatchObject({ error: "timeout" });
    // The receiver drips for ever.
    expect(performance.now() - began).toBeLessThan(30_000);
  });

  it("a name without addresses: dns", async () => {
    const { line } = await facing([], { resolver: () => Promise.resolve([]) });
    expect(await line.send({ url: "https://nobody.example.com/" })).toMatchObject({ error: "dns" });
  });

  it("an address inside: guard, and nothing is dialled", async () => {
    const { receiver, line } = await facing([200], { allow: [] });
    expect(await line.send()).toMatchObject({ kind: "error", error: "guard" });
    expect(receiver.connections()).toBe(0);
  });

  it("a guard's detail does not tell what a name resolves to", async () => {
    const { line } = await facing([], { resolver: () => Promise.resolve(["10.1.2.3"]) });
    const reply = await line.send({ url: "https://inner.example.com/" });
    expect(reply).toMatchObject({ error: "guard" });
    expect(JSON.stringify(reply)).not.toContain("10.1.2.3");
  });

  it("a closed port: connect", async () => {
    const { line } = await facing([]);
    expect(await line.send({ url: "https://127.0.0.1:1/" })).toMatchObject({ error: "connect" });
  });

  it("a connection that is reset: reset", async () => {
    expect(await failing({ do: "reset" })).toMatchObject({ error: "reset" });
  });

  it("a connection that is closed without an answer: reset", async () => {
    expect(await failing({ do: "raw", text: "" })).toMatchObject({ error: "reset" });
  });

  it.each([
    ["something else than HTTP", "220 mail.example.com ESMTP\r\n"],
    [
      "a switch of protocols that nobody asked for",
      "HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
    ],
    ["headers without end", `HTTP/1.1 200 OK\r\nx: ${"a".repeat(200_000)}`],
    ["two lengths", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"],
    ["a status below 100", "HTTP/1.1 000 X\r\ncontent-length: 0\r\n\r\n"],
    ["a status of 99", "HTTP/1.1 099 X\r\n\r\n"],
    ["a status of 600", "HTTP/1.1 600 X\r\ncontent-length: 0\r\n\r\n"],
    ["a status of 999", "HTTP/1.1 999 X\r\ncontent-length: 0\r\n\r\n"],
    ["a switch of protocols to none", "HTTP/1.1 101 Switching\r\n\r\n"],
    ["an answer to nothing before the answer", "HTTP/1.1 101 Switching\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"],
    ["eleven answers before the answer", `${"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(11)}HTTP/1.1 200 OK\r\n\r\n`],
  ])("%s: protocol", async (_, text) => {
    expect(await failing({ do: "raw", text })).toMatchObject({ kind: "error", error: "protocol" });
  });

  it("a status below 100 on a connection that stays open: protocol, at once", async () => {
    const text = "HTTP/1.1 000 X\r\ncontent-length: 0\r\n\r\n";
    expect(await failing({ do: "raw", text, open: true })).toMatchObject({ kind: "error", error: "protocol" });
  });

  it.each(["keep-alive", "http2-settings", "expect", "upgrade", "bad header"])(
    "a request that the client library does not send (%s): protocol, and it is an attempt",
    async (name) => {
      const { line } = await facing([200]);
      const reply = await line.send({ headers: { [name]: "x" } });
      if (name === "http2-settings") expect(reply).toMatchObject({ kind: "response" });
      else expect(reply).toMatchObject({ kind: "error", error: "protocol" });
    },
  );

  it("of answers before the answer without end no more than ten are taken", async () => {
    const again = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(100);
    const { receiver, line } = await facing([{ do: "pour", head: "", again }]);
    expect(await line.send()).toMatchObject({ kind: "error", error: "protocol" });
    await receiver.waitForAborted(1);
    expect(receiver.written()).toBeLessThan(8_000_000);
  });

  it.each([
    ["a chunk extension", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;x=", "y".repeat(10_000)],
    ["trailers", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", `x: ${"y".repeat(1_000)}\r\n`],
  ])("%s without end is read no further than a body", async (_, head, again) => {
    const { receiver, line } = await facing([{ do: "pour", head, again }]);
    expect(await line.send()).toMatchObject({ kind: "response", status: 200, truncated: true });
    await receiver.waitForAborted(1);
    // The sockets on both sides hold some more than is read.
    expect(receiver.written()).toBeLessThan(8_000_000);
  });

  it.each([1, 3, 9, 12, 22, 1_000])(
    "a 100 that nobody asked for is not the answer, however it is cut (into pieces of %s)",
    async (size) => {
      const text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\nx: y\r\n\r\n";
      const { receiver, line } = await facing([{ do: "pieces", text, size, status: 202 }, 201]);
      const reply = await line.send();
      expect(reply).toMatchObject({ kind: "response", status: 202 });
      expect(excerptOf(reply)).toBe("ok");
      expect(await line.send()).toMatchObject({ status: 201 });
      expect(receiver.connections()).toBe(1);
    },
  );

  it("early hints are not the answer", async () => {
    const text = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";
    expect(await failing({ do: "raw", text })).toMatchObject({ kind: "response", status: 202 });
  });

  it.each([
    [10, { kind: "response", status: 202 }],
    [11, { kind: "error", error: "protocol" }],
  ])("%s small answers before the answer", async (count, outcome) => {
    const before = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(count);
    const text = `${before}HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n`;
    expect(await failing({ do: "raw", text })).toMatchObject(outcome);
  });
});

describe("TLS is verified in full", () => {
  const day = 86_400_000;
  it.each([
    ["a stranger's authority", () => makeAuthority(Date.now()).then((other) => other.issue(["127.0.0.1"]))],
    ["another name", () => testAuthority().then((own) => own.issue(["other.example.com", "127.0.0.2"]))],
    [
      "a certificate that has ended",
      () => testAuthority().then((own) => own.issue(["127.0.0.1"], { until: Date.now() - 60_000 })),
    ],
    [
      "a certificate that has not begun",
      () =>
        testAuthority().then((own) =>
          own.issue(["127.0.0.1"], { from: Date.now() + day, until: Date.now() + 2 * day }),
        ),
    ],
  ])("%s: tls, and no request is sent", async (_, certificate) => {
    const { receiver, line } = await facing([200], {}, { certificate: await certificate() });
    expect(await line.send()).toMatchObject({ kind: "error", error: "tls" });
    expect(receiver.requests).toHaveLength(0);
  });

  it("the environment cannot switch it off", async () => {
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
    try {
      const certificate = await makeAuthority(Date.now()).then((other) => other.issue(["127.0.0.1"]));
      const { line } = await facing([200], {}, { certificate });
      expect(await line.send()).toMatchObject({ kind: "error", error: "tls" });
    } finally {
      delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    }
  });

  it("a receiver that speaks plain HTTP: tls", async () => {
    const { createServer } = await import("node:http");
    const plain = createServer((_, response) => response.end());
    await new Promise<void>((resolve) => void plain.listen(0, "127.0.0.1", resolve));
    const { line } = await facing([]);
    const { port } = plain.address() as { port: number };
    expect(await line.send({ url: `https://127.0.0.1:${port}/` })).toMatchObject({ error: "tls" });
    plain.closeAllConnections();
    await new Promise((resolve) => plain.close(resolve));
  });
});

describe("connections", () => {
  it("are kept for the same subscription and origin", async () => {
    const { receiver, line } = await facing([]);
    for (let i = 0; i < 5; i++) await line.send({ url: receiver.url(`/${i}`) });
    expect(receiver.requests.map(({ connection }) => connection)).toEqual([1, 1, 1, 1, 1]);
    expect(receiver.requests.map(({ path }) => path)).toEqual(["/0", "/1", "/2", "/3", "/4"]);
  });

  it("are shared by the subscriptions of a key, each with the path of its URL", async () => {
    const { receiver, line } = await facing([]);
    for (const path of ["/a?x=1", "/b", "/a?x=1"])
      await line.send({ subscriptionId: `sub_${path}`, url: receiver.url(path) });
    expect(receiver.requests.map(({ connection, path }) => [connection, path])).toEqual([
      [1, "/a?x=1"],
      [1, "/b"],
      [1, "/a?x=1"],
    ]);
  });

  it("are not shared between keys", async () => {
    const { receiver, line } = await facing([]);
    await line.send({ keyId: "key_1", subscriptionId: "sub_1" });
    await line.send({ keyId: "key_2", subscriptionId: "sub_2" });
    await line.send({ keyId: "key_1", subscriptionId: "sub_1" });
    expect(receiver.requests.map(({ connection }) => connection)).toEqual([1, 2, 1]);
  });

  it("stay while another subscription of the key uses them, and close with the last", async () => {
    const { receiver, line } = await facing([]);
    const { transport } = line;
    for (const subscriptionId of ["sub_1", "sub_2"]) await line.send({ subscriptionId });
    transport.forget?.("sub_1");
    await line.send({ subscriptionId: "sub_2" });
    transport.forget?.("sub_2");
    await line.send({ subscriptionId: "sub_2" });
    expect(receiver.requests.map(({ connection }) => connection)).toEqual([1, 1, 1, 2]);
  });

  it("are not kept when the receiver says so", async () => {
    const { receiver, line } = await facing([{ do: "reply", headers: { connection: "close" } }, 200]);
    await line.send();
    expect(await line.send()).toMatchObject({ status: 200 });
    expect(receiver.requests.map(({ connection }) => connection)).toEqual([1, 2]);
  });

  it("that break under a request are a reset, and the request is not sent again", async () => {
    const { receiver, line } = await facing([200, { do: "reset" }, 200]);
    await line.send();
    expect(await line.send()).toMatchObject({ kind: "error", error: "reset" });
    expect(receiver.requests).toHaveLength(2);
    expect(receiver.requests.map(({ connection }) => connection)).toEqual([1, 1]);
  });

  it("of a caller who gives up are closed", async () => {
    const { receiver, line } = await facing([{ do: "hang" }]);
    const control = new AbortController();
    const sending = line.send({}, control.signal);
    await receiver.waitFor(1);
    control.abort(new Error("gone"));
    await expect(sending).rejects.toThrow("gone");
    await receiver.waitForAborted(1);
  });
});

it.each(["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"])(
  "%s, what this machine is out of, is our own fault: it is thrown, not counted as an attempt",
  async (code) => {
    const dial = (): never => {
      throw Object.assign(new Error(`connect ${code}`), { code });
    };
    const { receiver, line } = await facing([], { dial });
    await expect(line.send()).rejects.toThrow(code);
    expect(receiver.connections()).toBe(0);
  },
);
