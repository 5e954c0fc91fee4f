import { describe, expect, it } from "vitest";
import { optionProblems, rules } from "../../config/index.ts";

describe("a plug-in of somebody else", () => {
  it("checks its options with the rules of our own, and names each that is wrong", () => {
    const given = { host: "", port: 70_000, password: 7, mode: "fast", colour: "red" };
    const own = {
      host: rules.text("the name of a host"),
      port: rules.optional(rules.whole(1, 65_535)),
      password: rules.secret,
      mode: rules.choice("slow", "quick"),
    };
    expect(optionProblems(given, own)).toEqual([
      { path: "colour", message: "is not an option" },
      { path: "host", message: "must be the name of a host" },
      { path: "port", message: "must be a whole number from 1 to 65535" },
      { path: "password", message: "must be text, or secretFrom(…)" },
      { path: "mode", message: 'must be "slow" or "quick"' },
    ]);
    expect(optionProblems({ host: "a", password: "b", mode: "slow" }, own)).toEqual([]);
  });
});
