// The layer rules are lint rules; here each one is seen to refuse what it must and to let pass what it may.
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const run = promisify(execFile);

/** file → imports that must be refused, and imports that must pass. */
const rules: Readonly<Record<string, { readonly refused: readonly string[]; readonly passed: readonly string[] }>> = {
  "core/index.ts": {
    refused: ["./publish/accept.ts", "./runtime/compose.ts", "../config/index.ts", "../plugins/source/http.ts"],
    passed: ["./model/event.ts", "./ports/plugin.ts"],
  },
  "core/lib/planted.ts": {
    refused: [
      "../model/event.ts",
      "../ports/clock.ts",
      "../records/damage.ts",
      "pino",
      "node:fs",
      "node:timers/promises",
    ],
    passed: ["./json.ts", "node:zlib"],
  },
  "core/model/planted.ts": {
    refused: [
      "../ports/clock.ts",
      "../publish/accept.ts",
      "../../config/index.ts",
      "pino",
      "@peculiar/x509",
      "node:fs",
    ],
    passed: ["./event.ts", "../lib/time.ts", "node:crypto"],
  },
  "core/ports/planted.ts": {
    refused: [
      "../publish/accept.ts",
      "../runtime/server.ts",
      "../../plugins/storage/memory.ts",
      "../../test/support/x.ts",
      "h3",
    ],
    passed: ["./clock.ts", "../lib/maybe-promise.ts", "../model/event.ts", "unstorage", "node:net"],
  },
  "core/publish/planted.ts": {
    refused: [
      "../deliver/send.ts",
      "../notify/operational.ts",
      "../replay/replay.ts",
      "../subscriptions/subscriptions.ts",
      "../signing/sign.ts",
      "../limits/limiter.ts",
      "../guard/connect.ts",
      "../api/app.ts",
      "../runtime/compose.ts",
      "../../cli/start.ts",
      "../../plugins/storage/sqlite.ts",
      "../../config/index.ts",
      "../../test/support/clock.ts",
      "relaybox",
      "tsyringe",
      "h3",
      "undici",
      "pino",
      "node:timers/promises",
    ],
    passed: [
      "./fanout.ts",
      "../lib/json.ts",
      "../model/event.ts",
      "../ports/storage.ts",
      "../records/recipients.ts",
      "p-retry",
    ],
  },
  "core/records/planted.ts": {
    refused: ["../publish/accept.ts", "../deliver/send.ts", "../stats/query.ts", "../signing/sign.ts"],
    passed: ["./damage.ts", "../lib/json.ts", "../model/event.ts", "../ports/storage.ts"],
  },
  "core/notify/planted.ts": {
    refused: ["../publish/accept.ts", "../subscriptions/subscriptions.ts", "../deliver/send.ts"],
    passed: ["./notices.ts", "../lib/within.ts", "../records/commit-once.ts"],
  },
  "core/deliver/planted.ts": {
    refused: [
      "../publish/accept.ts",
      "../notify/notices.ts",
      "../subscriptions/subscriptions.ts",
      "../stats/collect.ts",
    ],
    passed: ["./send.ts", "../lib/within.ts", "../records/damage.ts", "p-retry"],
  },
  "core/stats/planted.ts": {
    refused: ["../deliver/send.ts", "../publish/accept.ts", "../history/events.ts"],
    passed: ["./bucket.ts", "../records/damage.ts"],
  },
  "core/retention/planted.ts": {
    refused: ["../replay/replay.ts", "../subscriptions/delete.ts"],
    passed: ["./marks.ts", "../records/damage.ts"],
  },
  "cli/commands/planted.ts": {
    refused: [
      "../../core/publish/accept.ts",
      "../../core/deliver/send.ts",
      "../../core/records/damage.ts",
      "../../core/runtime/server.ts",
      "../../core/runtime/compose/compose.ts",
    ],
    passed: ["../../core/maintenance/backup.ts", "../../core/runtime/index.ts", "../../core/runtime/offline.ts"],
  },
  "core/signing/planted.ts": {
    refused: ["../publish/accept.ts", "../guard/url.ts"],
    passed: ["../lib/time.ts", "../model/subscription.ts"],
  },
  "core/limits/planted.ts": { refused: ["../publish/accept.ts", "../api/app.ts"], passed: ["../model/windows.ts"] },
  "core/guard/planted.ts": { refused: ["../signing/sign.ts", "undici"], passed: ["../model/errors.ts", "node:dns"] },
  "core/client/planted.ts": {
    refused: ["../lib/json.ts", "../model/problem.ts", "../api/http/call.ts", "undici", "node:timers"],
    passed: ["./http.ts", "ofetch"],
  },
  "core/api/planted.ts": {
    refused: [
      "../runtime/compose.ts",
      "../../cli/start.ts",
      "../../dashboard/pages.ts",
      "../../plugins/auth/jwt.ts",
      "../../config/defaults.ts",
      "../../test/support/x.ts",
      "tsyringe",
      "pino",
    ],
    passed: ["../publish/accept.ts", "../limits/limiter.ts", "../model/problem.ts", "h3", "zod"],
  },
  "core/api/resources/planted.ts": {
    refused: [
      "../../runtime/compose.ts",
      "../../../plugins/auth/jwt.ts",
      "../../../config/defaults.ts",
      "../../../cli/x.ts",
    ],
    passed: ["../../publish/accept.ts", "../answer.ts"],
  },
  "dashboard/client/planted.ts": {
    refused: ["../../core/api/resources/shapes.ts", "../../core/publish/accept.ts", "../../core/model/event.ts"],
    passed: ["./state/api.ts", "preact"],
  },
  "dashboard/client/views/planted.ts": {
    refused: ["../../../core/api/resources/shapes.ts", "../../../core/model/event.ts", "../../assets.ts"],
    passed: ["../shapes.ts", "../kit/dialog.tsx", "../forms/erase.tsx", "./events.tsx"],
  },
  // Only `import type` passes there.
  "dashboard/client/shapes.ts": { refused: ["../../core/api/resources/shapes.ts"], passed: ["zod"] },
  "dashboard/planted.ts": {
    refused: [
      "../core/publish/accept.ts",
      "../core/runtime/index.ts",
      "../plugins/auth/jwt.ts",
      "../config/index.ts",
      "../cli/program.ts",
      "pino",
    ],
    passed: ["./view.ts", "preact", "../core/lib/within.ts", "../core/ports/plugin.ts"],
  },
  "core/runtime/planted.ts": {
    refused: [
      "../../cli/start.ts",
      "../../dashboard/pages.ts",
      "../../config/load.ts",
      "../../plugins/storage/sqlite.ts",
      "relaybox",
      "../../test/support/x.ts",
    ],
    passed: ["../api/app.ts", "../publish/accept.ts", "tsyringe", "listhen", "pino"],
  },
  "cli/planted.ts": {
    refused: ["../plugins/storage/sqlite.ts", "../core/runtime/server.ts", "../test/support/x.ts", "tsyringe"],
    passed: ["../core/runtime/index.ts", "../dashboard/pages.ts", "../config/load.ts", "cac", "ofetch"],
  },
  "plugins/storage/planted.ts": {
    refused: [
      "./sqlite.ts",
      "../source/http.ts",
      "../../core/publish/accept.ts",
      "../../core/runtime/server.ts",
      "../../core/guard/connect.ts",
      "../../config/index.ts",
      "../../test/support/x.ts",
      "relaybox",
      "tsyringe",
      "h3",
    ],
    passed: [
      "./embedded/queue.ts",
      "../../core/ports/storage.ts",
      "../../core/lib/within.ts",
      "../../core/model/schema.ts",
      "ioredis",
      "unstorage/drivers/redis",
    ],
  },
  "plugins/storage/embedded/planted.ts": {
    refused: [
      "../sqlite.ts",
      "../../source/http.ts",
      "../../../core/publish/accept.ts",
      "../../../config/index.ts",
      "relaybox",
    ],
    passed: ["./queue.ts", "../sqlite/worker.ts", "../../../core/lib/within.ts", "../../../core/ports/storage.ts"],
  },
  "plugins/observer/planted.ts": {
    refused: ["../transport/https.ts", "../../core/deliver/send.ts", "../../core/runtime/fetch.ts", "pino"],
    passed: ["./otlp/spans.ts", "../../core/ports/observer.ts", "../../core/model/delivery.ts"],
  },
  "config/planted.ts": {
    refused: ["../test/support/x.ts"],
    passed: ["../core/ports/plan.ts", "../plugins/storage/sqlite.ts"],
  },
  "bench/planted.ts": { refused: ["../test/support/x.ts"], passed: ["../core/model/ids.ts"] },
};

/** line of source → what a rule must say about it. */
const calls: Readonly<Record<string, readonly string[]>> = {
  "core/deliver/time.ts": [
    "setTimeout(f, 1);",
    "setInterval(f, 1);",
    "performance.now();",
    "Date.now();",
    "AbortSignal.timeout(1);",
  ],
  "plugins/storage/time.ts": ["setTimeout(f, 1);", "Date.now();"],
};

let folder: string;
/** `file:line` of everything refused. */
let refused: ReadonlySet<string>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "relay-layers-"));
  await cp(join(root, ".oxlintrc.json"), join(folder, ".oxlintrc.json"));
  const plant = async (file: string, lines: readonly string[]) => {
    await mkdir(dirname(join(folder, file)), { recursive: true });
    await writeFile(join(folder, file), `${lines.join("\n")}\n`);
  };
  for (const [file, { refused: bad, passed: good }] of Object.entries(rules)) {
    await plant(
      file,
      [...bad, ...good].map((specifier) => `import ${JSON.stringify(specifier)};`),
    );
    await plant(
      file.replace(/\.ts$/, "-later.ts"),
      bad.map((specifier) => `await import(${JSON.stringify(specifier)});`),
    );
  }
  for (const [file, lines] of Object.entries(calls)) await plant(file, lines);
  const bin = join(root, "node_modules/.bin/oxlint");
  const out = await run(bin, ["-f", "unix"], { cwd: folder }).catch((error: { stdout: string }) => error);
  const lines = out.stdout.split("\n").filter((line) => line.includes("no-restricted-"));
  refused = new Set(lines.map((line) => line.split(":").slice(0, 2).join(":")));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe("the layer rules", () => {
  for (const [file, { refused: bad, passed: good }] of Object.entries(rules)) {
    it(`hold in ${dirname(file)}`, () => {
      const seen = (name: string, specifiers: readonly string[], from: number) =>
        specifiers.filter((_, i) => refused.has(`${name}:${from + i}`));
      expect(seen(file, bad, 1)).toEqual(bad);
      expect(seen(file, good, 1 + bad.length)).toEqual([]);
      // core/index.ts has no room beside it for a second file of its own kind, but falls under core/*.ts all the same.
      expect(seen(file.replace(/\.ts$/, "-later.ts"), bad, 1)).toEqual(bad);
    });
  }
});

describe("the clock rule", () => {
  for (const [file, lines] of Object.entries(calls)) {
    it(`holds in ${dirname(file)}`, () => {
      expect(lines.filter((_, i) => refused.has(`${file}:${i + 1}`))).toEqual(lines);
    });
  }
});
