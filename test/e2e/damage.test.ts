// Bits flip on the disk under a whole relay: what they change is never sent, and everything else is.
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
import { runHere } from "../support/command-here.ts";
import { testFolder } from "../support/folder.ts";
import { startReceiver } from "../support/receiver.ts";
import { TEST_ENV } from "../support/relay.ts";

const folder = testFolder();
const PATIENCE = { timeout: 240_000 };

/** Changes every copy of a text in the files below a folder. @returns how many there were */
function change(dir: string, from: string, to: string): number {
  let changed = 0;
  for (const name of readdirSync(dir, { recursive: true, encoding: "utf8" })) {
    const path = join(dir, name);
    if (!statSync(path).isFile() || name.startsWith("relay.config")) continue;
    const bytes = readFileSync(path);
    for (let at = bytes.indexOf(from); at >= 0; at = bytes.indexOf(from, at + 1), changed++) bytes.write(to, at);
    if (bytes.includes(to)) writeFileSync(path, bytes);
  }
  return changed;
}

async function stop(relay: ChildRelay): Promise<void> {
  relay.running.kill("SIGTERM");
  await relay.running.ended;
}

describe.each(["sqlite", "filesystem"])("one bit flips in the files of %s()", (storage) => {
  it("an amount of 1000 is not sent as 9000, and its neighbours are sent", { timeout: 240_000 }, async () => {
    const dir = join(folder, storage);
    mkdirSync(dir);
    const options = {
      imports: [storage],
      config: `storage: ${storage}(), delivery: { concurrency: 1 }, metrics: { token: "scrape-token-of-the-test" },`,
    };
    let answers: "hang" | "reply" = "hang";
    await using receiver = await startReceiver({ script: () => ({ do: answers }) });
    const ids: string[] = [];
    {
      await using relay = await startChild(dir, options);
      await relay.subscribe(receiver.url(), { timeoutMs: 30_000 });
      // The first takes the only slot: of the others, nothing but the files knows.
      for (let n = 0; n < 5; n++) {
        const { json } = await relay.publish({ type: "deposit:paid", keyId: "key_1", data: { amount: 1000, n } });
        ids.push(json.data.id as string);
      }
      await stop(relay);
    }
    expect(change(dir, '"amount":1000,"n":2', '"amount":9000,"n":2')).toBeGreaterThan(0);

    answers = "reply";
    const before = receiver.requests.length;
    {
      await using relay = await startChild(dir, options);
      const statuses = async (): Promise<readonly string[]> => {
        const { json } = await relay.call("GET", "/api-keys/key_1/events");
        const events = json.data as readonly { readonly id: string; readonly status: string }[];
        return ids.map((id) => events.find((event) => event.id === id)?.status ?? "");
      };
      await expect.poll(async () => (await statuses()).filter((one) => one === "delivered"), PATIENCE).toHaveLength(4);
      const sub = (await relay.call("GET", "/api-keys/key_1/webhooks")).json.data[0].id as string;
      const failed = (): Promise<{ readonly json: ReturnType<typeof JSON.parse> }> =>
        relay.call("GET", `/api-keys/key_1/webhooks/${sub}/deliveries?status=failed`);
      await expect.poll(async () => (await failed()).json.data as unknown[], PATIENCE).toHaveLength(1);
      expect((await failed()).json.data[0]).toMatchObject({ reason: "record_damaged", eventId: ids[2], attempts: [] });
      const text = await (
        await fetch(`${relay.url}/metrics`, { headers: { authorization: "Bearer scrape-token-of-the-test" } })
      ).text();
      expect(text).toContain('relay_records_damaged_total{kind="event"} 1');
      await relay.running.waitFor(/a stored record is damaged/);
      // filesystem() has moved the file away: there the event is gone.
      const { status } = await relay.call("POST", `/api-keys/key_1/events/${ids[2]}/replay`);
      expect(status).toBe(storage === "sqlite" ? 409 : 404);
      await stop(relay);
    }
    const sent = receiver.requests.slice(before).map(({ headers }) => headers["webhook-id"]);
    expect(sent.toSorted()).toEqual(ids.filter((_, n) => n !== 2).toSorted());
    expect(receiver.requests.filter(({ body }) => body.includes("9000"))).toEqual([]);

    const check = await runHere(["check", "--data", "--config", join(dir, "relay.config.ts")], {
      cwd: dir,
      env: TEST_ENV,
    });
    expect(check.code).toBe(65);
    expect(check.stderr).toContain((ids[2] as string).slice("evt_".length));
  });
});
