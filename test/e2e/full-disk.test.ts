// The disk of a whole relay fills up: publishers are told, nothing accepted is lost, and it goes on when there is room again.
import { describe, expect, it } from "vitest";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { smallDisk, type SmallDisk } from "../support/small-disk.ts";
import { TEST_KEYS } from "../support/relay.ts";

const MiB = 1024 * 1024;
const event = (id: string, bytes: number) => ({
  type: "deposit:paid",
  keyId: "key_1",
  id,
  data: { text: "x".repeat(bytes) },
});

async function subscribe(relay: ChildRelay, receiver: Receiver): Promise<string> {
  const made = await relay.call("POST", "/api-keys/key_1/webhooks", { url: receiver.url(), events: ["*"] });
  expect(made.status).toBe(201);
  return made.json.data.id as string;
}

/** Publishes until there is no room; resolves to the ids that were accepted. */
async function publishUntilFull(relay: ChildRelay, prefix: string, bytes: number): Promise<string[]> {
  const accepted: string[] = [];
  for (let n = 0; ; n++) {
    const id = `${prefix}:${n}`;
    const { status, json } = await relay.publish(event(id, bytes));
    if (status === 202) accepted.push(id);
    else {
      expect([status, json.code, json.retryAfter]).toEqual([503, "STORAGE_FULL", 5]);
      return accepted;
    }
    expect(n, "a disk of some megabytes is never full").toBeLessThan(2_000);
  }
}

async function statusOf(relay: ChildRelay, id: string): Promise<string | undefined> {
  return (await relay.call("GET", `/api-keys/key_1/events/${id}`)).json.data?.status;
}

function made(skip: (condition: boolean, why?: string) => void): SmallDisk {
  const disk = smallDisk(8 * MiB);
  if (typeof disk !== "string") return disk;
  skip(true, disk);
  throw new Error(disk);
}

describe("a full disk", () => {
  it("refuses what is new, loses nothing, keeps answering, and lets go when there is room", async ({ skip }) => {
    using disk = made(skip);
    const late = Promise.withResolvers<void>();
    await using receiver = await startReceiver({
      script: async (request) => {
        if (request.headers["webhook-id"] === "first") await late.promise;
        return 200;
      },
    });
    const options = { config: `dataDir: ${JSON.stringify(disk.folder)},` };
    const folder = testFolder();
    const first = await startChild(folder, options);
    await using _ = first;
    const hook = await subscribe(first, receiver);
    expect((await first.publish(event("first", 1))).status).toBe(202);
    await receiver.waitFor(1);

    disk.fill(400_000);
    const accepted = await publishUntilFull(first, "a", 20_000);
    expect(accepted.length).toBeGreaterThan(3);
    const refused = await fetch(`${first.url}/events`, {
      method: "POST",
      headers: { authorization: `Bearer ${TEST_KEYS.publishToken}`, "content-type": "application/json" },
      body: JSON.stringify([event("batch:1", 1), event("batch:2", 200_000), event("batch:3", 200_000)]),
    });
    expect(refused.status).toBe(503);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    expect(refused.headers.get("content-type")).toContain("application/problem+json");

    // Reading goes on, and what cannot be stored is refused in the same way.
    expect((await fetch(`${first.url}/healthz`)).status).toBe(200);
    expect((await first.call("GET", "/api-keys/key_1/events?limit=200")).json.data.length).toBe(accepted.length + 1);
    expect(await statusOf(first, "batch:1")).toBeUndefined();
    const big = {
      description: "d".repeat(500),
      events: ["*", ...Array.from({ length: 99 }, (_, i) => `${"e".repeat(120)}${i}`)],
    };
    for (let tries = 0, full = false; !full; tries++) {
      const { status, json } = await first.call("PATCH", `/api-keys/key_1/webhooks/${hook}`, {
        ...big,
        description: `${tries}`,
      });
      full = status === 503;
      if (full) expect(json.code).toBe("STORAGE_FULL");
      else expect([status, tries < 100]).toEqual([200, true]);
    }
    const before = receiver.requests.length;

    // The receiver has answered. Where that cannot be written down it waits, and is not sent again; so small a record may
    // also find room in the log that there is.
    late.resolve();
    const stored = expect.poll(() => statusOf(first, "first"), { timeout: 15_000 }).toBe("delivered");
    const waits = first.running.waitFor(/a result waits for the storage/).catch(() => undefined);
    await Promise.race([waits, stored]);

    disk.clear();
    await stored;
    expect((await first.publish(event("after", 20_000))).status).toBe(202);
    for (const id of [...accepted, "after"])
      await expect.poll(() => statusOf(first, id), { timeout: 15_000, interval: 20 }).toBe("delivered");
    const arrived = receiver.requests.map((request) => request.headers["webhook-id"]);
    expect(arrived.toSorted()).toEqual(["first", ...accepted, "after"].toSorted());
    expect(before).toBeLessThanOrEqual(arrived.length);
    first.running.kill("SIGTERM");
    expect((await first.running.ended).code).toBe(0);
  });

  it("is met by a start after a kill: it serves, delivers what was accepted, and recovers", async ({ skip }) => {
    using disk = made(skip);
    await using receiver = await startReceiver({ otherwise: { do: "hang" } });
    const options = { config: `dataDir: ${JSON.stringify(disk.folder)},` };
    const folder = testFolder();
    await using first = await startChild(folder, options);
    await subscribe(first, receiver);
    disk.fill(600_000);
    const accepted = await publishUntilFull(first, "a", 50_000);
    expect(accepted.length).toBeGreaterThan(3);
    await first.kill();
    disk.fill();
    receiver.answer(() => 200);
    await using second = await startChild(folder, options);
    const listed = await second.call("GET", "/api-keys/key_1/events?limit=200");
    expect(listed.json.data.map(({ id }: { id: string }) => id).toSorted()).toEqual(accepted.toSorted());
    disk.clear();
    for (const id of accepted)
      await expect.poll(() => statusOf(second, id), { timeout: 15_000, interval: 20 }).toBe("delivered");
    expect((await second.publish(event("after", 1))).status).toBe(202);
  });

  it("does not keep a relay from stopping in time; what could not be written down is sent again", async ({ skip }) => {
    using disk = made(skip);
    const late = Promise.withResolvers<void>();
    await using receiver = await startReceiver({
      script: (_, index) => (index === 0 ? late.promise.then(() => 200) : 200),
    });
    const options = { config: `dataDir: ${JSON.stringify(disk.folder)},` };
    const folder = testFolder();
    await using first = await startChild(folder, options);
    await subscribe(first, receiver);
    expect((await first.publish(event("first", 1))).status).toBe(202);
    await receiver.waitFor(1);
    disk.fill();
    await publishUntilFull(first, "a", 200_000);
    await publishUntilFull(first, "b", 1);
    late.resolve();
    await first.running.waitFor(/a result waits for the storage/);
    const began = performance.now();
    first.running.kill("SIGTERM");
    expect((await first.running.ended).code).toBe(0);
    expect(performance.now() - began).toBeLessThan(3_000);
    disk.clear();
    await using second = await startChild(folder, options);
    await expect.poll(() => statusOf(second, "first"), { timeout: 10_000 }).toBe("delivered");
    const numbers = receiver.requests
      .filter(({ headers }) => headers["webhook-id"] === "first")
      .map(({ headers }) => headers["x-relay-attempt"]);
    expect(numbers).toEqual(["1", "1"]);
  });
});
