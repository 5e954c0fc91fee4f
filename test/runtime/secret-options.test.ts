// Secret options come from the environment or from files, and no text that people see repeats them.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { resolvePlan } from "../../config/validate.ts";
import { StartError } from "../../core/model/errors.ts";
import { secretFrom, type SecretOption } from "../../core/model/secret-option.ts";
import type { Plan, SourcePlugin } from "../../core/ports/plan.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { composeRelay } from "../../core/runtime/compose/compose.ts";
import { createLog, createMetrics } from "../../core/runtime/observability/index.ts";
import { SecretOptions } from "../../core/runtime/secret-options.ts";
import { jwt } from "../../plugins/auth/jwt.ts";
import { http } from "../../plugins/source/http.ts";
import { redis } from "../../plugins/storage/redis.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { problems, refused } from "../support/config.ts";
import { idleSource, sourcePlugin, throwing } from "../support/plugins.ts";

const folder = mkdtempSync(join(tmpdir(), "relay-secrets-"));
afterAll(() => rmSync(folder, { recursive: true }));
writeFileSync(join(folder, "url"), "amqp://relay:p%40ssword@rabbit\n");
writeFileSync(join(folder, "empty"), "\n");

const plugin = (secrets: Record<string, SecretOption | undefined>): SourcePlugin =>
  sourcePlugin("orders", {}, { secrets });
const frame = { configDir: folder, cwd: folder, settings: {} };

/** Starts a relay, and returns what the start throws. */
async function failedStart(plan: Plan, env?: Record<string, string>): Promise<StartError> {
  const metrics = createMetrics();
  const relay = composeRelay(plan, { clock: systemClock(), log: createLog("silent"), metrics, ...(env && { env }) });
  const failed = await relay.start().catch((error: unknown) => error);
  metrics.dispose();
  return failed as StartError;
}

describe("a secret option", () => {
  it("is text, a variable, the file that the variable's _FILE names, or a file of the config's folder", () => {
    const env = { URL: "one-value", OTHER_FILE: join(folder, "url") };
    const secret = new SecretOptions({ env, configDir: folder }).of(
      plugin({
        a: "plain text",
        b: secretFrom({ env: "URL" }),
        c: secretFrom({ env: "OTHER" }),
        "d[0].url": secretFrom({ file: "url" }),
        e: undefined,
      }),
    );
    expect(["a", "b", "c", "d[0].url"].map(secret)).toEqual([
      "plain text",
      "one-value",
      "amqp://relay:p%40ssword@rabbit",
      "amqp://relay:p%40ssword@rabbit",
    ]);
    expect(() => secret("e")).toThrow(StartError);
    expect(() => secret("e")).toThrow("the source plug-in orders needs the option e");
  });

  it("is the text of a file without a byte order mark, and no file of another encoding", () => {
    writeFileSync(join(folder, "marked"), "\u{feff}s3cret-from-a-file\r\n");
    writeFileSync(join(folder, "utf16"), Buffer.from("\u{feff}s3cret-from-a-file", "utf16le"));
    const of = (file: string): string =>
      new SecretOptions({ env: {}, configDir: folder }).of(plugin({ a: secretFrom({ file }) }))("a");
    expect(of("marked")).toBe("s3cret-from-a-file");
    expect(() => of("utf16")).toThrow("utf16: the file cannot be read (ERR_ENCODING_INVALID_ENCODED_DATA)");
  });

  it("that cannot be read is a problem of the config, beside all others, with its place and never a value", () => {
    const env = { BOTH: "the-value-of-both", BOTH_FILE: "x", EMPTY: " " };
    const secrets = {
      a: secretFrom({ env: "MISSING" }),
      b: secretFrom({ env: "BOTH" }),
      c: secretFrom({ env: "EMPTY" }),
      d: secretFrom({ file: "nowhere" }),
      e: secretFrom({ file: "empty" }),
      f: { secretFrom: { url: "x" } } as never,
    };
    const found = refused({ sources: [plugin(secrets)] }, { ...frame, env });
    expect(found?.exitCode).toBe(78);
    expect(found?.problems).toEqual([
      { path: "sources[0].a", message: "neither MISSING nor MISSING_FILE is set" },
      { path: "sources[0].b", message: "BOTH and BOTH_FILE are both set: keep one of the two" },
      { path: "sources[0].c", message: "EMPTY is set but empty" },
      { path: "sources[0].d", message: "nowhere: the file cannot be read (ENOENT)" },
      { path: "sources[0].e", message: "empty: the file is empty" },
      { path: "sources[0].f", message: "must be text, not empty, or secretFrom({ env }) or ({ file })" },
    ]);
    expect(String(found)).not.toContain("the-value-of-both");
  });

  it("that vanishes between the check and the start ends the start with 78 and the plug-in's name", async () => {
    const plan = resolvePlan(
      { dataDir: join(folder, "gone"), server: { port: 0 }, sources: [plugin({ url: secretFrom({ env: "GONE" }) })] },
      { ...frame, env: { GONE: "here" } },
    );
    expect(await failedStart(plan, {})).toMatchObject({
      exitCode: 78,
      message: "the source plug-in orders cannot start: url: neither GONE nor GONE_FILE is set",
    });
  });
});

describe("the value of a secret option", () => {
  const url = secretFrom({ file: "url" });

  it("stands in no line of the log: neither whole, nor as the password alone, nor decoded", async () => {
    const file = join(folder, "log");
    const log = createLog("info", { dest: file });
    const metrics = createMetrics();
    const source: SourcePlugin = {
      ...plugin({ url }),
      setup(ctx) {
        ctx.log.info(`connecting to ${ctx.secret("url")}`, { error: "wrong p@ssword", detail: "wrong p%40ssword" });
        return idleSource();
      },
    };
    const plan = resolvePlan({ dataDir: join(folder, "logs"), server: { port: 0 }, sources: [source] }, frame);
    const relay = composeRelay(plan, { clock: systemClock(), log, metrics });
    await relay.start();
    await relay.stop();
    await log.flush();
    metrics.dispose();
    const text = readFileSync(file, "utf8");
    expect(text).toContain('"msg":"connecting to [masked]"');
    expect(text).not.toMatch(/p(?:@|%40)ssword/);
  });

  it("stands in no message of a start that fails, nor in its stack", async () => {
    const failing = (thrown: Error): SourcePlugin => ({ ...plugin({ url }), setup: throwing(thrown) });
    for (const [thrown, exitCode] of [
      [new Error("refused: amqp://relay:p%40ssword@rabbit"), 78],
      [new StartError(69, "no p@ssword for me"), 69],
    ] as const) {
      const plan = resolvePlan(
        { dataDir: join(folder, "fail"), server: { port: 0 }, sources: [failing(thrown)] },
        frame,
      );
      const failed = await failedStart(plan);
      expect(failed).toMatchObject({ exitCode, message: expect.stringContaining("[masked]") as string });
      expect(failed.message + String(failed.stack) + String(failed.cause)).not.toMatch(/p(?:@|%40)ssword/);
    }
  });

  it("that holds the value of another one is masked as a whole", () => {
    const options = new SecretOptions({ env: {}, configDir: folder });
    for (const value of ["a-token", "a-token.of-the-bus"]) options.of(plugin({ value }));
    expect(options.hide("no a-token, no a-token.of-the-bus")).toBe("no [masked], no [masked]");
  });

  it("of the relay's own plug-ins is masked, too", () => {
    const own = [
      http({ tokens: ["a-publish-token", { token: "another-token", keys: ["key_1"] }] }),
      redis({ url: "redis://me:redis-password@host" }),
      jwt({ secret: "s".repeat(32), algorithms: ["HS256"], issuer: "i", audience: "a" }),
    ];
    const options = new SecretOptions({ env: {}, configDir: folder });
    for (const one of own) options.of(one);
    const told = `a-publish-token another-token redis-password ${"s".repeat(32)}`;
    expect(options.hide(told)).toBe("[masked] [masked] [masked] [masked]");
  });

  it("of the relay's own plug-ins may be named, and is masked once it is read", () => {
    const own = [
      http({ tokens: [secretFrom({ env: "TOKEN" }), { token: secretFrom({ file: "bound" }), keys: ["key_1"] }] }),
      redis({ sentinels: [{ host: "s", port: 1 }], password: secretFrom({ env: "REDIS" }) }),
      jwt({ secret: secretFrom({ env: "JWT" }), algorithms: ["HS256"], issuer: "i", audience: "a" }),
    ];
    expect(own.flatMap(({ problems }) => problems)).toEqual([]);
    writeFileSync(join(folder, "bound"), "a-bound-token\n");
    const env = { TOKEN: "a-publish-token", REDIS_FILE: join(folder, "url"), JWT: "s".repeat(32) };
    const options = new SecretOptions({ env, configDir: folder });
    const read = own.flatMap((one) => Object.keys(one.secrets ?? {}).map((path) => [path, options.of(one)] as const));
    const values = read.flatMap(([path, secret]) => {
      try {
        return [[path, secret(path)]];
      } catch {
        return [];
      }
    });
    expect(Object.fromEntries(values)).toEqual({
      "tokens[0]": "a-publish-token",
      "tokens[1].token": "a-bound-token",
      password: "amqp://relay:p%40ssword@rabbit",
      secret: "s".repeat(32),
    });
    expect(options.hide(`a-publish-token a-bound-token ${"s".repeat(32)}`)).toBe("[masked] [masked] [masked]");
  });

  it("of the relay's own plug-ins that is missing is a problem of the config, with its place", () => {
    const config = {
      sources: [http({ tokens: [{ token: secretFrom({ env: "NO_TOKEN" }), keys: ["key_1"] }] })],
      storage: redis({ url: secretFrom({ env: "NO_REDIS" }) }),
      auth: jwt({ secret: secretFrom({ env: "NO_JWT" }), algorithms: ["HS256"], issuer: "i", audience: "a" }),
    };
    expect(problems(config, { ...frame, env: {} })).toMatchObject({
      "storage.url": "neither NO_REDIS nor NO_REDIS_FILE is set",
      "sources[0].tokens[0].token": "neither NO_TOKEN nor NO_TOKEN_FILE is set",
      "auth.secret": "neither NO_JWT nor NO_JWT_FILE is set",
    });
  });

  it("that is read from elsewhere is judged as one of the config is", async () => {
    const context = (secret: string) => pluginContext(systemClock(), folder, { secret: () => secret });
    const named = secretFrom({ env: "X" });
    await expect(async () => http({ tokens: [named] }).setup(context("two words"))).rejects.toThrow(
      "http(): tokens[0] must be a token",
    );
    await expect(async () => http({ tokens: [named, named] }).setup(context("a-publish-token"))).rejects.toThrow(
      "http(): tokens[1] is in the list twice",
    );
    await expect(async () =>
      jwt({ secret: named, algorithms: ["HS256"], issuer: "i", audience: "a" }).setup(context("short")),
    ).rejects.toThrow("jwt(): secret must be at least 32 bytes");
    await expect(async () => redis({ url: named }).setup(context("http://host"))).rejects.toThrow(
      "redis(): url must begin with redis:// or rediss://, and may end with the number of a database (/0)",
    );
  });

  it("that is short is not hidden, because it would stand in ordinary words", () => {
    const options = new SecretOptions({ env: {}, configDir: folder });
    options.of(plugin({ token: "event" }));
    expect(options.hide("an event")).toBe("an event");
  });
});
