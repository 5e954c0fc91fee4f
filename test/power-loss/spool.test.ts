import { EVENT } from "../../core/model/schema.ts";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { putBack } from "../../plugins/source/spool/folder.ts";
import { needs } from "../support/needs.ts";
import { Disk } from "./disk.ts";
import { record } from "./record.ts";
import { cutPower, PATIENCE_MS } from "./replay.ts";
import { scratchFolders } from "./scratch.ts";
import { readDatabase } from "./storage.ts";

const missing = needs("strace");
const fresh = scratchFolders();
const CHILD = join(import.meta.dirname, "spool-child.ts");
const EVENTS = 3;
/** In the order in which they are taken; the last but one has a mistake. */
const FILES = ["a.ndjson", "b.ndjson", "c.ndjson", "d.ndjson"];
const BAD = "c.ndjson";

const line = (file: number, i: number): string =>
  `{"type":"${i === 1 && FILES[file] === BAD ? "" : "deposit:paid"}","keyId":"key_1","data":${file * 10 + i}}\n`;
const text = (file: number): string => Array.from({ length: EVENTS }, (_, i) => line(file, i)).join("");

it(
  "after a power cut, no file of a spool is lost, without its report, or offered again when its notes are gone",
  async ({ skip }) => {
    skip(missing !== undefined, missing);
    const scratch = fresh();
    const root = join(scratch, "life");
    const [data, drop] = [join(root, "data"), join(root, "drop")];
    for (const folder of [root, data, drop]) mkdirSync(folder, { mode: 0o700 });
    for (const [file, name] of FILES.entries()) writeFileSync(join(drop, name), text(file));
    const disk = new Disk(root);
    const args = [CHILD, data, drop, String(FILES.length)];
    const steps = await record({ trace: join(scratch, "trace"), args });
    rmSync(root, { recursive: true });

    let forgotten = 0;
    async function judge(folder: string): Promise<string | undefined> {
      const rows = (await readDatabase(join(folder, "data/relay.db"))) ?? new Map<string, string>();
      const events = [...rows].filter(([key]) => key.startsWith("event:"));
      const stored = new Set(
        events.map(([, value]) => (JSON.parse(EVENT.orThrow(value).body) as { data: number }).data),
      );
      const notes = [...rows].filter(([key]) => key.startsWith("plugin:")).map(([, value]) => value);
      const lists = ["done", "rejected"].map((name) => join(folder, "drop", name));
      // As a relay does that starts there.
      await putBack({ dir: join(folder, "drop"), done: "", rejected: "" });
      const [done = [], rejected = []] = lists.map((path) => (existsSync(path) ? readdirSync(path) : []));
      for (const [file, name] of FILES.entries()) {
        const place = [join(folder, "drop"), ...lists].find((path) => existsSync(join(path, name)));
        if (place === undefined) return `${name} is lost`;
        if (readFileSync(join(place, name), "utf8") !== text(file)) return `${name} is not whole`;
        const count = Array.from({ length: EVENTS }, (_, i) => file * 10 + i).filter((n) => stored.has(n)).length;
        if (count !== 0 && (count !== EVENTS || name === BAD)) return `${count} events of ${name} are stored`;
        if (done.includes(name) && count === 0) return `${name} is done, and its events are not stored`;
        const waits = existsSync(join(folder, "drop", name));
        if (waits && file < forgotten && !notes.some((note) => note.includes(name)))
          return `${name} is offered again, and nobody knows that it is stored`;
      }
      if (rejected.includes(BAD)) JSON.parse(readFileSync(join(folder, "drop/rejected", `${BAD}.errors.json`), "utf8"));
      return undefined;
    }
    const { states, wrong } = await cutPower({
      disk,
      steps,
      scratch,
      judge,
      hear: (said) => void (forgotten += said === "forget" ? 1 : 0),
      moments: 24,
    });
    expect(wrong).toEqual([]);
    expect(states).toBeGreaterThan(50);
    expect(forgotten).toBe(FILES.length);
  },
  PATIENCE_MS,
);
