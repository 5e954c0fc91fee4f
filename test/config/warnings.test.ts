// What a config allows but hardly means.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { defineRelay, http, spool } from "../../config/index.ts";
import type { RelayConfig } from "../../config/index.ts";
import { resolvePlan } from "../../config/validate.ts";
import { configWarnings } from "../../config/warnings.ts";
import { FRAME, problems } from "../support/config.ts";

let configDir: string;
beforeAll(() => (configDir = mkdtempSync(join(tmpdir(), "relay-warnings-"))));
afterAll(() => rmSync(configDir, { recursive: true }));
const SAFE = "0123456789abcdef";
const plan = (config: RelayConfig, settings = {}) =>
  resolvePlan(defineRelay(config), { configDir, cwd: configDir, settings });
const places = (config: RelayConfig, settings = {}) => configWarnings(plan(config, settings)).map(({ path }) => path);

describe("a config is warned of", () => {
  it("nothing in the default", () => {
    expect(places({})).toEqual([]);
    expect(places({}, { publishToken: SAFE })).toEqual([]);
  });

  it("variables whose names are nearly those of the relay, and no others", () => {
    const env = { RELAY_MASTERKEY: "x", RELAY_PUBLISH_TOKEN_FLE: "x", RELAY_HOST: "x", RELAY_PORT_8080_TCP_ADDR: "x" };
    const found = configWarnings(plan({}), { ...env, RELAY_SERVICE_PORT: "1", RELAY_REDIS_URL_FILE: "x", PATH: "x" });
    expect(found.map(({ path }) => path)).toEqual(["RELAY_MASTERKEY", "RELAY_PUBLISH_TOKEN_FLE"]);
    expect(found[0]?.message).toContain('did you mean "RELAY_MASTER_KEY"?');
  });

  it("tokens that can be guessed", () => {
    expect(places({ sources: [http({ tokens: ["abc", SAFE, { token: "x", keys: ["key_1"] }] })] })).toEqual([
      "sources[0].tokens[0]",
      "sources[0].tokens[2]",
    ]);
    expect(places({ metrics: { token: "abc" }, limits: { check: { token: "x" } } }, { publishToken: "y" })).toEqual([
      "metrics.token",
      "limits.check.token",
      "RELAY_PUBLISH_TOKEN",
    ]);
  });

  it("proxies that are everybody", () => {
    expect(places({ server: { trustedProxies: ["10.0.0.0/8", "0.0.0.0/0", "::/0"] } })).toEqual([
      "server.trustedProxies[1]",
      "server.trustedProxies[2]",
    ]);
  });

  it("threads, of which there are none any more", () => {
    expect(places({ threads: 1 })).toEqual([]);
    expect(places({ threads: "auto" })).toEqual(["threads"]);
    expect(configWarnings(plan({ threads: 2 }))).toEqual([
      { path: "threads", message: "threads are gone; run several nodes on a local Redis, see docs/nodes.md" },
    ]);
  });

  it("a spool folder that is not there yet", () => {
    expect(places({ sources: [spool({ dir: "drop" }), spool({ dir: "." })] })).toEqual(["sources[0].dir"]);
  });
});

it("metrics on the port of the server are refused, wherever the two come from", () => {
  const paths = (config: RelayConfig, settings = {}) => Object.keys(problems(config, { ...FRAME, settings }));
  expect(paths({ metrics: { port: 8080 } })).toEqual(["metrics.port"]);
  expect(paths({ metrics: { port: 9464 } }, { port: 9464 })).toEqual(["metrics.port"]);
  expect(paths({ server: { port: 0 }, metrics: { port: 0 } })).toEqual([]);
  expect(paths({ metrics: { port: 9464 } })).toEqual([]);
});
