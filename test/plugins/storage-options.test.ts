// Options of plug-ins that would silently not do what they were meant to.
import memoryDriver from "unstorage/drivers/memory";
import { describe, expect, it } from "vitest";
import { otlp } from "../../plugins/observer/otlp.ts";
import { http } from "../../plugins/source/http.ts";
import { spool } from "../../plugins/source/spool.ts";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { redis } from "../../plugins/storage/redis.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { unstorage } from "../../plugins/storage/unstorage.ts";
import { https } from "../../plugins/transport/https.ts";
import { testClock } from "../support/clock.ts";
import { context } from "../support/context.ts";

type Make = (options: object) => {
  readonly problems?: readonly { readonly path: string; readonly message: string }[];
  setup?(ctx: never): unknown;
};
const storages: readonly (readonly [string, Make])[] = [
  ["sqlite", sqlite],
  ["filesystem", filesystem],
  ["memory", memory],
  ["unstorage", (options) => unstorage(memoryDriver(), options)],
];
const paths = (make: Make, options: object) => make(options).problems?.map(({ path }) => path) ?? [];

describe.each(storages)("the options of %s()", (_, make) => {
  it("are refused by name when there is no such option", () => {
    expect(make({ widow: 5_000 }).problems).toEqual([{ path: "widow", message: "is not an option" }]);
  });

  it("are refused when the window of due deliveries is out of bounds", () => {
    for (const window of [0, -1, 1.5, Number.NaN, "10000", 1e9]) expect(paths(make, { window })).toEqual(["window"]);
    expect(paths(make, { window: 5_000 })).toEqual([]);
    expect(paths(make, {})).toEqual([]);
  });

  it("end a start that nobody has checked", async () => {
    const started = (async () => make({ widow: 1 }).setup?.(context({ clock: testClock() }) as never))();
    await expect(started).rejects.toThrow("widow is not an option");
  });
});

it.each([
  ["sqlite", sqlite],
  ["redis", redis],
  ["http", http],
  ["https", https],
  ["filesystem", filesystem],
  ["spool", spool],
])("%s() says that its options are no object, and does not throw", (_, make) => {
  for (const options of [5, "data", []]) {
    const { problems = [] } = (make as Make)(options as object);
    expect(problems).toContainEqual({ path: "", message: "the options must be an object" });
  }
  expect(() => (make as Make)(null as never)).not.toThrow();
});

it("sqlite() and filesystem() refuse what is their own", () => {
  expect(paths(sqlite, { dir: "", cacheKiB: 0 })).toEqual(["cacheKiB", "dir"]);
  expect(paths(filesystem, { dir: 5, perFolder: 1 })).toEqual(["perFolder", "dir"]);
  expect(paths(sqlite, { dir: "data", cacheKiB: 4_096 })).toEqual([]);
});

it("redis() refuses an option that it does not have: a misspelt `replicas` would promise less", () => {
  expect(paths(redis as Make, { url: "redis://localhost", replica: 1 })).toEqual(["replica"]);
});

it("otlp() refuses an option that it does not have", () => {
  expect(paths(otlp as Make, { url: "http://localhost:4318/v1/traces", rate: 0.1, env: {} })).toEqual(["rate"]);
});
