import { appendFile, link, readdir, rename, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { StorageError } from "../../core/model/errors.ts";
import { desk } from "../support/intake.ts";
import { shelf } from "../support/shelf.ts";
import { filesIn, info, lines, spoolBench, stored } from "../support/spool.ts";

/** A file of which two batches are stored and noted, by a life that is over. */
async function halfStored() {
  const storage = shelf();
  const intake = desk();
  const first = await spoolBench({ storage });
  let commits = 0;
  intake.shelf.before = () => {
    if (++commits > 2) throw new StorageError("unavailable", "gone");
  };
  await first.drop("big", lines(5_000));
  await first.source.start(intake.intake.accept, info);
  expect(await first.next()).toBe("waits");
  await first.source.stop();
  intake.shelf.before = () => {};
  const [[key, text] = ["", ""]] = storage.rows;
  return { storage, intake, dir: first.dir, key, text };
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
    const { storage, intake, dir } = await halfStored();
    await intake.clock.advance(3 * 86_400_000);
    const second = await spoolBench({ storage, dir });
    await second.source.start(intake.intake.accept, info);
    expect(await second.next()).toBe("stored");
    await second.source.stop();
    expect(stored(intake)).toHaveLength(5_000);
    expect(storage.rows.size).toBe(0);
  });
});

describe("a crash", () => {
  it("between the commit and the move duplicates nothing", async () => {
    const intake = desk();
    const first = await spoolBench();
    await first.drop("a", lines(2_000));
    await first.source.start(intake.intake.accept, info);
    expect(await first.next()).toBe("stored");
    await first.source.stop();
    // As if the move had never happened, and the notes about progress had been lost with it.
    await rename(join(first.dir, "done", "a"), join(first.dir, "a"));
    const second = await spoolBench({ dir: first.dir });
    await second.source.start(intake.intake.accept, info);
    expect(await second.next()).toBe("stored");
    await second.source.stop();
    expect(stored(intake)).toHaveLength(2_000);
  });

  it("in the middle of the move neither loses the file nor duplicates it, also where its name is used again", async () => {
    const intake = desk();
    const first = await spoolBench();
    await first.drop("a", lines(2));
    await first.source.start(intake.intake.accept, info);
    expect(await first.next()).toBe("stored");
    await first.source.stop();
    await rename(join(first.dir, "done", "a"), join(first.dir, ".a.relaybox-moving"));
    await writeFile(join(first.dir, ".b.relaybox-moving"), lines(1));
    await first.drop("b", lines(1));
    await first.drop("c", lines(1));
    await link(join(first.dir, "c"), join(first.dir, ".c.relaybox-moving"));
    const second = await spoolBench({ dir: first.dir });
    await second.source.start(intake.intake.accept, info);
    for (let files = 0; files < 4; files++) expect(await second.next()).toBe("stored");
    await second.source.stop();
    expect(stored(intake)).toHaveLength(5);
    expect(await filesIn(first.dir, "done")).toEqual(["a", "b", "b.1", "c"]);
  });

  it("leaves no notes behind about files that somebody took away", async () => {
    const storage = shelf();
    const intake = desk();
    const first = await spoolBench({ storage });
    await first.drop("a", lines(1_500));
    let commits = 0;
    intake.shelf.before = () => {
      if (++commits > 1) throw new StorageError("unavailable", "gone");
    };
    await first.source.start(intake.intake.accept, info);
    expect(await first.next()).toBe("waits");
    await first.source.stop();
    expect(storage.rows.size).toBe(1);
    await rm(join(first.dir, "a"));
    const second = await spoolBench({ storage, dir: first.dir });
    await second.source.start(intake.intake.accept, info);
    await second.clock.whenSleeping();
    await second.source.stop();
    expect(storage.rows.size).toBe(0);
  });

  it("and another file of the same name and size later are told apart", async () => {
    const made = await spoolBench();
    const intake = desk();
    await made.source.start(intake.intake.accept, info);
    for (const seconds of [1_000, 2_000]) {
      await writeFile(join(made.dir, ".a"), lines(1));
      await utimes(join(made.dir, ".a"), seconds, seconds);
      await rename(join(made.dir, ".a"), join(made.dir, "a"));
      expect(await made.next()).toBe("stored");
    }
    await made.source.stop();
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
    const second = await spoolBench({ storage, dir });
    await second.source.start(intake.intake.accept, info);
    expect(await second.next()).toBe("stored");
    await second.source.stop();
    expect(stored(intake)).toHaveLength(5_000);
    expect(storage.rows.size).toBe(0);
    expect(second.log.lines.map(({ message }) => message)).toContain("what is noted about a spool file is damaged");
  });

  it("and cannot be read from the storage loses no line of it either", async () => {
    const { storage, intake, dir } = await halfStored();
    const getItem = () => Promise.reject(new StorageError("broken", "a page of the file is damaged"));
    const second = await spoolBench({ storage: { ...storage, getItem }, dir });
    await second.source.start(intake.intake.accept, info);
    expect(await second.next()).toBe("stored");
    await second.source.stop();
    expect(stored(intake)).toHaveLength(5_000);
  });

  it.each(DAMAGES)("that is gone and %s is dropped, and stops no look at the folder", async (_, damage) => {
    const { storage, intake, dir, key, text } = await halfStored();
    storage.rows.set(key, damage(text));
    await rm(join(dir, "big"));
    const second = await spoolBench({ storage, dir });
    await second.source.start(intake.intake.accept, info);
    await second.clock.whenSleeping();
    await second.source.stop();
    expect(storage.rows.size).toBe(0);
    expect(second.log.lines.filter(({ level }) => level === "error")).toEqual([]);
  });

  it("was noted by version 0.1.0, and counts", async () => {
    const { storage, intake, dir, key, text } = await halfStored();
    const { stored: ranges, file } = JSON.parse(text) as Record<string, unknown>;
    for (const old of [{ stored: ranges, file }, ranges]) {
      storage.rows.set(key, JSON.stringify(old));
      let asked = 0;
      const second = await spoolBench({ storage, dir });
      await second.source.start(() => {
        asked++;
        return Promise.reject(new StorageError("unavailable", "gone"));
      }, info);
      expect(await second.next()).toBe("waits");
      await second.source.stop();
      expect(asked).toBe(1);
    }
    const third = await spoolBench({ storage, dir });
    await intake.clock.advance(3 * 86_400_000);
    await third.source.start(intake.intake.accept, info);
    expect(await third.next()).toBe("stored");
    await third.source.stop();
    expect(stored(intake)).toHaveLength(5_000);
  });
});

describe("a file that is dropped under the name of one that is being taken in", () => {
  it.each([
    ["stored", lines(3), 5],
    ["refused", "no JSON", 2],
  ])("is taken in too, where the first one is %s", async (fate, text, events) => {
    const made = await spoolBench();
    const intake = desk();
    await made.drop("a", text);
    let calls = 0;
    await made.source.start(async (request) => {
      if (calls++ === 0) await made.drop("a", lines(2));
      return await intake.intake.accept(request);
    }, info);
    expect([await made.next(), await made.next()]).toEqual([fate, "stored"]);
    await made.source.stop();
    expect(stored(intake)).toHaveLength(events);
    expect(await filesIn(made.dir)).toEqual(["done", "rejected"]);
    expect(await filesIn(made.dir, "done")).toEqual(["a"]);
    expect(made.storage.rows.size).toBe(0);
    expect(made.log.lines.map(({ message }) => message)).toContain("a spool file was replaced while it was read");
  });
});

describe("lines put behind a file while it is taken in", () => {
  const appended = (from: number, count: number): string => lines(count, (i) => ({ data: from + i }));

  it("are taken in too, as a file of their own, also when they come after the last look at it", async () => {
    const made = await spoolBench();
    const intake = desk();
    await made.drop("a", lines(3));
    let commits = 0;
    intake.shelf.before = () => (commits++ === 0 ? appendFile(join(made.dir, "a"), appended(3, 2)) : undefined);
    await made.source.start(intake.intake.accept, info);
    expect([await made.next(), await made.next()]).toEqual(["stored", "stored"]);
    await made.source.stop();
    expect(stored(intake)).toHaveLength(5);
    expect((await filesIn(made.dir, "done")).map((name) => name.replace(/[0-9a-f]{16}/, "#"))).toEqual([
      "a",
      "a.#.rest",
    ]);
    expect(made.storage.rows.size).toBe(0);
  });

  it("need no newline of the line before them", async () => {
    const made = await spoolBench();
    const intake = desk();
    await made.drop("a", lines(2).trimEnd());
    let commits = 0;
    intake.shelf.before = () => (commits++ === 0 ? appendFile(join(made.dir, "a"), `\n${appended(2, 1)}`) : undefined);
    await made.source.start(intake.intake.accept, info);
    expect([await made.next(), await made.next()]).toEqual(["stored", "stored"]);
    await made.source.stop();
    expect(stored(intake)).toHaveLength(3);
  });

  it.each([
    ["ASCII", "a".repeat(240)],
    ["characters of three bytes", "漢".repeat(80)],
  ])("are taken in too when the name is as long as a disk allows, of %s", async (_, name) => {
    const made = await spoolBench();
    const intake = desk();
    await made.drop(name, lines(3));
    let commits = 0;
    intake.shelf.before = () => (commits++ === 0 ? appendFile(join(made.dir, name), appended(3, 2)) : undefined);
    await made.source.start(intake.intake.accept, info);
    expect([await made.next(), await made.next()]).toEqual(["stored", "stored"]);
    await made.source.stop();
    expect(stored(intake)).toHaveLength(5);
    expect(await filesIn(made.dir)).toEqual(["done", "rejected"]);
    expect(made.storage.rows.size).toBe(0);
  });

  it("are found by the next life when this one dies between the move and the last look", async () => {
    const storage = shelf();
    const intake = desk();
    const first = await spoolBench({ storage });
    await first.drop("a", lines(2_000));
    let commits = 0;
    let notes: readonly (readonly [string, string])[] = [];
    intake.shelf.before = () => {
      if (++commits === 2) notes = [...storage.rows];
    };
    await first.source.start(intake.intake.accept, info);
    expect(await first.next()).toBe("stored");
    await first.source.stop();
    for (let lives = 0; lives < 2; lives++) {
      // As the first life left it: moved, and its notes still there.
      if (lives === 0) await appendFile(join(first.dir, "done", "a"), appended(2_000, 4));
      for (const [key, value] of notes) storage.rows.set(key, value);
      const next = await spoolBench({ storage, dir: first.dir });
      await next.source.start(intake.intake.accept, info);
      if (lives === 0) expect(await next.next()).toBe("stored");
      await next.clock.whenSleeping();
      await next.source.stop();
      expect(stored(intake)).toHaveLength(2_004);
      expect(storage.rows.size).toBe(0);
    }
    expect(await readdir(join(first.dir, "done"))).toHaveLength(2);
  });
});
