// Writes docs/config.md from the config's own schema, defaults and docstrings: `npm run reference`. `--check` only compares, and
// ends with 1 when the page is out of date.
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pageOf } from "./config-reference/page.ts";

const file = "docs/config.md";
const root = resolve(import.meta.dirname, "..");
const path = join(root, file);

/** Tables are padded by the formatter: widths say nothing. */
const plain = (text: string): string => text.replaceAll(/ +/g, " ").replaceAll(/-{3,}/g, "---");

const page = pageOf(root);
if (process.argv.includes("--check")) {
  if (plain(page) !== plain(readFileSync(path, "utf8"))) {
    console.error(`${file} is out of date: npm run reference`);
    process.exitCode = 1;
  }
} else {
  writeFileSync(path, page);
  spawnSync(join(root, "node_modules/.bin/oxfmt"), [file], { cwd: root, stdio: "inherit" });
}
