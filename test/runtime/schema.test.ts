import { describe, expect, it } from "vitest";
import { FILLING, META } from "../../core/model/schema.ts";
import { ensureSchema, SCHEMA, storedSchema } from "../../core/runtime/storage-schema.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock } from "../support/clock.ts";
import { pluginContext } from "../support/plugin-context.ts";

async function stored(rows: Readonly<Record<string, string>> = {}): Promise<Storage> {
  const storage = await memory().setup(pluginContext(testClock(), "/nowhere"));
  await storage.commit(Object.entries(rows).map(([key, value]) => ({ op: "put", key, value })));
  return storage;
}
const at = (version: number | string) => ({ [META.key({ what: "schema" })]: String(version) });

describe("the schema of what is stored", () => {
  it("is written at the first start, and known at the next", async () => {
    const storage = await stored();
    await ensureSchema(storage);
    await ensureSchema(storage);
    expect(await storedSchema(storage)).toBe(SCHEMA);
  });

  it("of a newer version is refused with 78, and left as it is", async () => {
    const storage = await stored(at(SCHEMA + 1));
    await expect(ensureSchema(storage)).rejects.toMatchObject({ exitCode: 78, message: /newer version/ });
    expect(await storage.getItem(META.key({ what: "schema" }))).toBe(String(SCHEMA + 1));
  });

  it.each(["", "0", "one", "1.0", "-1"])("that says %j is refused with 78", async (text) => {
    await expect(ensureSchema(await stored(at(text)))).rejects.toMatchObject({ exitCode: 78 });
  });

  it("of an older version is brought up, by whichever node comes first", async () => {
    const storage = await stored(at(1));
    await Promise.all([ensureSchema(storage), ensureSchema(storage)]);
    expect(await storedSchema(storage)).toBe(SCHEMA);
  });

  it("does not matter while a restore has not come to its end: the start is refused", async () => {
    const storage = await stored({ ...at(SCHEMA), [FILLING]: "half" });
    await expect(ensureSchema(storage)).rejects.toMatchObject({ exitCode: 78, message: /half/ });
  });
});
