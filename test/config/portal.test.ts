// The portal's settings: whose pages may show it, which colours people can read, which pictures are taken.
import { mkdtempSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { RelayConfig } from "../../config/define.ts";
import { resolvePlan } from "../../config/validate.ts";
import { problems as problemsOf } from "../support/config.ts";
import { colorProblems, contrast, onColor, PALETTE, THEMES } from "../../core/model/portal.ts";

const dir = mkdtempSync(join(tmpdir(), "relay-portal-"));
const frame = { configDir: dir, cwd: dir, settings: {} };
const portalOf = (portal: RelayConfig["portal"]) => resolvePlan({ portal }, frame).portal;
const SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><path d="M0 0h1v1z"/></svg>';

const problems = (portal: unknown) => problemsOf({ portal }, frame);

describe("origins", () => {
  it.each([
    "https://app.example.com",
    "https://app.example.com:8443",
    "http://localhost:3000",
    "http://127.0.0.1:3000",
    "https://xn--mnchen-3ya.example",
  ])("%s may show it", (origin) => {
    expect(portalOf({ frameAncestors: [origin] })).toMatchObject({ frameAncestors: [origin] });
  });

  it.each([
    "*",
    "'self'",
    "https://*.example.com",
    "https://app.example.com/",
    "https://app.example.com/path",
    "https://App.example.com",
    "https://app.example.com:443",
    "http://app.example.com",
    "https://a.example; script-src *",
    "https://a.example;script-src",
    "https://a.example,https://b.example",
    "https://a.example\nx",
    "https://user@a.example",
    "javascript:alert(1)",
    "",
  ])("%j is refused, so that nothing else gets into the policy of the page", (origin) => {
    expect(Object.keys(problems({ frameAncestors: [origin] }))).toEqual(["portal.frameAncestors[0]"]);
    // Links may begin with a path, and stand in no policy.
    expect(Object.keys(problems({ url: origin }))).toEqual(origin.endsWith("/path") ? [] : ["portal.url"]);
  });

  it.each(["https://app.example.com/a/../b", "https://app.example.com/a//b", "https://app.example.com/a?b", "/a"])(
    "%j is no address that links begin with",
    (url) => expect(Object.keys(problems({ url }))).toEqual(["portal.url"]),
  );
});

describe("colours", () => {
  it("of the page itself are those of its stylesheet, and can be read", async () => {
    const css = await readFile(new URL("../../dashboard/client/style.css", import.meta.url), "utf8");
    for (const [i, theme] of (["light", "dark"] as const).entries()) {
      for (const [name, value] of Object.entries(PALETTE[theme])) {
        const both = new RegExp(`--${name}: light-dark\\((.*)\\);`).exec(css)?.[1]?.match(/#[0-9a-f]{6}/g);
        expect([theme, name, both?.[i]]).toEqual([theme, name, value]);
      }
      const { accent, page, card, text } = PALETTE[theme];
      expect(colorProblems(theme, { accent, page, card, text })).toEqual([]);
    }
  });

  it("that make a text hard to read are refused, with what and by how much", () => {
    const found = problems({ colors: { light: { accent: "#ffd400" }, dark: { page: "#777777" } } });
    expect(Object.keys(found)).toEqual(["portal.colors.light.accent", "portal.colors.dark.page"]);
    expect(found["portal.colors.light.accent"]).toMatch(/"accent" \(#ffd400\) hard to read .* contrast is 1\.\d\d/);
  });

  it.each(["red", "#fff", "#12345", "#1234567", "url(https://evil.example)", "#12345;", 1])(
    "%j is no colour",
    (color) => {
      expect(Object.keys(problems({ colors: { light: { accent: color } } }))).toEqual(["portal.colors.light.accent"]);
    },
  );

  it("contrast as WCAG counts it, and what is written on any accent can be read", () => {
    expect(contrast("#000000", "#ffffff")).toBeCloseTo(21, 5);
    expect(contrast("#767676", "#ffffff")).toBeCloseTo(4.54, 2);
    for (let step = 0; step <= 0xffffff; step += 0x010307) {
      const color = `#${step.toString(16).padStart(6, "0")}`;
      expect(contrast(onColor(color), color)).toBeGreaterThanOrEqual(4.5);
    }
    expect(THEMES).toEqual(["light", "dark"]);
  });
});

describe("the logo", () => {
  it("is a file beside the config, or a data URL, and its bytes say what it is", () => {
    writeFileSync(join(dir, "logo.svg"), SVG);
    const data = Buffer.from(SVG).toString("base64");
    const logo = { type: "image/svg+xml", data };
    expect(portalOf({ logo: "logo.svg" })).toMatchObject({ logo });
    expect(portalOf({ logo: `data:image/png;base64,${data}` })).toMatchObject({ logo });
  });

  it("is refused when it is missing, too long, or no picture", () => {
    writeFileSync(join(dir, "page.html"), "<!doctype html><script>1</script>");
    writeFileSync(join(dir, "large.svg"), SVG.padEnd(70_000));
    for (const logo of ["none.svg", "page.html", "large.svg", "data:text/html;base64,PGI+", "data:image/png,x"])
      expect([logo, Object.keys(problems({ logo }))]).toEqual([logo, ["portal.logo"]]);
  });
});

it("takes no name that is empty, long, or of several lines, and no option that it does not know", () => {
  for (const name of ["", " x", "a\nb", "x".repeat(61)])
    expect(Object.keys(problems({ name }))).toEqual(["portal.name"]);
  expect(Object.keys(problems({ color: {} }))).toEqual(["portal.color"]);
});
