// A limits row may be written in any spelling of its endpoint, but once.
import { describe, expect, it } from "vitest";
import { resolvePlan } from "../../config/validate.ts";

const FRAME = { configDir: "/", cwd: "/", settings: {} };
const row = { perMinute: 2, per5s: 1 };

describe("a limits row", () => {
  it.each([
    "PATCH /v1/qr/:slug",
    "POST /v1/qr/update",
    "GET /v1/qr/{anything}",
    "PATCH /api-keys/{key}/webhooks/{id}",
    "POST /api-keys/{keyId}/webhooks/{subscriptionId}/rotate-secret",
  ])("%s is taken", (name) => {
    expect(resolvePlan({ limits: { [name]: row } }, FRAME).limits[name]).toEqual(row);
  });

  it.each(["PATCH /v1/qr/:slug/more", "GET /v2/qr/{slug}", "PUT /api-keys/{keyId}/webhooks"])(
    "%s names no endpoint",
    (name) => {
      expect(() => resolvePlan({ limits: { [name]: row } }, FRAME)).toThrow("names no endpoint");
    },
  );

  it("is refused when another one is the same endpoint", () => {
    const limits = { "PATCH /v1/qr/:slug": row, "POST /v1/qr/update": { perMinute: 9, per5s: 9 } };
    expect(() => resolvePlan({ limits }, FRAME)).toThrow('is the same endpoint as "PATCH /v1/qr/:slug"');
  });
});
