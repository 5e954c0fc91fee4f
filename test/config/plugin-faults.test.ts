// A plug-in that throws, or has a wrong shape, when its config is checked: it is named, and its secrets are masked.
import { tmpdir } from "node:os";
import { describe, expect, it } from "vitest";
import { resolvePlan } from "../../config/validate.ts";
import { configWarnings } from "../../config/warnings.ts";
import type { SourcePlugin } from "../../core/ports/plan.ts";
import { refused as refusedConfig } from "../support/config.ts";
import { sourcePlugin, throwing } from "../support/plugins.ts";

const SECRET = "hunter2-of-the-shop";
const frame = { configDir: tmpdir(), cwd: tmpdir(), settings: {}, env: {} };

/** A config whose one source is called `shop` and has these members. */
const shop = (more: object) => ({ sources: [sourcePlugin("shop", {}, more as Partial<SourcePlugin>)] });

const refused = (more: object) => refusedConfig(shop(more), frame);
const warned = (more: object) => configWarnings(resolvePlan(shop(more), frame), frame.env);

const leaky = new Error(`no such password: ${SECRET}`);
const getter = (name: string, thrown: unknown) => Object.defineProperty({}, name, { get: throwing(thrown) });

describe("a plug-in that cannot be looked at ends the start with 78 and its name:", () => {
  it.each([
    ["fileProblems that throw", { fileProblems: throwing(new Error("boom")) }],
    ["fileProblems that throw what cannot be read", { fileProblems: throwing(Object.create(null)) }],
    ["fileProblems that are no list", { fileProblems: () => 5 }],
    ["fileProblems that hold nothing", { fileProblems: () => [null] }],
    ["fileProblems without a text", { fileProblems: () => [{ path: "a" }] }],
    ["metrics that are no list", { metrics: 5 }],
    ["metrics that hold nothing", { metrics: [null] }],
    ["secrets that are none", { secrets: null }],
    ["schedules that are none", { schedules: null, metrics: {} }],
    ["a schedule that is no text", { schedules: { at: 5 } }],
    ["routes that are no list", { routes: 5 }],
  ])("%s", (_, more) => {
    const error = refused(more);
    expect(error).toMatchObject({
      exitCode: 78,
      problems: [{ path: expect.stringMatching(/^sources\[0\]/) as unknown }],
    });
    expect(error?.problems[0]?.message).toMatch(/shop/);
  });

  it.each([
    ["nothing", [null]],
    ["a problem without a message", [{ path: "a" }]],
    ["a problem whose path is no text", [{ path: 5, message: "is wrong" }]],
  ])("problems that hold %s", (_, problems) => {
    expect(refused({ problems })).toMatchObject({
      exitCode: 78,
      problems: [{ path: "sources[0]", message: "of the plug-in shop has problems that are no { path, message }" }],
    });
  });

  it("once, beside the problems of the others", () => {
    const sources = [
      sourcePlugin("wild", {}, { fileProblems: throwing(new Error("boom")) }),
      sourcePlugin("shop", {}, { fileProblems: () => [{ path: "file", message: "is not there" }] }),
    ];
    expect(() => resolvePlan({ sources }, frame)).toThrow(
      expect.objectContaining({
        problems: [
          { path: "sources[0]", message: "the plug-in wild cannot be looked at: Error: boom" },
          { path: "sources[1].file", message: "is not there" },
        ],
      }),
    );
  });
});

describe("what a plug-in throws when it is looked at shows no secret", () => {
  it.each([
    ["in fileProblems", { secrets: { password: SECRET }, fileProblems: throwing(leaky) }],
    ["in a getter", Object.assign(getter("metrics", leaky), { secrets: { password: SECRET } })],
    [
      "that stands behind one that is not set",
      { secrets: { user: { secretFrom: { env: "UNSET" } }, password: SECRET }, fileProblems: throwing(leaky) },
    ],
  ])("%s", (_, more) => {
    const sources = [Object.defineProperties(sourcePlugin("shop"), Object.getOwnPropertyDescriptors(more))];
    expect(() => resolvePlan({ sources }, frame)).toThrow(
      expect.objectContaining({
        exitCode: 78,
        message: expect.not.stringContaining(SECRET) as unknown,
        problems: expect.arrayContaining([
          {
            path: "sources[0]",
            message: "the plug-in shop cannot be looked at: Error: no such password: [masked]",
          },
        ]) as unknown,
      }),
    );
  });
});

describe("warnings that cannot be read are a warning with the plug-in's name:", () => {
  it.each([
    ["those that throw", throwing(new Error("boom"))],
    ["those that are no list", () => 5],
    ["those that hold nothing", () => [null]],
    ["those without a text", () => [{}]],
  ])("%s", (_, warnings) => {
    expect(warned({ warnings })).toEqual([
      {
        path: "sources[0]",
        message: expect.stringContaining("the warnings of the plug-in shop cannot be read: ") as unknown,
      },
    ]);
  });

  it("with no secret in it", () => {
    const [found] = warned({ secrets: { password: SECRET }, warnings: throwing(leaky) });
    expect(found?.message).toBe("the warnings of the plug-in shop cannot be read: Error: no such password: [masked]");
  });
});
