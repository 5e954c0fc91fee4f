import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { spool, type SpoolOptions } from "../../plugins/source/spool.ts";
import { describeSource, type Upstream } from "../conformance/source.ts";
import { context } from "../support/context.ts";
import { desk, paid } from "../support/intake.ts";
import { filesIn, folder, info, life, lines, report, spoolBench, stored, type SpoolBench } from "../support/spool.ts";

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
    const { intake, fates, dir, storage } = await life({ "a.ndjson": lines(1_000) });
    expect(fates).toEqual(["stored"]);
    expect([stored(intake).length, intake.shelf.commits.length]).toEqual([1_000, 1]);
    expect([await filesIn(dir), await filesIn(dir, "done")]).toEqual([["done", "rejected"], ["a.ndjson"]]);
    expect([...storage.rows]).toEqual([]);
  });

  it("is found when it arrives, and by the next scan where nothing was seen", async () => {
    const made = await spoolBench();
    await made.source.start(desk().intake.accept, info);
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
    const dir = await folder();
    for (const name of [".a", "b.tmp", "c.part"]) await writeFile(join(dir, name), lines(1));
    const { intake } = await life({}, { dir });
    expect(stored(intake)).toEqual([]);
    expect(await filesIn(dir)).toEqual([".a", "b.tmp", "c.part", "done", "rejected"]);
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
    const of = (id: string): string => lines(1, () => ({ id }));
    const { intake, fates } = await life({ b: of("second"), a: of("first"), c: "", d: "\n \r\n" });
    expect(fates).toEqual(["stored", "stored", "stored", "stored"]);
    expect(intake.told.map(({ id }) => id)).toEqual(["first", "second"]);
  });

  it("may have empty lines anywhere, and marks where files were put together", async () => {
    const { intake, fates } = await life({ a: `\n${lines(1)}\n \r\n\n\u{feff}${lines(2)}\n` });
    expect([fates, stored(intake).length]).toEqual([["stored"], 3]);
  });

  it("keeps its data byte for byte, with CRLF, a byte order mark and no newline at its end", async () => {
    const { intake } = await life({
      a: '\u{feff}{"type":"deposit:paid","keyId":"k","data":{ "é":1.0 }}\r\n{"type":"a","keyId":"k","data":"\u{2028}"}',
    });
    expect(intake.told.map(({ body }) => body.slice(body.indexOf('"data"')))).toEqual([
      '"data":{ "é":1.0 }}',
      '"data":"\u{2028}"}',
    ]);
  });

  it("gets a name of its own in done/ when its name is taken there", async () => {
    const dir = await folder();
    for (const name of ["a", "a", "a", "a", "a", "a", "é".repeat(120)]) await life({ [name]: lines(1) }, { dir });
    const names = await filesIn(dir, "done");
    expect(names.slice(0, 6)).toEqual(["a", "a.1", "a.2", "a.3", "a.4", "a.5"]);
    expect(Buffer.byteLength(basename(names[6] ?? ""))).toBeLessThan(200);
  });

  it("waits, and is named, when its name is not UTF-8 and so cannot be opened", async () => {
    const dir = await folder();
    await writeFile(Buffer.concat([Buffer.from(`${dir}/caf`), Buffer.from([0xe9])]), lines(1));
    const { fates, log } = await life({}, { dir, fates: 1 });
    expect(fates).toEqual(["waits"]);
    expect(log.lines[0]).toMatchObject({ message: "a spool file waits", fields: { file: "caf\ufffd" } });
  });
});

describe("a file with mistakes", () => {
  it("is rejected as a whole with every mistake by its line, and nothing of it is stored", async () => {
    const bad = Buffer.concat([
      Buffer.from(lines(2)),
      Buffer.from(`${JSON.stringify(paid({ type: "?", keyId: 7 }))}\n`),
      Buffer.from([0x22, 0xff, 0x22, 0x0a]),
      Buffer.from(`\n${JSON.stringify(paid({ data: "x".repeat(600 * 1024) }))}\n{"a":1\n`),
      Buffer.from(lines(1)),
    ]);
    const { intake, fates, dir } = await life({ "bad.ndjson": bad });
    expect([fates, stored(intake)]).toEqual([["refused"], []]);
    expect(await filesIn(dir, "rejected")).toEqual(["bad.ndjson", "bad.ndjson.errors.json"]);
    const { errors, stored: ranges } = await report(dir, "bad.ndjson");
    expect(ranges).toEqual([]);
    expect(errors.map(({ line, field, message }) => [line, field ?? message])).toEqual([
      [4, "is not valid UTF-8"],
      [6, "is larger than 262144 bytes"],
      [7, "is not valid JSON (column 7)"],
      [3, "type"],
      [3, "keyId"],
    ]);
    expect(await readFile(join(dir, "rejected", "bad.ndjson"))).toEqual(bad);
  });

  it("that is longer than a batch keeps its good batches, and the report says which lines those are", async () => {
    const { intake, fates, dir } = await life({ big: lines(3_500, (i) => (i === 1_234 ? { type: "" } : {})) });
    expect([fates, stored(intake).length]).toEqual([["refused"], 2_500]);
    const { errors, stored: ranges } = await report(dir, "big");
    expect(ranges).toEqual([
      [1, 1_000],
      [2_001, 3_500],
    ]);
    expect(errors).toMatchObject([{ line: 1_235, field: "type", code: "VALIDATION_FAILED" }]);
  });

  it("about ids used for something else names their lines", async () => {
    const { fates, dir } = await life({ a: lines(2, () => ({ id: "same" })) });
    expect(fates).toEqual(["refused"]);
    expect((await report(dir, "a")).errors).toMatchObject([{ line: 2, field: "id", code: "IDEMPOTENCY_MISMATCH" }]);
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
