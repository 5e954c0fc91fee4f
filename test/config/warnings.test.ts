// What a config allows but hardly means.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { defineRelay, http, spool } from "../../config/index.ts";
import type { RelayConfig } from "../../config/index.ts";
import { resolvePlan } from "../../config/validate.ts";
import { configWarnings } from "../../config/warnings.ts";
import { loopbackCertificate } from "../support/certificates.ts";
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

  it("a guard that is open to all, but not to a network of one's own", () => {
    const allow = ["10.0.0.0/8:*", "fc00::/7", "0.0.0.0/0:*", "[::/0]:443", "[::]/0", "128.0.0.0/1", "a.example:*"];
    const open = [2, 3, 4, 5].map((i) => `guard.allow[${i}]`);
    expect(places({ guard: { allow } })).toEqual(open);
  });

  it("an address beyond this machine without TLS, unless a proxy is named that ends it", async () => {
    for (const host of ["0.0.0.0", "::", "192.0.2.7"]) expect(places({ server: { host } })).toEqual(["server.host"]);
    for (const host of ["127.0.0.1", "127.0.0.2", "::1", "localhost"]) expect(places({ server: { host } })).toEqual([]);
    expect(places({ server: { host: "0.0.0.0", trustedProxies: ["10.0.0.1"] } })).toEqual([]);
    const tls = { cert: "cert.pem", key: "key.pem" };
    const made = await loopbackCertificate();
    for (const name of ["cert", "key"] as const) writeFileSync(join(configDir, tls[name]), made[name]);
    expect(places({ server: { host: "0.0.0.0", tls } })).toEqual([]);
  });

  it("a portal that others are to reach by whatever Host a request names", () => {
    const server = { host: "0.0.0.0", trustedProxies: ["10.0.0.1"] };
    expect(places({ server, portal: { name: "Acme" } })).toEqual(["portal.url"]);
    expect(places({ server, portal: { name: "Acme", url: "https://hooks.acme.example" } })).toEqual([]);
    expect(places({ server })).toEqual([]);
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
