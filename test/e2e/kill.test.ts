// The process is killed at each step of the path; nothing that was acknowledged may be lost, and nothing counted twice.
import { describe, expect, it } from "vitest";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { inject } from "../support/injected.ts";
import { needs } from "../support/needs.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";

const EVENT = { type: "deposit:paid", keyId: "key_1", id: "order:1", data: { n: 1 } };
const RETRY = "retry: { attempts: 5, firstDelayMs: 1500, factor: 1, maxDelayMs: 1500 },";

async function subscribe(relay: ChildRelay, receiver: Receiver): Promise<void> {
  const made = await relay.call("POST", "/api-keys/key_1/webhooks", { url: receiver.url(), events: ["*"] });
  expect(made.status).toBe(201);
}

async function eventually(relay: ChildRelay, status: string) {
  for (let tries = 0; ; tries++) {
    const shown = await relay.call("GET", `/api-keys/key_1/events/${EVENT.id}`);
    if (shown.json.data?.status === status) return shown.json.data.deliveries[0];
    if (tries === 500) expect(shown.json.data?.status).toBe(status);
  }
}

describe("a relay killed", () => {
  it("before the commit has answered nothing, and the publisher's repeat is delivered once", async ({ skip }) => {
    const missing = needs("strace");
    skip(missing !== undefined, missing);
    await using receiver = await startReceiver();
    const folder = testFolder();
    await using first = await startChild(folder);
    await subscribe(first, receiver);
    await using _ = await inject(first.pid, "signal=SIGKILL:when=1");
    await expect(first.publish(EVENT)).rejects.toThrow();
    await first.running.ended;
    await using second = await startChild(folder);
    const repeated = await second.publish(EVENT);
    expect(repeated.status).toBe(202);
    await receiver.waitFor(1);
    const delivery = await eventually(second, "delivered");
    expect(delivery.attempts).toHaveLength(1);
    expect(receiver.requests).toHaveLength(1);
  });

  it("between commit and 202 delivers what it stored, and answers the repeat as a duplicate", async ({ skip }) => {
    const missing = needs("strace");
    skip(missing !== undefined, missing);
    await using receiver = await startReceiver();
    const folder = testFolder();
    await using first = await startChild(folder);
    await subscribe(first, receiver);
    // The sync itself is done; the process would hear of it seconds later, and does not live to.
    await using injected = await inject(first.pid, "delay_exit=5000000:when=1");
    const publishing = first.publish(EVENT).then(
      () => "answered",
      () => "cut off",
    );
    await injected.delayed;
    await first.kill();
    expect(await publishing).toBe("cut off");
    await using second = await startChild(folder);
    await receiver.waitFor(1);
    expect((await second.publish(EVENT)).json.data).toMatchObject({ duplicate: true });
    await eventually(second, "delivered");
    expect(receiver.requests).toHaveLength(1);
  });

  it("in mid-attempt makes that attempt again under its own number", async () => {
    await using receiver = await startReceiver({ script: [{ do: "hang" }] });
    const folder = testFolder();
    await using first = await startChild(folder);
    await subscribe(first, receiver);
    expect((await first.publish(EVENT)).status).toBe(202);
    await receiver.waitFor(1);
    await first.kill();
    await using second = await startChild(folder);
    await receiver.waitFor(2);
    const delivery = await eventually(second, "delivered");
    expect(delivery.attempts.map((attempt: { number: number }) => attempt.number)).toEqual([1]);
    expect(receiver.requests.map((request) => request.headers["x-relay-attempt"])).toEqual(["1", "1"]);
    expect(receiver.requests[0]?.body).toEqual(receiver.requests[1]?.body);
  });

  it("between the reply and its record makes at most one more request, under the same number", async ({ skip }) => {
    const missing = needs("strace");
    skip(missing !== undefined, missing);
    await using receiver = await startReceiver({ script: [{ do: "reply", status: 500, delayMs: 300 }] });
    const folder = testFolder();
    await using first = await startChild(folder, { config: RETRY });
    await subscribe(first, receiver);
    expect((await first.publish(EVENT)).status).toBe(202);
    await receiver.waitFor(1);
    // From here on a commit dies at its sync: the reply comes, its record does not.
    await using _ = await inject(first.pid, "signal=SIGKILL:when=1");
    await first.running.ended;
    await using second = await startChild(folder, { config: RETRY });
    await receiver.waitFor(2);
    const delivery = await eventually(second, "delivered");
    expect(delivery.attempts.length).toBeLessThanOrEqual(2);
    expect(["1", "2"]).toContain(receiver.requests[1]?.headers["x-relay-attempt"]);
    expect(Number(receiver.requests[1]?.headers["x-relay-attempt"])).toBe(delivery.attempts.length);
  });

  it("between attempts goes on with the attempts that are left, not before their time", async () => {
    await using receiver = await startReceiver({ script: [500] });
    const folder = testFolder();
    await using first = await startChild(folder, { config: RETRY });
    await subscribe(first, receiver);
    await first.publish(EVENT);
    await receiver.waitFor(1);
    await expect
      .poll(
        async () =>
          (await first.call("GET", `/api-keys/key_1/events/${EVENT.id}`)).json.data.deliveries[0].attempts.length,
      )
      .toBe(1);
    await first.kill();
    await using second = await startChild(folder, { config: RETRY });
    await receiver.waitFor(2);
    const delivery = await eventually(second, "delivered");
    expect(delivery.attempts.map((attempt: { number: number }) => attempt.number)).toEqual([1, 2]);
    expect((receiver.requests[1]?.at ?? 0) - (receiver.requests[0]?.at ?? 0)).toBeGreaterThanOrEqual(1_400);
  });
});

describe("a second process", () => {
  it("on the same folder ends with 75 and leaves the first one alone", async () => {
    const folder = testFolder();
    await using first = await startChild(folder);
    await expect(startChild(folder)).rejects.toThrow(/in use|lock|another|already/i);
    expect((await first.call("GET", "/api-keys/key_1/webhooks")).status).toBe(200);
  });
});
