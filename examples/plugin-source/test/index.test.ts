import { describe, expect, it } from "vitest";
import { isLater, type RouteRequest } from "relaybox";
import { describeSource, testContext, type Upstream } from "relaybox/conformance";
import { mySource } from "../src/index.ts";

const plugin = mySource({ token: "a token of the tests" });

/** A request as the server would pass it on. */
const request = (text: string, token = "a token of the tests"): RouteRequest => ({
  method: "POST",
  path: "/my-source",
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
            await route?.handle(request(text), "my-source");
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

describe("my-source", () => {
  it("refuses another token", async () => {
    await using ctx = await testContext(plugin);
    const [route] = (await plugin.setup(ctx)).routes ?? [];
    expect(() => route?.identify?.(request("{}", "another"))).toThrow("UNAUTHENTICATED");
  });

  it("names what is wrong with its options", () => {
    expect(mySource({ token: "", maxBytes: 0 }).problems?.map(({ path }) => path)).toEqual(["token", "maxBytes"]);
  });
});
