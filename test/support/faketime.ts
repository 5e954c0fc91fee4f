/** Wrong clocks of processes, by libfaketime: a file says by how much, and may be changed while they run. */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { needs } from "./needs.ts";

const LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

/** The reason why there are no wrong clocks here, if there are none. */
export const noFaketime = needs("faketime") ?? (existsSync(LIBRARY) ? undefined : `needs ${LIBRARY}`);

/** Variables of a process whose clock is wrong by so much (`+1h`) from its start to its end. */
export const clockOff = (offset: string): Record<string, string> =>
  offset === "+0" ? {} : { LD_PRELOAD: LIBRARY, FAKETIME: offset, DONT_FAKE_MONOTONIC: "1" };

/** A clock that is right until it is set. */
export function settableClock(folder: string) {
  const file = join(folder, "faketime");
  const set = (offset: string): void => writeFileSync(file, offset);
  set("+0");
  const env = { LD_PRELOAD: LIBRARY, FAKETIME_TIMESTAMP_FILE: file, FAKETIME_NO_CACHE: "1", DONT_FAKE_MONOTONIC: "1" };
  return { env, set };
}
