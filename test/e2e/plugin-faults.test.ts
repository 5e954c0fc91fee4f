// A relay with plug-ins that misbehave: it goes on, the others go on, and the log and /readyz name who did it.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Observer } from "../../core/ports/observer.ts";
import type { ObserverPlugin } from "../../core/ports/plan.ts";
import { http } from "../../plugins/source/http.ts";
import { https } from "../../plugins/transport/https.ts";
import { startCommand } from "../support/command.ts";
import { kept } from "../support/kept.ts";
import { sourcePlugin, transportPlugin } from "../support/plugins.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";

const observer = (name: string, port: Observer): ObserverPlugin => ({ kind: "observer", name, setup: () => port });
const never = <T>(): Promise<T> => new Promise<T>(() => undefined);
const fails = (): never => {
  throw new Error("broken");
};

const receiver = kept(await startReceiver());

const EVENT = { type: "deposit:paid", keyId: "key_1", data: { amount: 1 } };
const parts = async (relay: TestRelay) =>
  (await relay.call("GET", "/readyz", { token: null })).json.data as {
    readonly status: string;
    readonly parts: Record<string, { readonly ready: boolean; readonly state?: string }>;
  };

describe("an observer that fails in every hook", () => {
  it("changes nothing of what is delivered, and is named", async () => {
    const wild: Observer = {
      accepted: fails,
      attempted: () => Promise.reject(new Error("broken")) as never,
      refused: fails,
      wrapAccept: fails,
      wrapSend: fails,
      dispose: never,
    };
    const heard: string[] = [];
    const tame: Observer = { accepted: ({ type }) => void heard.push(type) };
    await using relay = await startRelay({
      observers: [observer("wild", wild), observer("tame", tame), observer("odd", { wrapSend: fails })],
    });
    await relay.subscribe(receiver.url());
    const first = await relay.publish(EVENT);
    const second = await relay.publish(EVENT);
    expect([first.status, second.status]).toEqual([202, 202]);
    const [one] = await receiver.waitFor(2, 60_000);
    expect(JSON.parse(String(one?.body))).toMatchObject({ type: "deposit:paid", data: { amount: 1 } });
    expect(heard).toEqual(["deposit:paid", "deposit:paid"]);
    const ready = await parts(relay);
    expect(ready.status).toBe("degraded");
    expect(ready.parts["observer:wild"]).toMatchObject({ ready: false, required: false });
    expect(ready.parts["observer:odd"]?.state).toBe("failed within the last minute: wrapSend: Error: broken");
    expect(ready.parts["observer:tame"]).toBeUndefined();
  });
});

describe("a transport that never answers", () => {
  it("costs its own subscription an attempt, and no other one anything", async () => {
    let asked = 0;
    const stuck = transportPlugin("stuck", {
      send() {
        asked++;
        return never();
      },
      dispose: never,
    });
    const folder = mkdtempSync(join(tmpdir(), "relay-stuck-"));
    try {
      {
        await using relay = await startRelay(
          {
            transports: [https(), stuck],
            delivery: { timeoutMs: 500 },
            server: { host: "127.0.0.1", port: 0, shutdownMs: 500 },
          },
          folder,
        );
        await relay.subscribe("stuck://anything");
        await relay.subscribe(receiver.url());
        const before = receiver.requests.length;
        const published = await relay.publish(EVENT);
        expect(published.status).toBe(202);
        await receiver.waitFor(before + 1, 60_000);
        await expect
          .poll(async () => (await parts(relay)).parts["transport:stuck"]?.state, { timeout: 60_000 })
          .toBe("failed within the last minute: send: Error: no answer within 500 ms");
        expect(asked).toBeGreaterThan(0);
        const { id } = published.json.data as { readonly id: string };
        const path = `/api-keys/key_1/events/${id}`;
        await expect
          .poll(async () => JSON.stringify((await relay.call("GET", path)).json), { timeout: 60_000 })
          .toContain('"timeout"');
      }
      // Its dispose never ends: the storage was closed all the same, so the folder can be opened again.
      await using again = await startRelay({}, folder);
      expect((await again.publish(EVENT)).status).toBe(202);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe("a source that never stops", () => {
  it("does not keep the others from stopping", async () => {
    let stopped = false;
    const relay = await startRelay({
      sources: [
        http(),
        sourcePlugin("stuck", { stop: never }),
        sourcePlugin("broken", { stop: fails }),
        sourcePlugin("good", { stop: async () => void (stopped = true) }),
      ],
    });
    await relay[Symbol.asyncDispose]();
    expect(stopped).toBe(true);
  });
});

describe("an exception that nobody catches", () => {
  it("in a plug-in's own timer ends the process with 70: what was acknowledged is stored", async () => {
    const folder = mkdtempSync(join(tmpdir(), "relay-uncaught-"));
    writeFileSync(
      join(folder, "relay.config.ts"),
      `import { defineRelay, http } from "relaybox";
const start = () => void setTimeout(() => { throw new Error("in a timer"); }, 1);
const wild = { kind: "source", name: "wild", setup: () => ({ start, stop: () => Promise.resolve() }) };
export default defineRelay({ server: { port: 0 }, sources: [http(), wild] });`,
    );
    try {
      await using relay = startCommand(["start"], { cwd: folder });
      expect((await relay.ended).code).toBe(70);
      expect(relay.stderr()).toContain("in a timer");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
