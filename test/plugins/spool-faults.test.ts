import { appendFile, link, readdir, rename, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { StorageError } from "../../core/model/errors.ts";
import type { Accept } from "../../core/ports/source.ts";
import { desk, type Desk } from "../support/intake.ts";
import { shelf } from "../support/shelf.ts";
import { filesIn, folder, info, life, lines, spoolBench, stored } from "../support/spool.ts";

/** A desk that stores so many commits, and then no more. */
function failing(after: number): Desk {
  const intake = desk();
  let commits = 0;
  intake.shelf.before = () => {
    if (++commits > after) throw new StorageError("unavailable", "gone");
  };
  return intake;
}

/** A file of which two batches are stored and noted, by a life that is over. */
async function halfStored() {
  const [storage, intake] = [shelf(), failing(2)];
  const { fates, dir } = await life({ big: lines(5_000) }, { storage, intake });
  expect(fates).toEqual(["waits"]);
  intake.shelf.before = () => {};
  const [[key, text] = ["", ""]] = storage.rows;
  return { storage, intake, dir, key, text };
}

describe("while nothing can be stored", () => {
  it("files stay where they are, and are stored when the storage is back", async () => {
    const made = await spoolBench();
    const intake = desk();
    intake.shelf.before = () => {
      throw new StorageError("full", "no space");
    };
    await made.drop("a", lines(1));
    await made.drop("b", lines(1));
    await made.source.start(intake.intake.accept, info);
    expect(await made.next()).toBe("waits");
    await made.clock.whenSleeping();
    expect(await filesIn(made.dir)).toEqual(["a", "b", "done", "rejected"]);
    intake.shelf.before = () => {};
    await made.clock.advance(5_000);
    expect([await made.next(), await made.next()]).toEqual(["stored", "stored"]);
    await made.source.stop();
    expect(stored(intake)).toHaveLength(2);
  });

  it("a large file goes on behind what was stored of it, even days later", async () => {
    const { intake, ...first } = await halfStored();
    await intake.clock.advance(3 * 86_400_000);
    const { fates } = await life({}, { ...first, intake, fates: 1 });
    expect([fates, stored(intake).length, first.storage.rows.size]).toEqual([["stored"], 5_000, 0]);
  });
});

describe("a crash", () => {
  it("between the commit and the move duplicates nothing", async () => {
    const { intake, dir } = await life({ a: lines(2_000) });
    // As if the move had never happened, and the notes about progress had been lost with it.
    await rename(join(dir, "done", "a"), join(dir, "a"));
    const { fates } = await life({}, { dir, intake, fates: 1 });
    expect([fates, stored(intake).length]).toEqual([["stored"], 2_000]);
  });

  it("in the middle of the move neither loses the file nor duplicates it, also where its name is used again", async () => {
    const { intake, dir, drop } = await life({ a: lines(2) });
    await rename(join(dir, "done", "a"), join(dir, ".a.relaybox-moving"));
    await writeFile(join(dir, ".b.relaybox-moving"), lines(1));
    await drop("b", lines(1));
    await drop("c", lines(1));
    await link(join(dir, "c"), join(dir, ".c.relaybox-moving"));
    const { fates } = await life({}, { dir, intake, fates: 4 });
    expect(fates).toEqual(["stored", "stored", "stored", "stored"]);
    expect(stored(intake)).toHaveLength(5);
    expect(await filesIn(dir, "done")).toEqual(["a", "b", "b.1", "c"]);
  });

  it("leaves no notes behind about files that somebody took away", async () => {
    const [storage, intake] = [shelf(), failing(1)];
    const { dir } = await life({ a: lines(1_500) }, { storage, intake });
    expect(storage.rows.size).toBe(1);
    await rm(join(dir, "a"));
    await life({}, { storage, dir, intake });
    expect(storage.rows.size).toBe(0);
  });

  it("and another file of the same name and size later are told apart", async () => {
    const [dir, intake] = [await folder(), desk()];
    for (const seconds of [1_000, 2_000]) {
      await writeFile(join(dir, "a"), lines(1));
      await utimes(join(dir, "a"), seconds, seconds);
      expect((await life({}, { dir, intake, fates: 1 })).fates).toEqual(["stored"]);
    }
    expect(stored(intake)).toHaveLength(2);
  });
});

describe("what is noted about a file", () => {
  const DAMAGES: readonly (readonly [string, (text: string) => string])[] = [
    ["has another digit", (text) => text.replace("2000", "9000")],
    ["is torn", (text) => text.slice(0, text.length / 2)],
    ["is garbage", () => "\u0000"],
    ["is JSON of another kind", () => "null"],
  ];

  it.each(DAMAGES)("and %s loses no line of it, keeps it from nothing, and is said", async (_, damage) => {
    const { storage, intake, dir, key, text } = await halfStored();
    expect(damage(text)).not.toBe(text);
    storage.rows.set(key, damage(text));
    const { fates, log } = await life({}, { storage, dir, intake, fates: 1 });
    expect([fates, stored(intake).length, storage.rows.size]).toEqual([["stored"], 5_000, 0]);
    expect(log.lines.map(({ message }) => message)).toContain("what is noted about a spool file is damaged");
  });

  it("and cannot be read from the storage loses no line of it either", async () => {
    const { storage, intake, dir } = await halfStored();
    const getItem = () => Promise.reject(new StorageError("broken", "a page of the file is damaged"));
    const { fates } = await life({}, { storage: { ...storage, getItem }, dir, intake, fates: 1 });
    expect([fates, stored(intake).length]).toEqual([["stored"], 5_000]);
  });

  it.each(DAMAGES)("that is gone and %s is dropped, and stops no scan of the folder", async (_, damage) => {
    const { storage, intake, dir, key, text } = await halfStored();
    storage.rows.set(key, damage(text));
    await rm(join(dir, "big"));
    const { log } = await life({}, { storage, dir, intake });
    expect(storage.rows.size).toBe(0);
    expect(log.lines.filter(({ level }) => level === "error")).toEqual([]);
  });

  it("was noted by version 0.1.0, and counts", async () => {
    const { storage, intake, dir, key, text } = await halfStored();
    const { stored: ranges, file } = JSON.parse(text) as Record<string, unknown>;
    for (const old of [{ stored: ranges, file }, ranges]) {
      storage.rows.set(key, JSON.stringify(old));
      let asked = 0;
      const accept = () => {
        asked++;
        return Promise.reject(new StorageError("unavailable", "gone"));
      };
      const { fates } = await life({}, { storage, dir, accept, fates: 1 });
      expect([fates, asked]).toEqual([["waits"], 1]);
    }
    await intake.clock.advance(3 * 86_400_000);
    await life({}, { storage, dir, intake, fates: 1 });
    expect(stored(intake)).toHaveLength(5_000);
  });
});

describe("a file that is dropped under the name of one that is being taken in", () => {
  it.each([
    ["stored", lines(3), 5],
    ["refused", "no JSON", 2],
  ])("is taken in too, where the first one is %s", async (fate, text, events) => {
    const [dir, intake] = [await folder(), desk()];
    let calls = 0;
    const accept: Accept = async (request) => {
      if (calls++ === 0) {
        await writeFile(join(dir, ".a"), lines(2));
        await rename(join(dir, ".a"), join(dir, "a"));
      }
      return await intake.intake.accept(request);
    };
    const { fates, storage, log } = await life({ a: text }, { dir, accept, fates: 2 });
    expect([fates, stored(intake).length]).toEqual([[fate, "stored"], events]);
    expect(await filesIn(dir)).toEqual(["done", "rejected"]);
    expect(await filesIn(dir, "done")).toEqual(["a"]);
    expect(storage.rows.size).toBe(0);
    expect(log.lines.map(({ message }) => message)).toContain("a spool file was replaced while it was read");
  });
});

describe("lines put behind a file while it is taken in", () => {
  const appended = (from: number, count: number): string => lines(count, (i) => ({ data: from + i }));

  /** Takes a file in, to which something is written during the first commit. */
  async function writtenTo(name: string, text: string, more: string) {
    const [dir, intake] = [await folder(), desk()];
    let commits = 0;
    intake.shelf.before = () => (commits++ === 0 ? appendFile(join(dir, name), more) : undefined);
    const made = await life({ [name]: text }, { dir, intake, fates: 2 });
    expect(made.fates).toEqual(["stored", "stored"]);
    return { dir, storage: made.storage, events: stored(intake).length };
  }

  it("are taken in too, as a file of their own, also when they come after the last check of it", async () => {
    const { dir, storage, events } = await writtenTo("a", lines(3), appended(3, 2));
    expect(events).toBe(5);
    const names = (await filesIn(dir, "done")).map((name) => name.replace(/[0-9a-f]{16}/, "#"));
    expect(names).toEqual(["a", "a.#.rest"]);
    expect(storage.rows.size).toBe(0);
  });

  it("need no newline of the line before them", async () => {
    expect((await writtenTo("a", lines(2).trimEnd(), `\n${appended(2, 1)}`)).events).toBe(3);
  });

  it.each([
    ["ASCII", "a".repeat(240)],
    ["characters of three bytes", "漢".repeat(80)],
  ])("are taken in too when the name is as long as a disk allows, of %s", async (_, name) => {
    const { dir, storage, events } = await writtenTo(name, lines(3), appended(3, 2));
    expect(events).toBe(5);
    expect(await filesIn(dir)).toEqual(["done", "rejected"]);
    expect(storage.rows.size).toBe(0);
  });

  it("are found by the next life when this one dies between the move and the last check", async () => {
    const [storage, intake] = [shelf(), desk()];
    let commits = 0;
    let notes: readonly (readonly [string, string])[] = [];
    intake.shelf.before = () => {
      if (++commits === 2) notes = [...storage.rows];
    };
    const { dir } = await life({ a: lines(2_000) }, { storage, intake });
    for (let lives = 0; lives < 2; lives++) {
      // As the first life left it: moved, and its notes still there.
      if (lives === 0) await appendFile(join(dir, "done", "a"), appended(2_000, 4));
      for (const [key, value] of notes) storage.rows.set(key, value);
      await life({}, { storage, dir, intake, fates: lives === 0 ? 1 : 0 });
      expect(stored(intake)).toHaveLength(2_004);
      expect(storage.rows.size).toBe(0);
    }
    expect(await readdir(join(dir, "done"))).toHaveLength(2);
  });
});
