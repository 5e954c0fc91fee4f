/** The package of a source: it takes events over a route of its own, and shows where a reader of a queue would stand. */
export const SOURCE = {
  about: "It takes one event a request at `POST /NAME`, with a token: replace the route by your upstream.",
  use: `
import { defineRelay, http, secretFrom } from "relaybox";
import { FACTORY } from "NAME";

export default defineRelay({ sources: [http(), FACTORY({ token: secretFrom({ env: "VARIABLE_TOKEN" }) })] });
`,
  source: `
/** Takes one event a request at POST /NAME. */
import { createHash, timingSafeEqual } from "node:crypto";
import { isSecretOption, Problem } from "relaybox";
import type { Accept, Plugin, Route, SecretOption, Source, SourceInfo } from "relaybox";
import { z } from "zod";

export interface Options {
  /** What upstream sends in X-Token. */
  readonly token: SecretOption;
  /** Largest event, in bytes. @default 65_536 */
  readonly maxBytes?: number;
}

const schema = z.strictObject({
  token: z.custom<SecretOption>(isSecretOption, "must be text, or secretFrom(…)"),
  maxBytes: z.int().min(1).max(1_048_576).optional(),
});

/** Every problem of the options, with its path. */
function problemsOf(options: unknown): { path: string; message: string }[] {
  const { error } = schema.safeParse(options);
  return (error?.issues ?? []).map(({ path, message }) => ({ path: path.join("."), message }));
}

const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

export function FACTORY(options: Options): Plugin<"source", Source> {
  const problems = problemsOf(options);
  return {
    kind: "source",
    name: "NAME",
    routes: ["POST /NAME"],
    problems,
    secrets: problems.length === 0 ? { token: options.token } : {},
    metrics: [{ name: "relay_source_events_refused_total", type: "counter", help: "Events refused, by code", labels: ["code"] }],
    setup({ secret, metrics }) {
      const wanted = digest(secret("token"));
      const { maxBytes = 65_536 } = options;
      const underWay = new Set<Promise<unknown>>();
      let accept: Accept | undefined;
      let info: SourceInfo | undefined;

      const route: Route<string> = {
        method: "POST",
        path: "/NAME",
        identify(request) {
          const given = request.header("x-token") ?? "";
          if (!timingSafeEqual(digest(given), wanted)) throw new Problem("UNAUTHENTICATED", "Send X-Token.");
          return { counted: "NAME", caller: "NAME" };
        },
        async handle(request, caller) {
          const admittedAt = info?.admit?.();
          const text = Buffer.from(await request.body(maxBytes, caller)).toString("utf8");
          if (accept === undefined) throw new Problem("SHUTTING_DOWN", "Send it again in a moment.", { retryAfter: 5 });
          // Acknowledge upstream only after accept has resolved.
          const stored = accept({
            publications: [{ text, path: "" }],
            source: "NAME",
            ...(admittedAt !== undefined && { admittedAt }),
          });
          underWay.add(stored);
          try {
            await stored;
          } catch (error) {
            // A reader of a queue asks isLater(error): offer the message again, or set it aside. This route answers with the code.
            if (error instanceof Problem) metrics.count("relay_source_events_refused_total", { code: error.code });
            throw error;
          } finally {
            underWay.delete(stored);
          }
          return { status: 202 };
        },
      };

      return {
        routes: [route],
        start(given, about) {
          accept = given;
          info = about;
        },
        async stop() {
          accept = undefined;
          await Promise.allSettled(underWay);
        },
        readiness: () => (accept === undefined ? "not started" : undefined),
      };
    },
  };
}
`,
  test: `
import { describe, expect, it } from "vitest";
import { isLater, type RouteRequest } from "relaybox";
import { describeSource, testContext, type Upstream } from "relaybox/conformance";
import { FACTORY } from "../src/index.ts";

const plugin = FACTORY({ token: "a token of the tests" });

/** A request as the server would pass it on. */
const request = (text: string, token = "a token of the tests"): RouteRequest => ({
  method: "POST",
  path: "/NAME",
  params: {},
  query: new URLSearchParams(),
  header: (name) => (name === "x-token" ? token : undefined),
  body: async () => Buffer.from(text),
  address: "127.0.0.1",
  requestId: "req_1",
  signal: new AbortController().signal,
});

describe("the law of the source port", () => {
  describeSource(it, {
    async open() {
      const ctx = await testContext(plugin);
      const source = await plugin.setup(ctx);
      const [route] = source.routes ?? [];
      return {
        source,
        async publish(text): Promise<Upstream> {
          try {
            await route?.handle(request(text), "NAME");
            return "acknowledged";
          } catch (error) {
            return isLater(error) ? "later" : "refused";
          }
        },
        [Symbol.asyncDispose]: () => ctx[Symbol.asyncDispose](),
      };
    },
    again: (under, text) => under.publish(text),
  });
});

describe("NAME", () => {
  it("refuses another token", async () => {
    await using ctx = await testContext(plugin);
    const [route] = (await plugin.setup(ctx)).routes ?? [];
    expect(() => route?.identify?.(request("{}", "another"))).toThrow("UNAUTHENTICATED");
  });

  it("names what is wrong with its options", () => {
    expect(FACTORY({ token: "", maxBytes: 0 }).problems?.map(({ path }) => path)).toEqual(["token", "maxBytes"]);
  });
});
`,
} as const;
