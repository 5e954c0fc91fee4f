// Events are held against the schema of their type when they are published, wherever they come from.
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { http, spool } from "../../config/index.ts";
import { kept } from "../support/kept.ts";
import { startRelay } from "../support/relay.ts";
import { testFolder } from "../support/folder.ts";
import { eventually } from "../support/until.ts";

const schema = {
  type: "object",
  required: ["amount"],
  properties: { amount: { type: "number" }, items: { type: "array", items: { type: "string" } } },
} as const;

const folder = testFolder();
const relay = kept(
  await startRelay({
    sources: [http(), spool({ dir: join(folder, "spool") })],
    metrics: { token: "metrics-of-the-tests" },
    events: {
      "deposit:paid": { schema },
      "deposit:seen": { schema, validate: "warn" },
      "deposit:old": { schema, validate: "off" },
      "deposit:any": {},
    },
  }),
);

const event = (type: string, data: unknown) => ({ type, keyId: "key_1", data });
async function counted(result: string): Promise<number> {
  const { text } = await relay.call("GET", "/metrics", { token: "metrics-of-the-tests" });
  const line = new RegExp(`^relay_schema_mismatches_total\\{result="${result}"\\} (\\d+)$`, "m").exec(text);
  return Number(line?.[1]);
}
async function stored(): Promise<number> {
  const { json } = await relay.call("GET", "/api-keys/key_1/events?limit=200");
  return (json.data as unknown[]).length;
}

describe("an event that does not match its schema", () => {
  it("is refused with the place in its data, and stored nowhere", async () => {
    const before = await counted("refused");
    const refused = await relay.publish(event("deposit:paid", { amount: "5" }));
    expect(refused.status).toBe(400);
    expect(refused.json).toMatchObject({
      code: "VALIDATION_FAILED",
      errors: [{ path: "data.amount", message: "must be a number" }],
    });
    expect(await counted("refused")).toBe(before + 1);
    expect((await relay.publish(event("deposit:paid", { amount: 5 }))).status).toBe(202);
  });

  it("refuses the whole list that it is in, with its index", async () => {
    const before = await stored();
    const good = event("deposit:paid", { amount: 1 });
    const refused = await relay.publish([
      good,
      event("deposit:paid", { amount: 1, items: ["a", 5] }),
      good,
      event("deposit:paid", 1),
    ]);
    expect(refused.status).toBe(400);
    expect(refused.json.errors).toEqual([
      { path: "[1].data.items[1]", message: "must be text" },
      { path: "[3].data", message: "must be an object" },
    ]);
    expect(await stored()).toBe(before);
  });

  it("passes and is counted where its type only warns, and just passes where it is not checked", async () => {
    const before = await counted("warned");
    expect((await relay.publish(event("deposit:seen", {}))).status).toBe(202);
    expect(await counted("warned")).toBe(before + 1);
    expect((await relay.publish(event("deposit:old", {}))).status).toBe(202);
    expect((await relay.publish(event("deposit:any", {}))).status).toBe(202);
    expect(await counted("warned")).toBe(before + 1);
  });

  it("is set aside with the reason when it comes from another source", async () => {
    const dir = join(folder, "spool");
    mkdirSync(dir, { recursive: true });
    writeFileSync(join(dir, "one.tmp"), `${JSON.stringify(event("deposit:paid", { amount: "5" }))}\n`);
    renameSync(join(dir, "one.tmp"), join(dir, "one.ndjson"));
    const rejected = join(dir, "rejected");
    const written = (): string =>
      existsSync(rejected)
        ? readdirSync(rejected)
            .map((name) => readFileSync(join(rejected, name), "utf8"))
            .join("\n")
        : "";
    await eventually("the file is rejected", async () => written().includes("must be a number"), 60_000);
    expect(written()).toContain("data.amount");
  });
});
