/** Mends what a crash left: a last line without its end was never confirmed, so it is cut off. */
import { open, readdir, type FileHandle } from "node:fs/promises";
import { join } from "node:path";

export const SUFFIX = ".ndjson";
const STEP = 65_536;

/** Mends every file that lines are still added to. Closed ones are whole. */
export async function mendTails(dir: string): Promise<void> {
  for (const entry of await readdir(dir, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !entry.name.endsWith(SUFFIX)) continue;
    await using handle = await open(join(entry.parentPath, entry.name), "r+");
    await mendTail(handle);
  }
}

/** Cuts off what stands behind the last end of a line. Returns the size of the file after that. */
export async function mendTail(handle: FileHandle): Promise<number> {
  const { size } = await handle.stat();
  const whole = await endOfLastLine(handle, size);
  if (whole < size) {
    await handle.truncate(whole);
    await handle.datasync();
  }
  return whole;
}

async function endOfLastLine(handle: FileHandle, size: number): Promise<number> {
  const buffer = Buffer.alloc(Math.min(STEP, size));
  for (let end = size; end > 0;) {
    const start = Math.max(0, end - buffer.length);
    const { bytesRead } = await handle.read(buffer, 0, end - start, start);
    const at = buffer.subarray(0, bytesRead).lastIndexOf(0x0a);
    if (at >= 0) return start + at + 1;
    end = start;
  }
  return 0;
}
