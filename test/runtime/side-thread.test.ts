// The thread for the requests of troubled subscriptions: a real one keeps the law of transports, and one that dies, hangs or
// has nothing to do takes no request with it.
import { EventEmitter } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { MessagePort, Worker } from "node:worker_threads";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadConfig } from "../../config/load.ts";
import { sideThreadSpawner } from "../../core/cli/support/node-threads.ts";
import type { Credentials } from "../../core/model/credentials.ts";
import type { Reply, Transport, TransportRequest } from "../../core/ports/transport.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { createKeptCredentials } from "../../core/runtime/side-thread/side-call.ts";
import { createSideThread, type SideThread } from "../../core/runtime/side-thread/side-thread.ts";
import { createLink } from "../../core/runtime/threads/link.ts";
import { describeTransport, type FarSide } from "../conformance/transport.ts";
import { testAuthority } from "../support/certificates.ts";
import { testClock, type TestClock } from "../support/clock.ts";
import { testFolder } from "../support/folder.ts";
import { quietLog } from "../support/quiet.ts";
import { startReceiver, type Step } from "../support/receiver.ts";
import { until } from "../support/until.ts";

const ANSWER: Reply = { kind: "response", status: 200, excerpt: new Uint8Array(), truncated: false };
const never = (): AbortSignal => new AbortController().signal;
const asking = (over: Partial<TransportRequest> = {}): TransportRequest => ({
  url: "https://127.0.0.1:1/",
  headers: {},
  body: new Uint8Array([1, 2, 3]),
  timeoutMs: 1_000,
  subscriptionId: "sub_1",
  keyId: "key_1",
  messageId: "dlv_1_0",
  ...over,
});

/** A transport of this thread: it notes what it is asked. */
function here(): Transport & { readonly sent: TransportRequest[]; readonly forgotten: string[] } {
  const sent: TransportRequest[] = [];
  const forgotten: string[] = [];
  return {
    sent,
    forgotten,
    schemes: ["https"],
    separable: true,
    send: (request) => Promise.resolve((sent.push(request), ANSWER)),
    forget: (id) => void forgotten.push(id),
    dispose: () => Promise.resolve(),
  };
}

describe("https() in a real side thread", () => {
  const folder = testFolder();
  let side: SideThread;
  let aside: Transport;
  const inner = here();

  beforeAll(async () => {
    const { ca } = await testAuthority();
    writeFileSync(join(folder, "ca.pem"), ca);
    const file = join(folder, "relay.config.ts");
    writeFileSync(
      file,
      `import { defineRelay } from "relaybox";
      export default defineRelay({ dataDir: "./data", guard: { allow: ["127.0.0.1:*"], ca: "./ca.pem" } });`,
    );
    const by = { flags: { config: file }, env: {}, cwd: folder };
    const { plan } = await loadConfig(by);
    const spawn = sideThreadSpawner(plan, by, () => undefined);
    const bounds = { lookMs: 10, many: 1, quietLooks: 1_000_000 };
    side = createSideThread({ spawn, clock: systemClock(), log: quietLog(), bounds });
    aside = side.beside(inner, 0);
    // Until it runs, requests are sent here.
    await until(async () => {
      const before = inner.sent.length;
      await aside.send(asking({ troubled: true, timeoutMs: 50 }), never());
      return inner.sent.length === before;
    });
  });
  afterAll(() => side.stop());

  it("is not asked for what is not troubled", async () => {
    const before = inner.sent.length;
    expect(await aside.send(asking(), never())).toBe(ANSWER);
    expect(inner.sent).toHaveLength(before + 1);
  });

  it("takes a part of a shared buffer without the rest of it", async () => {
    await using receiver = await startReceiver();
    const body = new Uint8Array(new TextEncoder().encode("before|body|after").buffer, 7, 4);
    const reply = await aside.send(asking({ troubled: true, url: receiver.url(), body, timeoutMs: 60_000 }), never());
    expect(reply).toMatchObject({ kind: "response", status: 200 });
    expect(receiver.requests[0]?.body.toString()).toBe("body");
  });

  describe("keeps the law of transports", () => {
    describeTransport(it, {
      async open() {
        const gathered: (() => void)[] = [];
        let now: FarSide = { do: "answer", status: 200 };
        const receiver = await startReceiver({ script: () => stepOf(now, gathered) });
        return {
          transport: { ...aside, send: (request, signal) => aside.send({ ...request, troubled: true }, signal) },
          url: receiver.url(),
          nowhere: "https://127.0.0.1:1/",
          far: (does) => void (now = does),
          async arrived(count) {
            await receiver.waitFor(count);
            return receiver.requests;
          },
          [Symbol.asyncDispose]: () => receiver[Symbol.asyncDispose](),
        };
      },
    });
  });
});

/** What the receiver does for a far side of the laws. */
function stepOf(far: FarSide, gathered: (() => void)[]): Step | Promise<Step> {
  switch (far.do) {
    case "answer": {
      const { status, body, retryAfter } = far;
      const headers = retryAfter === undefined ? undefined : { "retry-after": retryAfter };
      return { do: "reply", status, ...(body !== undefined && { body }), ...(headers && { headers }) };
    }
    case "hang":
      return { do: "hang" };
    case "drip":
      return { do: "drip", everyMs: 20 };
    case "garble":
      return { do: "raw", text: "SMTP ready\r\n\r\n" };
    case "cut":
      return { do: "reset" };
    case "gather":
      return new Promise((resolve) => {
        gathered.push(() => resolve(200));
        if (gathered.length >= far.count) for (const go of gathered.splice(0)) go();
      });
  }
}

/** A thread that does as a test says. */
class FakeThread extends EventEmitter {
  alive = true;
  terminated = false;
  readonly asked: string[] = [];
  /** Answers the last request. */
  answer: (reply: Reply) => void = () => undefined;

  constructor(control: MessagePort) {
    super();
    createLink(control, (method) => {
      this.asked.push(method);
      if (method === "send") return new Promise((resolve) => (this.answer = resolve));
      return this.alive ? undefined : new Promise(() => undefined);
    });
    this.on("exit", () => control.close());
  }

  terminate(): Promise<number> {
    this.terminated = true;
    this.emit("exit", 1);
    return Promise.resolve(1);
  }
}

describe("a side thread", () => {
  const bounds = { lookMs: 1_000, many: 3, quietLooks: 5 };

  /**
   * @param given refusals: so many threads the system does not give, as `new Worker` throws at a limit of tasks; alive:
   * whether a thread answers when it is to start
   */
  function made(clock: TestClock, { refusals = 0, alive = true } = {}) {
    const threads: FakeThread[] = [];
    const inner = here();
    const log = quietLog();
    let spawned = 0;
    const side = createSideThread({
      clock,
      log,
      bounds,
      spawn(start, ports) {
        expect(start.transports).toEqual([2]);
        if (++spawned <= refusals) throw new Error("ERR_WORKER_INIT_FAILED: EAGAIN");
        const thread = new FakeThread(ports[0] as MessagePort);
        thread.alive = alive;
        threads.push(thread);
        return thread as unknown as Worker;
      },
    });
    const aside = side.beside(inner, 2);
    /** The messages between threads take turns of this thread's own loop. */
    const pass = async (ms: number): Promise<void> => {
      for (let passed = 0; passed < ms; passed += 1_000) {
        await clock.advance(1_000);
        for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
      }
    };
    const ask = (count: number): Promise<Reply>[] =>
      Array.from({ length: count }, () => aside.send(asking({ troubled: true }), never()));
    const running = async (): Promise<void> => {
      await Promise.all(ask(bounds.many));
      await pass(1_000);
      await until(() => threads.at(-1)?.asked.includes("start") === true);
      await pass(1_000);
    };
    return { side, inner, log, threads, pass, ask, running, aside };
  }

  it("is not started for a few requests, and not for those that are not troubled", async () => {
    const { side, threads, inner, ask, pass, aside } = made(testClock());
    for (let n = 0; n < 10; n++) {
      await Promise.all([...ask(2), aside.send(asking(), never()), aside.send(asking(), never())]);
      await pass(1_000);
    }
    expect(threads).toEqual([]);
    expect(inner.sent).toHaveLength(40);
    await side.stop();
  });

  it("ends once it has had few requests for a while, and is started again", async () => {
    const { side, threads, running, pass } = made(testClock());
    await running();
    await pass(10_000);
    await until(() => threads[0]?.terminated === true);
    expect(threads[0]?.asked).toContain("stop");
    await running();
    expect(threads).toHaveLength(2);
    await side.stop();
    expect(threads[1]?.terminated).toBe(true);
  });

  it("lets a request on the wire end before it ends itself", async () => {
    const { side, threads, running, ask, pass } = made(testClock());
    await running();
    const [slow] = ask(1) as [Promise<Reply>];
    await until(() => threads[0]?.asked.includes("send") === true);
    await pass(10_000);
    expect(threads[0]?.terminated).toBe(false);
    threads[0]?.answer(ANSWER);
    expect(await slow).toEqual(ANSWER);
    await until(() => threads[0]?.terminated === true);
    await side.stop();
  });

  it("that is waiting for a request ends at once when the relay stops", async () => {
    const { side, threads, running, ask, pass } = made(testClock());
    await running();
    const [slow] = ask(1) as [Promise<Reply>];
    const cut = expect(slow).rejects.toThrow("the other thread ended meanwhile");
    await until(() => threads[0]?.asked.includes("send") === true);
    await pass(10_000);
    await side.stop();
    expect(threads[0]?.terminated).toBe(true);
    await cut;
  });

  it("that is still starting ends at once when the relay stops", async () => {
    const { side, threads, log, ask, pass } = made(testClock(), { alive: false });
    await Promise.all(ask(bounds.many));
    await pass(1_000);
    await until(() => threads[0]?.asked.includes("start") === true);
    await side.stop();
    expect(threads[0]?.terminated).toBe(true);
    expect(log.lines).toEqual([]);
  });

  it("that the system refuses is tried again later, and the log says so", async () => {
    const { side, threads, log, ask, pass } = made(testClock(), { refusals: 1 });
    await Promise.all(ask(bounds.many));
    await pass(1_000);
    expect(log.lines).toMatchObject([{ level: "warn", message: "the side thread cannot start" }]);
    await pass(60_000);
    await Promise.all(ask(bounds.many));
    await pass(1_000);
    expect(threads).toHaveLength(1);
    await side.stop();
  });

  it.each(["dies", "hangs"])("that %s takes its requests with it; later ones are sent here", async (how) => {
    const { side, threads, inner, running, ask, pass } = made(testClock());
    await running();
    const sentHere = inner.sent.length;
    const [lost] = ask(1) as [Promise<Reply>];
    const gone = expect(lost).rejects.toThrow("the other thread ended meanwhile");
    await until(() => threads[0]?.asked.includes("send") === true);
    if (how === "dies") threads[0]?.emit("exit", 1);
    else {
      (threads[0] as FakeThread).alive = false;
      await pass(30_000);
      expect(threads[0]?.terminated).toBe(true);
    }
    await gone;
    for (const reply of await Promise.all(ask(10))) expect(reply).toBe(ANSWER);
    expect(inner.sent).toHaveLength(sentHere + 10);
    // Another one comes, but not at once.
    await pass(10_000);
    expect(threads).toHaveLength(1);
    await pass(60_000);
    await Promise.all(ask(10));
    await pass(2_000);
    expect(threads).toHaveLength(2);
    await side.stop();
  });

  it("aborts a request with its signal, and forgets in both threads", async () => {
    const { side, threads, inner, running, aside } = made(testClock());
    await running();
    const over = new AbortController();
    const aborted = aside.send(asking({ troubled: true }), over.signal);
    await until(() => threads[0]?.asked.includes("send") === true);
    over.abort(new Error("no longer wanted"));
    await expect(aborted).rejects.toThrow("no longer wanted");
    aside.forget?.("sub_1");
    await until(() => threads[0]?.asked.includes("abort") === true && threads[0].asked.includes("forget"));
    expect(inner.forgotten).toEqual(["sub_1"]);
    await side.stop();
  });
});

describe("credentials in a side thread", () => {
  it("are the same object until they change", () => {
    const kept = createKeptCredentials((a, b) => JSON.stringify(a) === JSON.stringify(b));
    const first: Credentials = { clientCertificate: { cert: "c", key: "k" } } as Credentials;
    const sent = (credentials: Credentials): Credentials | undefined => kept.of(asking({ credentials })).credentials;
    expect(sent(first)).toBe(first);
    expect(sent(structuredClone(first))).toBe(first);
    const other = { clientCertificate: { cert: "c2", key: "k" } } as Credentials;
    expect(sent(other)).toBe(other);
    kept.forget("sub_1");
    const again = structuredClone(other);
    expect(sent(again)).toBe(again);
  });
});
