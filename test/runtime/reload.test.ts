// A reload: what changes at once, what it leaves alone, and what happens to a config that cannot be used.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { createCatalogue, createReload, type Reloadable } from "../../core/runtime/compose/reload.ts";
import type { EventCheck } from "../../core/publish/parse-events.ts";
import { quietLog } from "../support/quiet.ts";
import { startCommand, type Running } from "../support/command.ts";

const base = mkdtempSync(join(tmpdir(), "relay-reload-"));
afterAll(() => rmSync(base, { recursive: true }));
let folder: string;
beforeEach(() => (folder = mkdtempSync(join(base, "case-"))));

const PLAN: Reloadable = {
  limits: { "GET /a": { perMinute: 2, per5s: 1 } },
  abuse: false,
  events: ["a"],
  transforms: ["slack"],
  log: { level: "info" },
};

describe("a reload", () => {
  it("touches only what changed, and says what that was", () => {
    const said: string[] = [];
    const catalogue = createCatalogue(PLAN, undefined, () => Promise.resolve(undefined), quietLog());
    const reload = createReload(PLAN, {
      limiter: () => ({
        configure: (rows, abuse) => void said.push(`limits ${Object.keys(rows).length} ${JSON.stringify(abuse)}`),
      }),
      catalogue: () => catalogue,
      transforms: () => ({ reload: (names) => void said.push(names.join()) }),
      log: { setLevel: (level) => void said.push(level) },
    });
    expect(reload(structuredClone(PLAN))).toEqual([]);
    // A transform may be another function under the same name.
    expect(said.splice(0)).toEqual(["slack"]);
    expect(catalogue.events).toBe(PLAN.events);
    expect(reload({ ...PLAN, events: undefined, log: { level: "debug" } })).toEqual(["events", "log"]);
    expect(catalogue.events).toBeUndefined();
    expect(reload({ ...PLAN, limits: {} })).toEqual(["limits", "events", "log"]);
    expect(said).toEqual(["slack", "debug", "limits 0 false", "slack", "info"]);
  });
});

describe("schemas of event types that a reload brings", () => {
  const checks = (): EventCheck => () => undefined;
  const types = (description: string) => ({
    events: ["a"],
    eventTypes: { a: { description, validate: "warn" } as const },
  });

  it("judge once they are compiled, and the latest ones stay", async () => {
    const [old, early, late] = [checks(), checks(), checks()];
    const compiling: ((made: EventCheck) => void)[] = [];
    const compile = () => new Promise<EventCheck>((done) => compiling.push(done));
    const catalogue = createCatalogue(types("first"), old, compile, quietLog());
    catalogue.replace(types("second"));
    catalogue.replace(types("third"));
    expect(catalogue.types).toMatchObject({ a: { description: "third" } });
    expect(catalogue.checks).toBe(old);
    compiling[1]?.(late);
    compiling[0]?.(early);
    await new Promise((resolve) => setImmediate(resolve));
    expect(catalogue.checks).toBe(late);
  });

  it("leave the old ones in place when they cannot be compiled, and that is logged", async () => {
    const old = checks();
    const log = quietLog();
    const catalogue = createCatalogue(types("first"), old, () => Promise.reject(new Error("no")), log);
    catalogue.replace(types("second"));
    await new Promise((resolve) => setImmediate(resolve));
    expect(catalogue.checks).toBe(old);
    expect(JSON.stringify(log.lines)).toContain("schemas of event types are refused");
  });
});

const config = (body: string): void =>
  writeFileSync(
    join(folder, "relay.config.ts"),
    `import { names } from "./names.ts";\nexport default { server: { port: 0 }, ${body} };`,
  );
const names = (list: readonly string[]): void =>
  writeFileSync(join(folder, "names.ts"), `export const names = ${JSON.stringify(list)};`);

async function publish(relay: Running, type: string): Promise<number> {
  const [, url = ""] = await relay.waitFor(/listening at (http[^\s"]+)["\n]/);
  const answer = await fetch(`${url}/events`, {
    method: "POST",
    headers: { authorization: "Bearer the-token", "content-type": "application/json" },
    body: JSON.stringify({ type, keyId: "k", data: 1 }),
  });
  await answer.arrayBuffer();
  return answer.status;
}

/** The lines of the log that came since, once one of them matches. */
async function hangUp(relay: Running, pattern: RegExp): Promise<string> {
  const before = relay.stderr().length;
  relay.kill("SIGHUP");
  for (;;) {
    const since = relay.stderr().slice(before);
    if (pattern.test(since)) return since;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

describe("SIGHUP", () => {
  it(
    "takes over limits, catalogue and log level, also from files that the config imports",
    { timeout: 240_000 },
    async () => {
      names(["a:b"]);
      config("events: names, limits: {}, retry: { attempts: 5 }");
      await using relay = startCommand(["start"], { cwd: folder, env: { RELAY_PUBLISH_TOKEN: "the-token" } });
      expect(await publish(relay, "a:b")).toBe(202);
      expect(await publish(relay, "c:d")).toBe(400);

      names(["c:d"]);
      expect(await hangUp(relay, /reloaded.*\n/)).toContain('"result":"events"');
      expect(await publish(relay, "a:b")).toBe(400);
      expect(await publish(relay, "c:d")).toBe(202);

      config(`limits: { "POST /events": { perMinute: 2, per5s: 2 } }, log: { level: "warn" }, retry: { attempts: 3 }`);
      // Told at the new level already, which lets warnings through.
      expect(await hangUp(relay, /take a restart.*\n/)).toContain('"detail":"retry"');
      expect([await publish(relay, "x:y"), await publish(relay, "x:y"), await publish(relay, "x:y")]).toEqual([
        202, 202, 429,
      ]);
      await relay.waitFor(/listening/);
      const before = relay.stderr();
      expect(before.match(/"msg":"accepted"/g)).toHaveLength(2);
    },
  );

  it(
    "names what needs a restart, also where it holds secrets, and shows none of them",
    { timeout: 240_000 },
    async () => {
      names([]);
      const guarded = (token: string, more = ""): void =>
        config(`limits: { check: { token: "${token}" } }, metrics: { token: "${token}-m" }${more}`);
      guarded("the-first-token-of-the-proxy");
      await using relay = startCommand(["start"], { cwd: folder, env: { RELAY_PUBLISH_TOKEN: "the-token" } });
      expect(await publish(relay, "a:b")).toBe(202);
      guarded("the-second-token-of-the-proxy", `, notify: { to: [{ url: "https://chat.example.com/hidden" }] }`);
      const lines = await hangUp(relay, /reloaded.*\n(?:.*\n)?/);
      expect(lines).toContain('"detail":"limits.check metrics notify"');
      expect(await hangUp(relay, /take a restart.*\n/)).not.toMatch(/-token-of-|hidden/);
    },
  );

  it("takes over the schemas of event types, the first ones too", { timeout: 240_000 }, async () => {
    names(["a:b"]);
    config("events: names");
    await using relay = startCommand(["start"], { cwd: folder, env: { RELAY_PUBLISH_TOKEN: "the-token" } });
    expect(await publish(relay, "a:b")).toBe(202);
    /** Publishes until the answer is this one: schemas judge from the moment at which they are compiled. */
    async function answers(status: number): Promise<void> {
      while ((await publish(relay, "a:b")) !== status) await new Promise((resolve) => setTimeout(resolve, 20));
    }
    config(`events: { "a:b": { schema: { type: "string" } } }`);
    expect(await hangUp(relay, /reloaded.*\n/)).toContain('"result":"eventTypes"');
    await answers(400);
    config(`events: { "a:b": { schema: { type: "strin" } } }`);
    expect(await hangUp(relay, /a problem of the config.*\n/)).toContain("is not what JSON Schema 2020-12 allows here");
    expect(await publish(relay, "a:b")).toBe(400);
    config(`events: { "a:b": { schema: { type: "integer" } } }`);
    await hangUp(relay, /reloaded.*\n/);
    await answers(202);
  });

  it("refuses a bad config, keeps the old one, and tells every problem", { timeout: 240_000 }, async () => {
    names(["a:b"]);
    config("events: names");
    await using relay = startCommand(["start"], { cwd: folder, env: { RELAY_PUBLISH_TOKEN: "the-token" } });
    expect(await publish(relay, "a:b")).toBe(202);
    config(`events: ["c:d"], retries: {}, server2: 1, limits: { "GET /nowhere": false }`);
    const lines = await hangUp(relay, /(?:a problem of the config[^]*){3}\n/);
    expect(lines).toContain('"count":3');
    for (const path of ["retries", "server2", "limits"]) expect(lines).toContain(`"path":"${path}`);
    expect(await publish(relay, "a:b")).toBe(202);
    expect(await publish(relay, "c:d")).toBe(400);
    config("events: names");
    writeFileSync(join(folder, "names.ts"), "throw new Error('nothing to see'); export const names = [];");
    expect(await hangUp(relay, /a problem of the config.*\n/)).toContain("nothing to see");
    // Still there, and a good one is taken over again.
    names(["c:d"]);
    await hangUp(relay, /reloaded.*\n/);
    expect(await publish(relay, "c:d")).toBe(202);
    relay.kill("SIGTERM");
    expect((await relay.ended).code).toBe(0);
  });

  it("in the middle of a start does not end it", async () => {
    names([]);
    config("");
    await using relay = startCommand(["start"], { cwd: folder });
    // The handler stands once the first library is loaded; before that, nothing has been begun.
    await relay.waitFor(/made |listening/);
    relay.kill("SIGHUP");
    await relay.waitFor(/listening at/);
    await relay.waitFor(/reloaded/);
    relay.kill("SIGTERM");
    expect((await relay.ended).code).toBe(0);
  });
});
