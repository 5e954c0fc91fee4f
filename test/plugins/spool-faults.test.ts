import { rename, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { StorageError } from "../../core/model/errors.ts";
import { desk } from "../support/intake.ts";
import { shelf } from "../support/shelf.ts";
import { filesIn, info, lines, spoolBench, stored } from "../support/spool.ts";

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
    await intake.clock.advance(3 * 86_400_000);
    const second = await spoolBench({ storage, dir: first.dir });
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
