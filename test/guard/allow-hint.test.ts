/** A refused URL names the entry of `guard.allow` that opens it: each such entry is put to the test. */
import { describe, expect, it } from "vitest";
import { createGuard } from "../../core/guard/index.ts";
import { testClock } from "../support/clock.ts";

const guardWith = (allow: readonly string[], found: readonly string[] = ["10.1.2.3"]) =>
  createGuard({
    allow,
    ports: [443],
    clock: testClock(),
    ownAddresses: () => ["198.51.100.7"],
    resolver: () => Promise.resolve([...found]),
  });

describe("the entry that would open a refused URL", () => {
  it.each([
    ["https://127.0.0.1:3000/a", "127.0.0.1:3000"],
    ["https://127.0.0.1/a", "127.0.0.1:443"],
    ["https://[::1]:8443/", "[::1]:8443"],
    ["https://localhost:3000/", "localhost:3000"],
    ["https://hooks.corp.lan/", "hooks.corp.lan:443"],
    ["https://hooks.example.com:8443/", "hooks.example.com:8443"],
    ["https://hooks.example.com/", "hooks.example.com:443"],
  ])("%s is opened by %s", async (url, entry) => {
    expect(await guardWith([]).register(url)).toMatchObject({ ok: false, allow: entry });
    expect(await guardWith([entry]).register(url)).toMatchObject({ ok: true });
  });

  it.each([
    ["https://münchen.example.com/a", "write the host as xn--mnchen-3ya.example.com, others percent-encoded"],
    ["https://hooks.example.com/ä", "write other characters percent-encoded"],
  ])("of %s the spelling is told that is taken next", async (url, advice) => {
    expect(await guardWith([]).register(url)).toMatchObject({ ok: false, message: expect.stringContaining(advice) });
  });

  it.each([
    ["https://169.254.169.254/", ["169.254.169.254"]],
    ["https://metadata.goog/", ["169.254.169.254"]],
    ["https://hooks.example.com/", ["169.254.169.254"]],
    ["https://hooks.example.com./", []],
    ["https://user@hooks.example.com/", []],
  ])("none is named for %s (%j)", async (url, found) => {
    const verdict = await guardWith([], found).register(url);
    expect(verdict.ok).toBe(false);
    expect(verdict).not.toHaveProperty("allow");
  });
});
