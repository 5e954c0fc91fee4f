import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { spool, type SpoolOptions } from "../../plugins/source/spool.ts";
import { describeSource, type Upstream } from "../conformance/source.ts";
import { context } from "../support/context.ts";
import { desk, paid } from "../support/intake.ts";
import { filesIn, folder, info, lines, report, spoolBench, stored, type SpoolBench } from "../support/spool.ts";

describe("spool() keeps the law of a source:", () => {
  const fate = { stored: "acknowledged", refused: "refused", waits: "later" } as const;
  const benches = new WeakMap<object, SpoolBench>();
  describeSource(it, {
    async open() {
      const made = await spoolBench();
      let count = 0;
      const under = {
        source: made.source,
        async publish(text: string): Promise<Upstream> {
          await made.drop(`${count++}.ndjson`, text);
          return fate[await made.next()];
        },
        [Symbol.asyncDispose]: () => made.source.stop(),
      };
      benches.set(under, made);
      return under;
    },
    async again(under) {
      const made = benches.get(under) as SpoolBench;
      await made.clock.whenSleeping();
      const next = made.next();
      await made.clock.advance(1_000);
      return fate[await next];
    },
  });
});

describe("a file dropped into the folder", () => {
  it("is stored in one commit and moved to done/", async () => {
    const made = await spoolBench();
    const intake = desk();
    await made.drop("a.ndjson", lines(1_000));
    await made.source.start(intake.intake.accept, info);
    expect(await made.next()).toBe("stored");
    expect(stored(intake)).toHaveLength(1_000);
    expect(intake.shelf.commits).toHaveLength(1);
    await made.source.stop();
    expect([await filesIn(made.dir), await filesIn(made.dir, "done")]).toEqual([["done", "rejected"], ["a.ndjson"]]);
    expect([...made.storage.rows]).toEqual([]);
  });

  it("is found when it arrives, and by the next look where nothing was seen", async () => {
    const made = await spoolBench();
    const intake = desk();
    await made.source.start(intake.intake.accept, info);
    await made.clock.whenSleeping();
    await made.drop("a.ndjson", lines(1));
    expect(await made.next()).toBe("stored");
    await made.clock.whenSleeping();
    await made.drop("b.ndjson", lines(1));
    await made.clock.advance(10_000);
    expect(await made.next()).toBe("stored");
    await made.source.stop();
  });

  it("is left alone until its writer has renamed it", async () => {
    const made = await spoolBench();
    const intake = desk();
    for (const name of [".a", "b.tmp", "c.part"]) await writeFile(join(made.dir, name), lines(1));
    await made.source.start(intake.intake.accept, info);
    await made.clock.whenSleeping();
    await made.source.stop();
    expect(stored(intake)).toEqual([]);
    expect(await filesIn(made.dir)).toEqual([".a", "b.tmp", "c.part", "done", "rejected"]);
  });

  it("is not followed when it is a link, opened when it is a pipe, or entered when it is a folder", async () => {
    const made = await spoolBench();
    const intake = desk();
    const secret = join(await folder(), "secret");
    await writeFile(secret, lines(1));
    await symlink(secret, join(made.dir, "link"));
    await mkdir(join(made.dir, "sub"));
    await writeFile(join(made.dir, "sub", "x"), lines(1));
    execFileSync("mkfifo", [join(made.dir, "pipe")]);
    await made.source.start(intake.intake.accept, info);
    await made.clock.whenSleeping();
    expect(made.log.lines.map(({ fields }) => fields["file"])).toEqual(["link", "pipe"]);
    await made.clock.advance(60_000);
    expect(made.log.lines).toHaveLength(2);
    await made.source.stop();
    expect(stored(intake)).toEqual([]);
    expect(existsSync(secret)).toBe(true);
  });

  it("goes after those whose names sort before it, and an empty one is done at once", async () => {
    const made = await spoolBench();
    const intake = desk();
    await made.drop(
      "b",
      lines(1, () => ({ id: "second" })),
    );
    await made.drop(
      "a",
      lines(1, () => ({ id: "first" })),
    );
    await made.drop("c", "");
    await made.drop("d", "\n \r\n");
    await made.source.start(intake.intake.accept, info);
    for (let i = 0; i < 4; i++) expect(await made.next()).toBe("stored");
    await made.source.stop();
    expect(intake.told.map(({ id }) => id)).toEqual(["first", "second"]);
  });

  it("keeps its data byte for byte, with CRLF, a byte order mark and no newline at its end", async () => {
    const made = await spoolBench();
    const intake = desk();
    await made.drop(
      "a",
      '\u{feff}{"type":"deposit:paid","keyId":"k","data":{ "é":1.0 }}\r\n{"type":"a","keyId":"k","data":"\u{2028}"}',
    );
    await made.source.start(intake.intake.accept, info);
    expect(await made.next()).toBe("stored");
    expect(intake.told.map(({ body }) => body.slice(body.indexOf('"data"')))).toEqual([
      '"data":{ "é":1.0 }}',
      '"data":"\u{2028}"}',
    ]);
    await made.source.stop();
  });

  it("gets a name of its own in done/ when its name is taken there", async () => {
    const made = await spoolBench();
    const intake = desk();
    await made.source.start(intake.intake.accept, info);
    const long = "é".repeat(120);
    for (const name of ["a", "a", "a", "a", "a", "a", long]) {
      await made.drop(name, lines(1));
      expect(await made.next()).toBe("stored");
    }
    await made.source.stop();
    const names = await filesIn(made.dir, "done");
    expect(names.slice(0, 6)).toEqual(["a", "a.1", "a.2", "a.3", "a.4", "a.5"]);
    expect(Buffer.byteLength(basename(names[6] ?? ""))).toBeLessThan(200);
  });

  it("waits, and is named, when its name is not UTF-8 and so cannot be opened", async () => {
    const made = await spoolBench();
    const intake = desk();
    await writeFile(Buffer.concat([Buffer.from(`${made.dir}/caf`), Buffer.from([0xe9])]), lines(1));
    await made.source.start(intake.intake.accept, info);
    expect(await made.next()).toBe("waits");
    await made.clock.whenSleeping();
    await made.source.stop();
    expect(made.log.lines[0]).toMatchObject({ message: "a spool file waits", fields: { file: "caf\ufffd" } });
  });
});

describe("a file with mistakes", () => {
  it("is rejected as a whole with every mistake by its line, and nothing of it is stored", async () => {
    const made = await spoolBench();
    const intake = desk();
    const bad = Buffer.concat([
      Buffer.from(lines(2)),
      Buffer.from(`${JSON.stringify(paid({ type: "?", keyId: 7 }))}\n`),
      Buffer.from([0x22, 0xff, 0x22, 0x0a]),
      Buffer.from(`\n${JSON.stringify(paid({ data: "x".repeat(600 * 1024) }))}\n{"a":1\n`),
      Buffer.from(lines(1)),
    ]);
    await made.drop("bad.ndjson", bad);
    await made.source.start(intake.intake.accept, info);
    expect(await made.next()).toBe("refused");
    await made.source.stop();
    expect(stored(intake)).toEqual([]);
    expect(await filesIn(made.dir, "rejected")).toEqual(["bad.ndjson", "bad.ndjson.errors.json"]);
    const { errors, stored: ranges } = await report(made.dir, "bad.ndjson");
    expect(ranges).toEqual([]);
    expect(errors.map(({ line, field }) => [line, field])).toEqual([
      [4, undefined],
      [5, undefined],
      [6, undefined],
      [7, undefined],
      [3, "type"],
      [3, "keyId"],
    ]);
    expect(errors.map(({ message }) => message).slice(0, 4)).toEqual([
      "is not valid UTF-8",
      "is not valid JSON",
      "is larger than 262144 bytes",
      "is not valid JSON",
    ]);
    expect(await readFile(join(made.dir, "rejected", "bad.ndjson"))).toEqual(bad);
  });

  it("that is longer than a batch keeps its good batches, and the report says which lines those are", async () => {
    const made = await spoolBench();
    const intake = desk();
    await made.drop(
      "big",
      lines(3_500, (i) => (i === 1_234 ? { type: "" } : {})),
    );
    await made.source.start(intake.intake.accept, info);
    expect(await made.next()).toBe("refused");
    await made.source.stop();
    expect(stored(intake)).toHaveLength(2_500);
    const { errors, stored: ranges } = await report(made.dir, "big");
    expect(ranges).toEqual([
      [1, 1_000],
      [2_001, 3_500],
    ]);
    expect(errors).toMatchObject([{ line: 1_235, field: "type", code: "VALIDATION_FAILED" }]);
  });

  it("about ids used for something else names their lines", async () => {
    const made = await spoolBench();
    const intake = desk();
    await made.drop(
      "a",
      lines(2, () => ({ id: "same" })),
    );
    await made.source.start(intake.intake.accept, info);
    expect(await made.next()).toBe("refused");
    await made.source.stop();
    expect((await report(made.dir, "a")).errors).toMatchObject([
      { line: 2, field: "id", code: "IDEMPOTENCY_MISMATCH" },
    ]);
  });
});

describe("the folder", () => {
  it("is made where it is missing, relative to the config file", async () => {
    const configDir = await folder();
    await spool({ dir: "in/here" }).setup(context({ configDir }));
    expect(await filesIn(configDir, "in", "here")).toEqual(["done", "rejected"]);
  });

  it("must be a folder, and so must done/ and rejected/ in it: links are refused", async () => {
    const dir = await folder();
    await writeFile(join(dir, "file"), "");
    await expect(spool({ dir: join(dir, "file") }).setup(context())).rejects.toMatchObject({ exitCode: 78 });
    await mkdir(join(dir, "in"));
    await symlink(await folder(), join(dir, "in", "done"));
    await expect(spool({ dir: join(dir, "in") }).setup(context())).rejects.toMatchObject({ exitCode: 78 });
  });

  it("that is wrong in the config is reported, not thrown", () => {
    const paths = (options: unknown) => spool(options as SpoolOptions).problems?.map(({ path }) => path);
    expect(paths({ dir: "", rescanMs: 1, other: 1 })).toEqual(["other", "dir", "rescanMs"]);
    expect(paths(undefined)).toEqual(["dir"]);
    expect(paths({ dir: "x" })).toEqual([]);
  });
});
