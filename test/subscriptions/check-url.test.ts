import { describe, expect, it } from "vitest";
import { checkUrl } from "../../core/subscriptions/check-url.ts";
import { createGuard } from "../../core/guard/index.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { testClock } from "../support/clock.ts";

const transport = (more: Partial<Transport>): Transport => ({
  schemes: ["nats"],
  send: () => Promise.reject(new Error("not asked here")),
  dispose: () => Promise.resolve(),
  ...more,
});

const judge = (of: Partial<Transport>, allow: readonly string[] = []) => {
  const resolver = (name: string) => Promise.resolve(name === "inner.example.com" ? ["10.1.2.3"] : ["93.184.216.34"]);
  return checkUrl([transport(of)], createGuard({ allow, ports: [443, 4222], clock: testClock(), resolver }));
};

describe("a URL of a scheme that the guard does not speak", () => {
  it.each([
    ["nats://10.0.0.1:4222/x", "IP_NOT_PUBLIC"],
    ["nats://127.0.0.1:9999/x", "IP_NOT_PUBLIC"],
    ["nats://169.254.169.254/x", "IP_NOT_PUBLIC"],
    ["nats://[::1]:4222/x", "IP_NOT_PUBLIC"],
    ["nats://0x7f.1:4222/x", "URL_NOT_CANONICAL"],
    ["nats://2130706433/x", "URL_NOT_CANONICAL"],
    ["nats://localhost:4222/x", "HOST_FORBIDDEN"],
    ["nats://user:pass@nats.example.com/x", "URL_USERINFO"],
    ["nats://inner.example.com/x", "IP_NOT_PUBLIC"],
    ["nats://nats.example.com:22/x", "URL_PORT"],
  ])("is refused at creation where its connection would be: %s", async (url, reason) => {
    expect(await judge({ defaultPort: 4222 })(url)).toMatchObject({ ok: false, reason });
  });

  it("is taken where its connection would be made", async () => {
    expect(await judge({ defaultPort: 4222 })("nats://nats.example.com/x")).toMatchObject({ ok: true });
    expect(await judge({ defaultPort: 4223 })("nats://nats.example.com/x")).toMatchObject({ reason: "URL_PORT" });
    expect(await judge({}, ["10.0.0.0/8:4222"])("nats://10.0.0.1:4222/x")).toMatchObject({ ok: true });
  });

  it("is judged by its transport alone where that can tell", async () => {
    const problems = (url: string) => (url === "nats://bus/a" ? undefined : "must name a bus of the config");
    expect(await judge({ problems })("nats://bus/a")).toEqual({ ok: true, href: "nats://bus/a" });
    expect(await judge({ problems })("nats://10.0.0.1/a")).toMatchObject({
      ok: false,
      message: "must name a bus of the config",
    });
  });

  it("is refused where no transport serves it", async () => {
    expect(await judge({})("ftp://example.com/")).toMatchObject({
      ok: false,
      message: "no transport in the config serves ftp: URLs",
    });
  });
});

describe("what a transport says of a URL", () => {
  it("is shown without the secrets of the config", async () => {
    const guard = createGuard({ allow: [], ports: [443], clock: testClock() });
    const hide = (text: string): string => text.replaceAll("hunter2", "[masked]");
    const check = checkUrl([transport({ problems: () => "the bus refuses hunter2" })], guard, hide);
    expect(await check("nats://bus/a")).toMatchObject({ ok: false, message: "the bus refuses [masked]" });
  });
});
