// The disk of a whole relay fills up: publishers are told, nothing accepted is lost, and it goes on when there is room again.
import { describe, expect, it } from "vitest";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { startReceiver } from "../support/receiver.ts";
import { smallDisk, type SmallDisk } from "../support/small-disk.ts";
import { TEST_KEYS } from "../support/relay.ts";

const MiB = 1024 * 1024;
/** Attempts that a test holds back do not run out of time meanwhile. */
const PATIENT = { timeoutMs: 30_000 };
const event = (id: string, bytes: number) => ({
  type: "deposit:paid",
  keyId: "key_1",
  id,
  data: { text: "x".repeat(bytes) },
});

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

const statusOf = async (relay: ChildRelay, id: string): Promise<string | undefined> => (await relay.event(id))?.status;

const WARM = 4;
const isWarm = (id: string): boolean => id.startsWith("warm:");

/** The receiver answers a few events, so that the relay makes as many attempts at once as a test holds. */
async function warm(relay: ChildRelay): Promise<void> {
  for (let n = 0; n < WARM; n++) {
    expect((await relay.publish(event(`warm:${n}`, 1))).status).toBe(202);
    await expect.poll(() => statusOf(relay, `warm:${n}`), { interval: 20 }).toBe("delivered");
  }
}

interface Held {
  readonly id: string;
  readonly resolve: () => void;
}

/** A receiver that answers only what a test lets go, so that nothing else wants to be written down meanwhile. */
async function holding(count: number) {
  const held = Array.from({ length: count }, (_, n) => ({ id: `held:${n}`, ...Promise.withResolvers<void>() }));
  const rest = Promise.withResolvers<void>();
  const receiver = await startReceiver({
    script: async ({ headers }) => {
      if (isWarm(String(headers["webhook-id"]))) return 200;
      await (held.find(({ id }) => id === headers["webhook-id"]) ?? rest).promise;
      return 200;
    },
  });
  return {
    receiver,
    held: held as readonly Held[],
    open: () => [...held, rest].forEach(({ resolve }) => resolve()),
    [Symbol.asyncDispose]: () => receiver[Symbol.asyncDispose](),
  };
}

/**
 * The receiver answers, one by one. A few such results may still find room in the log that there is, being smaller than
 * anything that is published; then one waits to be written down. Resolves to its id.
 */
async function answerUntilOneWaits(relay: ChildRelay, held: readonly Held[]): Promise<string> {
  const waits = (): boolean => relay.running.stderr().includes("a result waits for the storage");
  for (const { id, resolve } of held) {
    resolve();
    await expect
      .poll(async () => waits() || (await statusOf(relay, id)) === "delivered", { timeout: 60_000 })
      .toBe(true);
    if (waits()) return id;
  }
  throw new Error("every result was written down though the disk is full");
}

function made(skip: (condition: boolean, why?: string) => void): SmallDisk {
  const disk = smallDisk(8 * MiB);
  if (typeof disk !== "string") return disk;
  skip(true, disk);
  throw new Error(disk);
}

/** Nothing is kept free, so that the disk can be filled to its last byte. */
const onto = ({ folder }: SmallDisk): string => `dataDir: ${JSON.stringify(folder)}, intake: { reserveBytes: 0 },`;

describe("a disk that is nearly full", () => {
  it("takes in no more while there is room to finish what was accepted; retention makes room again", async ({
    skip,
  }) => {
    using disk = made(skip);
    await using hall = await holding(0);
    const config = `dataDir: ${JSON.stringify(disk.folder)},`;
    await using relay = await startChild(testFolder(), { config });
    await relay.subscribe(hall.receiver.url(), PATIENT);
    const accepted: string[] = [];
    for (let n = 0, full = false; !full; n++) {
      expect(n, "a disk of some megabytes is never full").toBeLessThan(2_000);
      const { status, json } = await relay.publish(event(`a:${n}`, 20_000));
      full = status !== 202;
      if (full) expect([status, json.code, json.retryAfter]).toEqual([503, "STORAGE_FULL", 30]);
      else accepted.push(`a:${n}`);
    }
    expect(accepted.length).toBeGreaterThan(50);
    hall.open();
    for (const id of accepted)
      await expect.poll(() => statusOf(relay, id), { timeout: 60_000, interval: 20 }).toBe("delivered");
    expect(relay.running.stderr()).not.toContain("a result waits for the storage");
    expect(relay.running.stderr()).toContain("publishing is refused: the storage is nearly full");
    const after = await relay.call("GET", "/relay/status");
    expect(after.json.data.storage.freeBytes).toBeGreaterThan(100_000);
  });
});

describe("a full disk", () => {
  it("refuses what is new, loses nothing, keeps answering, and lets go when there is room", async ({ skip }) => {
    using disk = made(skip);
    await using hall = await holding(8);
    const { receiver, held } = hall;
    const options = { config: onto(disk) };
    const folder = testFolder();
    const first = await startChild(folder, options);
    await using _ = first;
    const { id: hook } = await first.subscribe(receiver.url(), PATIENT);
    await warm(first);
    for (const { id } of held) expect((await first.publish(event(id, 1))).status).toBe(202);
    await receiver.waitFor(WARM + held.length);

    disk.fill(400_000);
    const accepted = await publishUntilFull(first, "a", 20_000);
    expect(accepted.length).toBeGreaterThan(3);
    expect(accepted.length).toBeLessThan(150);
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
    expect((await first.call("GET", "/api-keys/key_1/events?limit=200")).json.data.length).toBe(
      accepted.length + held.length + WARM,
    );
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
    accepted.push(...(await publishUntilFull(first, "b", 1)));

    const waiting = await answerUntilOneWaits(first, held);
    expect(await statusOf(first, waiting)).toBe("pending");

    disk.clear();
    hall.open();
    expect((await first.publish(event("after", 20_000))).status).toBe(202);
    const all = [...held.map(({ id }) => id), ...accepted, "after"];
    for (const id of all)
      await expect.poll(() => statusOf(first, id), { timeout: 60_000, interval: 20 }).toBe("delivered");
    // The one that waited was not sent again.
    const sent = receiver.requests.map(({ headers }) => String(headers["webhook-id"]));
    expect(sent.filter((id) => !isWarm(id)).toSorted()).toEqual(all.toSorted());
    first.running.kill("SIGTERM");
    expect((await first.running.ended).code).toBe(0);
  });

  it("is met by a start after a kill: it serves, delivers what was accepted, and recovers", async ({ skip }) => {
    using disk = made(skip);
    await using receiver = await startReceiver({ otherwise: { do: "hang" } });
    const options = { config: onto(disk) };
    const folder = testFolder();
    await using first = await startChild(folder, options);
    await first.subscribe(receiver.url(), PATIENT);
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
      await expect.poll(() => statusOf(second, id), { timeout: 60_000, interval: 20 }).toBe("delivered");
    expect((await second.publish(event("after", 1))).status).toBe(202);
  });

  it("does not keep a relay from stopping in time; what could not be written down is sent again", async ({ skip }) => {
    using disk = made(skip);
    await using hall = await holding(8);
    const { receiver, held } = hall;
    const options = { config: onto(disk) };
    const folder = testFolder();
    await using first = await startChild(folder, options);
    await first.subscribe(receiver.url(), PATIENT);
    await warm(first);
    for (const { id } of held) expect((await first.publish(event(id, 1))).status).toBe(202);
    await receiver.waitFor(WARM + held.length);
    disk.fill();
    await publishUntilFull(first, "a", 200_000);
    await publishUntilFull(first, "b", 1);
    const waiting = await answerUntilOneWaits(first, held);
    hall.open();
    const began = performance.now();
    first.running.kill("SIGTERM");
    expect((await first.running.ended).code).toBe(0);
    expect(performance.now() - began).toBeLessThan(30_000);
    disk.clear();
    await using second = await startChild(folder, options);
    await expect.poll(() => statusOf(second, waiting), { timeout: 60_000 }).toBe("delivered");
    const numbers = receiver.requests
      .filter(({ headers }) => headers["webhook-id"] === waiting)
      .map(({ headers }) => headers["x-relay-attempt"]);
    expect(numbers).toEqual(["1", "1"]);
  });
});
