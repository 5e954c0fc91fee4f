import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isoTime, parseTime } from "../../core/lib/time.ts";

const iso = (text: string): string | undefined => {
  const ms = parseTime(text);
  return ms === undefined ? undefined : isoTime(ms);
};

describe("a time in text", () => {
  it("is what the language itself writes, in whatever order times come", () => {
    const end = 8_640_000_000_000_000;
    const any = fc.oneof(
      fc.integer({ min: -end, max: end }),
      fc.double({ min: -end, max: end, noNaN: true }),
      fc.integer({ min: -2_000, max: 2_000 }),
      fc.integer({ min: -2_000, max: 2_000 }).map((ms) => 253_402_300_800_000 + ms),
      fc.integer({ min: 0, max: 3_000 }).map((ms) => 1_767_225_600_000 + ms),
    );
    fc.assert(
      fc.property(fc.array(any), (times) => {
        for (const ms of times) expect(isoTime(ms)).toBe(new Date(ms).toISOString());
      }),
    );
    expect(() => isoTime(Number.NaN)).toThrow(RangeError);
    expect(() => isoTime(end + 1)).toThrow(RangeError);
  });
});

describe("an RFC 3339 time", () => {
  it("comes back as it was written, at any offset", () => {
    const when = fc.integer({ min: -62_167_219_200_000 + 86_400_000, max: 253_402_300_799_999 - 86_400_000 });
    fc.assert(
      fc.property(when, fc.integer({ min: -1_439, max: 1_439 }), (ms, minutes) => {
        expect(parseTime(isoTime(ms))).toBe(ms);
        const local = new Date(ms + minutes * 60_000).toISOString().slice(0, -1);
        const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
        const offset = `${minutes < 0 ? "-" : "+"}${String(hours).padStart(2, "0")}:${String(rest).padStart(2, "0")}`;
        expect(parseTime(local + offset)).toBe(ms);
      }),
    );
  });

  it.each([
    ["2026-01-31T23:59:59Z", "2026-01-31T23:59:59.000Z"],
    ["2026-01-31t23:59:59z", "2026-01-31T23:59:59.000Z"],
    ["2026-01-31T23:59:59.1Z", "2026-01-31T23:59:59.100Z"],
    ["2026-01-31T23:59:59.123999999Z", "2026-01-31T23:59:59.123Z"],
    ["2026-01-01T00:30:00+01:00", "2025-12-31T23:30:00.000Z"],
    ["2026-01-01T00:30:00-00:00", "2026-01-01T00:30:00.000Z"],
    ["2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000Z"],
    ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"],
    ["2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000Z"],
    ["2016-12-31T23:59:60.5Z", "2017-01-01T00:00:00.500Z"],
    ["1990-12-31T15:59:60-08:00", "1991-01-01T00:00:00.000Z"],
  ])("%s is %s", (text, expected) => {
    expect(iso(text)).toBe(expected);
  });

  it.each([
    "",
    "2026-01-01",
    "2026-01-01T00:00:00",
    "2026-01-01 00:00:00Z",
    "2026-01-01T00:00Z",
    "2026-01-01T00:00:00.Z",
    "2026-01-01T00:00:00,5Z",
    "2026-01-01T00:00:00+0100",
    "2026-01-01T00:00:00+24:00",
    "2026-01-01T00:00:00+01:60",
    "2026-01-01T24:00:00Z",
    "2026-01-01T00:60:00Z",
    "2026-01-01T00:00:61Z",
    "2026-01-01T00:00:60Z",
    "2026-01-15T23:59:60Z",
    "2026-13-01T00:00:00Z",
    "2026-00-01T00:00:00Z",
    "2026-02-29T00:00:00Z",
    "2026-01-00T00:00:00Z",
    "+02026-01-01T00:00:00Z",
    "9999-12-31T23:59:59-01:00",
    "0000-01-01T00:00:00+01:00",
    " 2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00Z\n",
    "٢٠٢٦-01-01T00:00:00Z",
    `2026-01-01T00:00:00.${"0".repeat(100)}Z`,
  ])("%j is none", (text) => {
    expect(iso(text)).toBeUndefined();
  });
});
