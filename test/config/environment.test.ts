// The environment: which variables there are, secrets in files, and what is said of wrong ones.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readEnvironment } from "../../config/environment.ts";

let folder: string;
beforeAll(() => (folder = mkdtempSync(join(tmpdir(), "relay-env-"))));
afterAll(() => rmSync(folder, { recursive: true }));

describe("the environment", () => {
  it("gives nothing when nothing is set", () => {
    expect(readEnvironment({ PATH: "/bin" })).toEqual({ settings: {}, problems: [] });
  });

  it("knows every variable", () => {
    const { settings, problems } = readEnvironment({
      RELAY_HOST: "0.0.0.0",
      RELAY_PORT: "9000",
      RELAY_DATA_DIR: "/data",
      RELAY_MASTER_KEY: "m",
      RELAY_SIGNING_KEY: "s",
      RELAY_PUBLISH_TOKEN: "p",
      RELAY_JWT_SECRET: "j",
      RELAY_REDIS_URL: "redis://r",
      RELAY_LOG_LEVEL: "debug",
      RELAY_URL: "http://relay",
      RELAY_TOKEN: "t",
      RELAY_CONFIG: "c.ts",
    });
    expect(problems).toEqual([]);
    expect(settings).toEqual({
      host: "0.0.0.0",
      port: 9000,
      dataDir: "/data",
      masterKey: "m",
      signingKey: "s",
      publishToken: "p",
      jwtSecret: "j",
      redisUrl: "redis://r",
      logLevel: "debug",
      url: "http://relay",
      token: "t",
      config: "c.ts",
    });
  });

  it("reads a secret from the file that …_FILE names, without the line end", () => {
    const file = join(folder, "token");
    writeFileSync(file, "secret-text\n");
    expect(readEnvironment({ RELAY_PUBLISH_TOKEN_FILE: file }).settings).toEqual({ publishToken: "secret-text" });
  });

  it("refuses a secret that is given twice, missing or empty, all at once and without its value", () => {
    const empty = join(folder, "empty");
    writeFileSync(empty, "\n");
    const { problems } = readEnvironment({
      RELAY_TOKEN: "hush",
      RELAY_TOKEN_FILE: empty,
      RELAY_MASTER_KEY_FILE: join(folder, "nowhere"),
      RELAY_SIGNING_KEY_FILE: empty,
      RELAY_PUBLISH_TOKEN: " ",
      RELAY_HOST: "",
    });
    expect(problems.map(({ path }) => path).sort()).toEqual([
      "RELAY_HOST",
      "RELAY_MASTER_KEY_FILE",
      "RELAY_PUBLISH_TOKEN",
      "RELAY_SIGNING_KEY_FILE",
      "RELAY_TOKEN_FILE",
    ]);
    expect(JSON.stringify(problems)).not.toContain("hush");
  });

  it.each(["", "x", "-1", "65536", "80.5", "8e3", " 80", "tcp://10.0.0.1:8080"])("refuses %j as a port", (port) => {
    const { settings, problems } = readEnvironment({ RELAY_PORT: port });
    expect(settings).toEqual({});
    expect(problems).toHaveLength(1);
  });

  it("says where a port of Kubernetes' making comes from", () => {
    expect(readEnvironment({ RELAY_PORT: "tcp://10.0.0.1:80" }).problems[0]?.message).toContain("enableServiceLinks");
  });
});
