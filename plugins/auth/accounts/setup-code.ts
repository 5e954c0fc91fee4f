/** Makes the code for the first account, in a file of the data folder, so that only the operator of the relay can use it. */
import { randomBytes } from "node:crypto";
import { readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { untilCommitted } from "../../../core/model/errors.ts";
import { writePrivateFile } from "../../../core/ports/folder.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Change } from "../../../core/ports/storage.ts";
import { base32, grouped, secretHash } from "./codes.ts";

/** The origin of a guess, for the log. */
interface GuessedFrom {
  readonly address: string;
  readonly requestId: string;
}

/** `wrong`: it is not the code, or that one has expired. `spent`: there is no valid code any more. */
type SetupRefused = "wrong" | "spent";

interface Stored {
  readonly hash: string;
  readonly expiresAt: number;
  readonly tries: number;
}

const KEY = "setup";
const LIVES_MS = 3_600_000;
/** How far a clock may be set back before a code counts as made by a clock that was ahead, ms. */
const SET_BACK_MS = 300_000;
const TRIES = 5;
/** Says how to go on once the tries are used up: the same text in log, file and answer. */
export const SPENT =
  "No set-up code is valid after five wrong ones. Restart the relay for a new one, or use `relay users add`.";

type Context = Pick<PluginContext, "storage" | "clock" | "dataDir" | "log">;

/** Of a damaged record, a code that has expired: another is made. */
function parse(text: string): Stored {
  try {
    const { hash, expiresAt, tries } = (JSON.parse(text) as Partial<Stored> | null) ?? {};
    if (typeof hash === "string" && Number.isFinite(expiresAt) && Number.isFinite(tries))
      return { hash, expiresAt, tries } as Stored;
  } catch {
    // Not JSON.
  }
  return { hash: "", expiresAt: 0, tries: 0 };
}

export class SetupCode {
  readonly #ctx: Context;
  readonly #show: (line: string) => void;
  readonly #path: string;

  /** @param show writes to the operator's terminal, where there is one; the log never contains the code */
  constructor(ctx: Context, show: (line: string) => void = () => undefined) {
    this.#ctx = ctx;
    this.#show = show;
    this.#path = join(ctx.dataDir, "setup-code");
  }

  /** Makes a code unless the file holds a valid one, and logs where it is. */
  async offer(): Promise<void> {
    const { storage, clock } = this.#ctx;
    const before = await this.#stored();
    const written = (await readFile(this.#path, "utf8").catch(() => "")).trim();
    const good = before !== undefined && !this.#isOver(before.code) && before.code.tries > 0;
    if (good && secretHash(written) === before.code.hash) return this.#announce(written);
    const code = grouped(base32(randomBytes(16)));
    const value: Stored = { hash: secretHash(code), expiresAt: clock.now() + LIVES_MS, tries: TRIES };
    await storage.commit([{ op: "put", key: KEY, value: JSON.stringify(value) }]);
    await write(this.#path, `${code}\n`);
    this.#announce(code);
  }

  /** Returns the change that uses the right code up. A wrong one costs a try; the last invalidates the code. */
  use(code: string, from: GuessedFrom): Promise<Change | SetupRefused> {
    const { storage, log } = this.#ctx;
    return untilCommitted(async () => {
      const now = await this.#stored();
      if (now === undefined) return "wrong";
      if (this.#isOver(now.code)) {
        // The code expired unused: the next one is in the same place.
        await this.offer();
        return "wrong";
      }
      if (now.code.tries <= 0) return "spent";
      if (secretHash(code) === now.code.hash) return { op: "delete", key: KEY, if: now.text };
      const value: Stored = { ...now.code, tries: now.code.tries - 1 };
      // When another guess came between, this one costs a try of its own.
      await storage.commit([{ op: "put", key: KEY, value: JSON.stringify(value), if: now.text }]);
      log.warn("a wrong set-up code", { ...from, left: value.tries });
      if (value.tries > 0) return "wrong";
      await this.#spend();
      return "spent";
    });
  }

  /** Removes the code and its file, because there is an account. */
  async withdraw(): Promise<void> {
    const { storage, log } = this.#ctx;
    await storage.commit([{ op: "delete", key: KEY }]);
    // Without its file the code is invalid anyway, so one that cannot be removed does no harm.
    const path = this.#path;
    await rm(path, { force: true }).catch(() => log.warn("a used set-up code cannot be removed", { path }));
  }

  async #stored(): Promise<{ readonly text: string; readonly code: Stored } | undefined> {
    const text = await this.#ctx.storage.getItem(KEY);
    return text === undefined ? undefined : { text, code: parse(text) };
  }

  /** A code from a clock that was ahead would last longer by as much: it has expired too. */
  #isOver({ expiresAt }: Stored): boolean {
    const now = this.#ctx.clock.now();
    return now >= expiresAt || now < expiresAt - LIVES_MS - SET_BACK_MS;
  }

  #announce(code: string): void {
    const path = this.#path;
    this.#ctx.log.info("there is no account yet: the code to make one is in a file of the data folder", { path });
    this.#show(`\n  No account yet. Set-up code (one hour): ${code}\n\n`);
  }

  /** Reports that the tries are used up. If the process dies before this, the answer to the next guess reports it. */
  async #spend(): Promise<void> {
    const [{ log }, path] = [this.#ctx, this.#path];
    log.warn("the set-up code is invalid after five wrong ones", { path, detail: SPENT });
    this.#show(`\n  ${SPENT}\n\n`);
    await write(path, `${SPENT}\n`).catch(() => log.warn("the set-up code's file cannot be written", { path }));
  }
}

async function write(path: string, text: string): Promise<void> {
  const temp = `${path}.${randomBytes(6).toString("hex")}`;
  await writePrivateFile(temp, text);
  await rename(temp, path);
}
