/** What docs/outbox.md says, for tests that do it. */
import { readFileSync } from "node:fs";

/** Returns the statements of a block of docs/outbox.md, for a table of another name. */
export function outboxSql(what: string, table = "outbox"): string {
  return outboxBlock(what).replaceAll("outbox", table);
}

/** Returns the config of docs/outbox.md that follows the statements of a block. */
export function outboxConfig(what: string): string {
  const page = readFileSync(new URL("../../docs/outbox.md", import.meta.url), "utf8");
  const [, text] = /^```ts config\n([\s\S]*?)^```$/m.exec(page.slice(page.indexOf(`\`\`\`sql ${what}\n`))) ?? [];
  if (text === undefined) throw new Error(`docs/outbox.md has no config of ${what}`);
  return text;
}

/** Returns statements of docs/outbox.md. @throws Error when there is none */
export function outboxBlock(what: string): string {
  const page = readFileSync(new URL("../../docs/outbox.md", import.meta.url), "utf8");
  const [, text] = new RegExp(`^\`\`\`sql ${what}\\n([\\s\\S]*?)^\`\`\`$`, "m").exec(page) ?? [];
  if (text === undefined) throw new Error(`docs/outbox.md has no sql ${what}`);
  return text;
}
