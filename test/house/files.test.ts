// The habits of the house that a machine can see: small files that say why they exist, a tidy root, known names.
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, it } from "vitest";
import { LOG_FIELDS } from "../../core/runtime/observability/log-fields.ts";
import { METRIC_TABLE } from "../../core/runtime/observability/metric-table.ts";

const root = resolve(import.meta.dirname, "../..");

/** file → text, of everything that git knows or would add. */
const files = new Map<string, string>();
beforeAll(async () => {
  const args = ["ls-files", "--cached", "--others", "--exclude-standard"];
  // A package that was unpacked without its history has nothing to list, and nothing to check.
  const { stdout } = await promisify(execFile)("git", args, { cwd: root, maxBuffer: 1 << 24 });
  for (const file of stdout.split("\n")) {
    const text = await readFile(join(root, file), "utf8").catch(() => undefined);
    if (file !== "" && text !== undefined) files.set(file, text);
  }
});

const code = (): [string, string][] =>
  [...files].filter(
    ([file, text]) =>
      /^(core|plugins|config|cli|dashboard|bench|tools)\/.*\.(ts|tsx|mjs|js)$/.test(file) &&
      !text.startsWith("// Generated from "),
  );

describe("the house", () => {
  it("has no file of more than 400 lines outside the tests", () => {
    const long = code().filter(([, text]) => text.split("\n").length > 401);
    expect(long.map(([file]) => file)).toEqual([]);
  });

  it("has no file that does not begin with why it exists", () => {
    const silent = code().filter(([, text]) => !/^(#!.*\n)?(\/\*\*|\/\/)/.test(text));
    expect(silent.map(([file]) => file)).toEqual([]);
  });

  it("has no rooms for odds and ends", () => {
    const odd = [...files.keys()].filter((file) =>
      /(^|\/)(types|utils|util|helpers?|manager|service|common)\.[a-z]+$/.test(file),
    );
    expect(odd).toEqual([]);
  });

  it("has a root with nothing in it that does not belong there", () => {
    const allowed = [
      ".ci", ".dockerignore", ".editorconfig", ".gitignore", ".oxfmtrc.json", ".oxlintrc.json",
      "CHANGELOG.md", "CONTRIBUTING.md", "Dockerfile", "LICENSE", "README.md", "package-lock.json", "package.json", "relay.config.ts", "tsconfig.json",
      "bench", "cli", "config", "core", "dashboard", "deploy", "docs", "examples", "plugins", "test", "tools",
    ]; // prettier-ignore
    const there = new Set([...files.keys()].map((file) => file.split("/")[0]));
    expect([...there].filter((name) => !allowed.includes(name as string))).toEqual([]);
  });

  it("escapes neither types nor the linter, and leaves nothing for later", () => {
    const bad = /@ts-(ignore|nocheck)|(ox|es)lint-disable|\bas any\b|\bTODO\b|\bFIXME\b/;
    const found = [...files].filter(
      ([file, text]) => /\.(ts|mjs|tsx)$/.test(file) && file !== "test/house/files.test.ts" && bad.test(text),
    );
    expect(found.map(([file]) => file)).toEqual([]);
  });
});

describe("what is told", () => {
  it("is counted under names that the table of figures has, or that the plug-in declares", () => {
    const unknown: string[] = [];
    for (const [file, text] of code()) {
      for (const [, verb, name] of text.matchAll(/\bmetrics\??\.(count|gauge|observe)\(\s*"([^"]+)"/g)) {
        const kind = { count: "counter", gauge: "gauge", observe: "histogram" }[verb as "count" | "gauge" | "observe"];
        if (text.includes(`{ name: "${name}", type: "${kind}"`)) continue;
        if (METRIC_TABLE[name as string]?.kind !== kind) unknown.push(`${file}: ${verb} ${name}`);
      }
    }
    expect(unknown).toEqual([]);
  });

  it("is logged in fields that the log lets through", () => {
    const unknown: string[] = [];
    for (const [file, text] of code()) {
      for (const match of text.matchAll(/\blog\??\.(?:debug|info|warn|error)\(\s*(?:"[^"]*"|`[^`]*`),\s*\{/g)) {
        for (const name of topKeys(text.slice(match.index + match[0].length))) {
          if (!LOG_FIELDS.has(name)) unknown.push(`${file}: ${name}`);
        }
      }
    }
    expect(unknown).toEqual([]);
  });
});

/** The names of an object literal's own fields; `text` begins behind its brace. */
function topKeys(text: string): string[] {
  let depth = 0;
  let at = 0;
  for (; at < text.length && depth >= 0; at++) {
    if ("{[(".includes(text[at] as string)) depth++;
    else if ("}])".includes(text[at] as string)) depth--;
  }
  let flat = text.slice(0, at - 1);
  for (let before = ""; before !== flat;) {
    before = flat;
    flat = flat.replaceAll(/\{[^{}]*\}|\[[^[\]]*\]|\([^()]*\)/g, "0");
  }
  return flat
    .split(",")
    .map((part) => /^\s*(?:"([^"]+)"|(\w+))\s*(?::|$)/.exec(part))
    .flatMap((found) => (found === null ? [] : [(found[1] ?? found[2]) as string]));
}
