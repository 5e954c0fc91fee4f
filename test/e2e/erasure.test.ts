// Erasing events and keys over real sockets: what is promised in docs/erasure.md, its operations and its commands.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
import { runHere } from "../support/command-here.ts";
import { testFolder } from "../support/folder.ts";
import { kept } from "../support/kept.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay, TEST_ENV } from "../support/relay.ts";
import { eventually } from "../support/until.ts";

const page = readFileSync(new URL("../../docs/erasure.md", import.meta.url), "utf8");

const receiver = kept(await startReceiver());
const relay = kept(await startRelay());

async function published(keyId: string, more: object = {}): Promise<string> {
  const made = await relay.publish({ type: "deposit:paid", keyId, data: { name: "Alice" }, ...more });
  expect(made.status, made.text).toBe(202);
  return made.json.data.id as string;
}

const statusOf = async (keyId: string, id: string): Promise<unknown> => (await relay.event(id, keyId))?.status;

describe("erasing an event", () => {
  it("answers 204, then 404, and the audit alone remembers it", async () => {
    await relay.subscribe(receiver.url(), {}, "key_1");
    const id = await published("key_1");
    await expect.poll(() => statusOf("key_1", id), { timeout: 30_000 }).toBe("delivered");
    const gone = await relay.call("DELETE", `/api-keys/key_1/events/${id}`);
    expect([gone.status, gone.text]).toEqual([204, ""]);
    for (const method of ["GET", "DELETE"])
      expect((await relay.call(method, `/api-keys/key_1/events/${id}`)).status).toBe(404);
    expect((await relay.call("POST", `/api-keys/key_1/events/${id}/replay`)).status).toBe(404);
    expect((await relay.call("GET", "/api-keys/key_1/events")).text).not.toContain(id);
    const { json, text } = await relay.call("GET", "/api-keys/key_1/audit");
    expect(json.data[0]).toMatchObject({ action: "event.erased", target: id, result: "done" });
    expect(text).not.toContain("Alice");
  });

  it("is refused for an event of another key, and for one that never was", async () => {
    const id = await published("key_2");
    for (const path of [`key_1/events/${id}`, "key_2/events/evt_none", "key_2/events/no%20id"])
      expect((await relay.call("DELETE", `/api-keys/${path}`)).status).toBe(404);
    expect(await statusOf("key_2", id)).toBe("unmatched");
  });

  it("is done by the command, and refuses the publisher's id for a day in words that the guide has", async () => {
    const id = await published("key_3", { id: "order-7" });
    const env = { RELAY_URL: relay.url, RELAY_TOKEN: await relay.token() };
    const erase = ["events", "delete", id, "--key", "key_3"];
    expect(await runHere(erase, { env })).toMatchObject({
      code: 0,
      stderr: "relay: order-7 is erased\n",
    });
    const again = await runHere(erase, { env });
    expect(again.code).not.toBe(0);
    const twice = await relay.publish({ type: "deposit:paid", keyId: "key_3", id: "order-7", data: { name: "Alice" } });
    expect([twice.status, twice.json.code]).toEqual([409, "IDEMPOTENCY_MISMATCH"]);
    const { message } = twice.json.errors[0] as { readonly message: string };
    expect(page).toContain(message);
  });
});

describe("erasing a key", () => {
  const isDone = async (of: Pick<ChildRelay, "call">, keyId: string): Promise<boolean> => {
    const { json } = await of.call("GET", `/api-keys/${keyId}/audit?limit=200`);
    return (json.data as { action: string; detail?: string }[]).some(
      ({ action, detail }) => action === "key.erased" && detail === "done",
    );
  };

  it("asks for a fresh second factor, and is refused for a key that is not in use or not one's own", async () => {
    await relay.subscribe(receiver.url(), {}, "key_5");
    const refused = await relay.call("DELETE", "/api-keys/key_5");
    expect([refused.status, refused.json.code]).toEqual([401, "STEP_UP_REQUIRED"]);
    const token = await relay.token({ mfa: true });
    expect((await relay.call("DELETE", "/api-keys/key_unused", { token })).status).toBe(404);
    const other = await relay.token({ mfa: true, keys: ["key_1"] });
    expect((await relay.call("DELETE", "/api-keys/key_5", { token: other })).status).toBe(404);
    expect((await relay.call("GET", "/api-keys/key_5/webhooks")).json.data).toHaveLength(1);
  });

  it("is begun by the command when it is meant, and the audit says when it is done", async () => {
    await relay.subscribe(receiver.url(), {}, "key_6");
    const id = await published("key_6");
    await published("key_7");
    const env = { RELAY_URL: relay.url, RELAY_TOKEN: await relay.token({ mfa: true }) };
    expect((await runHere(["api-keys", "erase", "key_6"], { env })).code).toBe(64);
    const { code, stderr } = await runHere(["api-keys", "erase", "key_6", "--yes"], { env });
    expect([code, stderr]).toEqual([0, expect.stringContaining("key_6 is being erased")]);
    await eventually("it is done", () => isDone(relay, "key_6"), 30_000);
    expect(await statusOf("key_6", id)).toBeUndefined();
    expect((await relay.call("GET", "/api-keys/key_6/webhooks")).json.data).toEqual([]);
    expect((await relay.call("GET", "/api-keys/key_7/events")).json.data).toHaveLength(1);
  });

  it("goes on after the process is killed in the middle of it", { timeout: 120_000 }, async () => {
    const folder = testFolder();
    const ids: string[] = [];
    {
      await using first = await startChild(folder);
      await first.subscribe(receiver.url("/gone"), { events: ["nothing:else", "deposit:paid"] });
      for (let n = 0; n < 1_500; n += 50) {
        const event = { type: n % 100 === 0 ? "deposit:paid" : "other", keyId: "key_1", data: { name: "Alice" } };
        const { status, json } = await first.publish(Array.from({ length: 50 }, () => event));
        expect(status).toBe(202);
        for (const { id } of json.data) ids.push(id as string);
      }
      ids.sort();
      expect((await first.call("DELETE", "/api-keys/key_1")).status).toBe(202);
      const early = `/api-keys/key_1/events/${ids[40] as string}`;
      await eventually("it has begun", async () => (await first.call("GET", early)).status === 404, 60_000);
      await first.kill();
    }
    await using second = await startChild(folder);
    await eventually("it is done", () => isDone(second, "key_1"), 60_000);
    expect((await second.call("GET", "/api-keys/key_1/events")).json.data).toEqual([]);
    expect((await second.call("GET", "/api-keys/key_1/webhooks")).json.data).toEqual([]);
    const owed = async (): Promise<unknown> =>
      (await second.call("GET", "/relay/status")).json.data.storage.cleanUpOwed;
    await eventually("its bytes are gone", async () => (await owed()) === false, 60_000);
    await second.kill();
    const left = readdirSync(folder, { recursive: true, withFileTypes: true }).filter(
      (file) => file.isFile() && readFileSync(join(file.parentPath, file.name)).includes("Alice"),
    );
    expect(left.map(({ name }) => name)).toEqual([]);
    const check = await runHere(["check", "--data", "--config", `${folder}/relay.config.ts`], {
      cwd: folder,
      env: TEST_ENV,
    });
    expect(check.code, check.stdout + check.stderr).toBe(0);
  });
});
