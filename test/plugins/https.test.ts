/** The https transport over real TLS, against a receiver that behaves as badly as receivers do. */
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, it } from "vitest";
import { createGuard } from "../../core/guard/index.ts";
import type { GuardOptions } from "../../core/guard/index.ts";
import type { Clock } from "../../core/ports/clock.ts";
import type { ConnectTarget, PluginContext } from "../../core/ports/plugin.ts";
import type { Reply, Transport, TransportRequest } from "../../core/ports/transport.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { https } from "../../plugins/transport/https.ts";
import type { HttpsOptions } from "../../plugins/transport/https.ts";
import { describeTransport } from "../conformance/transport.ts";
import type { FarSide } from "../conformance/transport.ts";
import { makeAuthority, testAuthority } from "../support/certificates.ts";
import { turn } from "../support/clock.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";
import { startReceiver } from "../support/receiver.ts";
import type { Receiver, ReceiverOptions, Step } from "../support/receiver.ts";
import vectors from "../fixtures/vectors/ssrf.json" with { type: "json" };

const refuse = (): never => {
  throw new Error("the https transport has no use for this");
};

interface Line extends AsyncDisposable {
  readonly transport: Transport;
  /** Where connections were asked for, in order. */
  readonly targets: readonly ConnectTarget[];
  send(over?: Partial<TransportRequest>, signal?: AbortSignal): Promise<Reply>;
}

/** A transport over a guard that opens loopback, unless told otherwise. */
const openLine = async (
  url: string,
  { clock = systemClock(), ...rest }: Partial<GuardOptions> & { readonly https?: HttpsOptions } = {},
): Promise<Line> => {
  const { ca } = await testAuthority();
  const guard = createGuard({ allow: ["127.0.0.1:*", "localhost:*"], ports: [443], ca, clock, ...rest });
  const targets: ConnectTarget[] = [];
  const context: PluginContext = {
    clock,
    connect: (target, signal) => {
      targets.push(target);
      return guard.connect(target, signal);
    },
    log: quietLog(),
    metrics: quietMetrics(),
    fetch: refuse,
    refused: refuse,
    guess: refuse,
    secret: refuse,
    storage: { getItem: refuse, range: refuse, commit: refuse },
    keys: { seal: refuse, open: refuse, signToken: refuse, publicJwk: refuse },
    dataDir: "",
    configDir: "",
  };
  const transport = await https(rest.https).setup(context);
  return {
    transport,
    targets,
    send: (over = {}, signal = new AbortController().signal) =>
      transport.send(
        {
          url,
          headers: {},
          body: Buffer.from("{}"),
          timeoutMs: 5_000,
          subscriptionId: "sub_1",
          keyId: "key_1",
          messageId: "dlv_1_0",
          ...over,
        },
        signal,
      ),
    [Symbol.asyncDispose]: () => transport.dispose(),
  };
};

const opened: AsyncDisposable[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one[Symbol.asyncDispose]();
});

/** A receiver with a script and a line to it, both closed after the test. */
const facing = async (
  script: readonly Step[],
  options: Parameters<typeof openLine>[1] = {},
  receiving: ReceiverOptions = {},
): Promise<{ receiver: Receiver; line: Line }> => {
  const receiver = await startReceiver({ script, ...receiving });
  opened.push(receiver);
  const line = await openLine(receiver.url(), options);
  opened.push(line);
  return { receiver, line };
};

const excerptOf = (reply: Reply): string =>
  reply.kind === "response" ? new TextDecoder().decode(reply.excerpt) : `no response: ${reply.detail}`;

describe("the law of transports", () => {
  describeTransport(it, {
    open: async () => {
      let does: FarSide = { do: "answer", status: 200 };
      const gathered: (() => void)[] = [];
      const step = async (): Promise<Step> => {
        const now = does;
        switch (now.do) {
          case "answer": {
            const { status, body, retryAfter } = now;
            return { do: "reply", status, body, ...(retryAfter && { headers: { "retry-after": retryAfter } }) };
          }
          case "cut":
            return { do: "reset" };
          case "drip":
            return { do: "drip", everyMs: 10, status: 200 };
          case "hang":
            return { do: "hang" };
          case "garble":
            return { do: "raw", text: "HTTP/1.1 000 X\r\ncontent-length: 0\r\n\r\n" };
          case "gather":
            await new Promise<void>((resolve) => {
              gathered.push(resolve);
              if (gathered.length === now.count) gathered.forEach((answer) => answer());
            });
            return 200;
        }
      };
      const receiver = await startReceiver({ script: step });
      const line = await openLine(receiver.url());
      return {
        transport: line.transport,
        url: receiver.url(),
        nowhere: "https://127.0.0.1:1/",
        far: (next) => {
          does = next;
        },
        arrived: (count) => receiver.waitFor(count),
        [Symbol.asyncDispose]: async () => {
          await line.transport.dispose();
          await receiver.close();
        },
      };
    },
  });
});

describe("a request", () => {
  it("is a POST with the path and query of the URL, its headers and its body", async () => {
    const { receiver, line } = await facing([204]);
    const body = Buffer.from([0, 1, 2, 0xff]);
    const headers = { "content-type": "application/json", "webhook-id": "evt_1" };
    expect(await line.send({ url: receiver.url("/a%20b?c=%2F&d"), headers, body })).toMatchObject({ status: 204 });
    expect(receiver.requests[0]).toMatchObject({ method: "POST", path: "/a%20b?c=%2F&d", body });
    expect(receiver.requests[0]?.headers).toMatchObject({
      ...headers,
      "content-length": "4",
      host: `127.0.0.1:${receiver.port}`,
    });
    expect(receiver.requests[0]?.headers).not.toHaveProperty("transfer-encoding");
  });

  it("may have an empty body", async () => {
    const { receiver, line } = await facing([200]);
    expect(await line.send({ body: new Uint8Array(0) })).toMatchObject({ status: 200 });
    expect(receiver.requests[0]?.headers["content-length"]).toBe("0");
  });

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
  it("a 200 whose body is reset is a 200", async () => {
    const { line } = await facing([{ do: "reset", status: 200 }]);
    expect(await line.send()).toMatchObject({ kind: "response", status: 200, truncated: true });
  });

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

  it("a name that does not answer: timeout over all stages", async () => {
    const { line } = await facing([], { resolver: () => new Promise(() => undefined) });
    expect(await line.send({ url: "https://slow.example.com/", timeoutMs: 150 })).toEqual({
      kind: "error",
      error: "timeout",
      detail: "no connection within 150 ms",
    });
  });

  it("a connection that opens after the deadline, while no timer could run: timeout, and nothing is sent", async () => {
    const clock = { ...systemClock() };
    const { receiver, line } = await facing([200], { clock });
    const { monotonic } = clock;
    const sending = line.send({ timeoutMs: 5_000 });
    // As after a SIGSTOP: by the clock the time is over, and no timer has run yet.
    clock.monotonic = () => monotonic() + 6_000;
    expect(await sending).toMatchObject({ kind: "error", error: "timeout" });
    expect(receiver.requests).toHaveLength(0);
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
    // What the sockets on both sides hold comes on top of what is read.
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

  it("are left behind when a subscription moves to another origin", async () => {
    const { receiver, line } = await facing([]);
    await line.send();
    await line.send({ url: `https://localhost:${receiver.port}/` });
    await line.send();
    expect(receiver.requests.map(({ connection }) => connection)).toEqual([1, 2, 3]);
  });

  it("are not kept when the receiver says so", async () => {
    const { receiver, line } = await facing([{ do: "reply", headers: { connection: "close" } }, 200]);
    await line.send();
    expect(await line.send()).toMatchObject({ status: 200 });
    expect(receiver.requests.map(({ connection }) => connection)).toEqual([1, 2]);
  });

  it("are checked again when they are old", async () => {
    const real = systemClock();
    let later = 0;
    const clock: Clock = { ...real, monotonic: () => real.monotonic() + later };
    const { receiver, line } = await facing([], { clock });
    await line.send();
    later = 59_000;
    await line.send();
    later = 61_000;
    await line.send();
    expect(receiver.requests.map(({ connection }) => connection)).toEqual([1, 1, 2]);
    expect(line.targets).toHaveLength(2);
  });

  it("that were closed while idle are replaced", async () => {
    const { receiver, line } = await facing([]);
    for (let i = 0; i < 10; i++) {
      expect(await line.send()).toMatchObject({ status: 200 });
      await receiver.dropConnections();
      await turn();
    }
    expect(receiver.requests.map(({ connection }) => connection)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  });

  it("that are closed just as a request is written end in an answer or a reset, and nothing arrives twice", async () => {
    const { receiver, line } = await facing([]);
    for (let i = 0; i < 50; i++) {
      const dropped = receiver.dropConnections();
      const reply = await line.send({ body: Buffer.from(String(i)) });
      await dropped;
      expect(reply).toMatchObject(reply.kind === "response" ? { status: 200 } : { error: "reset" });
    }
    const bodies = receiver.requests.map(({ body }) => body.toString());
    expect(new Set(bodies).size).toBe(bodies.length);
  });

  it("that break under a request are a reset, and the request is not sent again", async () => {
    const { receiver, line } = await facing([200, { do: "reset" }, 200]);
    await line.send();
    expect(await line.send()).toMatchObject({ kind: "error", error: "reset" });
    expect(receiver.requests).toHaveLength(2);
    expect(receiver.requests.map(({ connection }) => connection)).toEqual([1, 1]);
  });

  it("beyond the limit of idle ones are closed", async () => {
    const { receiver, line } = await facing([], { https: { maxIdle: 2 } });
    for (const keyId of ["a", "b", "c", "a", "c"]) await line.send({ keyId, subscriptionId: `sub_${keyId}` });
    expect(receiver.requests.map(({ connection }) => connection)).toEqual([1, 2, 3, 4, 3]);
  });

  it("end with the transport, and a request under way then is our own fault, not the receiver's", async () => {
    const { receiver, line } = await facing([{ do: "hang" }]);
    const sending = line.send();
    await receiver.waitFor(1);
    const ended = expect(sending).rejects.toThrow();
    await line.transport.dispose();
    await ended;
    await expect(line.send()).rejects.toThrow("closed");
    await receiver.waitForAborted(1);
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
