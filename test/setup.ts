// Runs in every test file: one that leaves sockets, servers, threads or child processes behind fails.
import { afterAll } from "vitest";
import { resolveOwnModules } from "../config/module-resolver.ts";

// The published package is built; tests are about the sources, also where they name the package.
resolveOwnModules("");

/** Resources that must not outlive a file. Timers are left out: vitest has its own. */
const LEAKS: ReadonlySet<string> = new Set([
  "TCPServerWrap",
  "TCPSocketWrap",
  "PipeWrap",
  "ProcessWrap",
  "FSEventWrap",
]);
const GRACE_MS = 3_000;

function held(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of process.getActiveResourcesInfo()) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

// Libraries that log open these when they load: they belong to the process, not to a test.
void [process.stdout, process.stderr, process.stdin];
const before = held();

function leaked(): string[] {
  const now = held();
  return [...now]
    .filter(([name, count]) => LEAKS.has(name) && count > (before.get(name) ?? 0))
    .map(([name, count]) => `${count - (before.get(name) ?? 0)} × ${name}`);
}

// Hooks end in the reverse order of their registration, so this one comes after all those of the file.
afterAll(async () => {
  const until = Date.now() + GRACE_MS;
  while (leaked().length > 0 && Date.now() < until) await new Promise((resolve) => setTimeout(resolve, 20));
  const rest = leaked();
  if (rest.length > 0) throw new Error(`this file leaves behind: ${rest.join(", ")}`);
});
