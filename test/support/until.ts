/** Waits for what another process or thread does: the condition is looked at again and again, in real time. */

/** Between two looks, ms: short, for a test that waits does nothing else. */
const LOOK_MS = 10;

export type Holds = () => boolean | Promise<boolean>;

/** Resolves once it holds. A test that waits in vain ends by its own time-out. */
export async function until(holds: Holds): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
}

/** Resolves once it holds. @throws Error after `withinMs`, which names what was waited for */
export async function eventually(what: string, holds: Holds, withinMs = 60_000): Promise<void> {
  const end = performance.now() + withinMs;
  await until(async () => {
    if (await holds()) return true;
    if (performance.now() > end) throw new Error(`not within ${withinMs} ms: ${what}`);
    return false;
  });
}
