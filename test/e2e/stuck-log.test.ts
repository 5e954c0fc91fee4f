// A relay whose log nobody reads, in a pipe that is full: it serves, and it stops.
import { execFileSync } from "node:child_process";
import { closeSync, constants, openSync, readSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { request } from "undici";
import { describe, expect, it } from "vitest";
import { startCommand, type Running } from "../support/command.ts";
import { testFolder } from "../support/folder.ts";
import { TEST_ENV, TEST_KEYS } from "../support/relay.ts";
import { eventually } from "../support/until.ts";

const SHUTDOWN_MS = 9_000;
/** Longer than a stop within its bounds takes on a busy machine. */
const BOUND_MS = SHUTDOWN_MS + 7_000;

interface Stuck extends AsyncDisposable {
  readonly running: Running;
  /** SIGTERM, as often as given; how it ended, and after how long, ms. */
  terminate(times: 1 | 2): Promise<{ readonly code: number | string; readonly tookMs: number }>;
}

const listens = (url: string): Promise<boolean> =>
  request(`${url}/healthz`).then(
    ({ body }) => body.dump().then(() => true),
    () => false,
  );

/** Starts a relay that logs to a pipe, reads its address from there, and fills the pipe. */
async function startStuck(): Promise<Stuck> {
  const folder = testFolder();
  const fifo = join(folder, "log");
  execFileSync("mkfifo", [fifo]);
  // Open for both, so that the pipe has a reader that never reads and nobody waits for it.
  const reader = openSync(fifo, constants.O_RDWR | constants.O_NONBLOCK);
  const file = join(folder, "relay.config.ts");
  writeFileSync(
    file,
    `import { defineRelay } from "relaybox";
export default defineRelay({ server: { port: 0, shutdownMs: ${SHUTDOWN_MS} }, limits: { "*": false } });
`,
  );
  const running = startCommand(["start", "--config", file], {
    cwd: folder,
    under: ["sh", "-c", `exec "$@" 2>${fifo}`, "sh"],
    env: TEST_ENV,
  });
  let log = "";
  const address = /listening at (http[^\s"]+)"/;
  await eventually(
    "it listens",
    () => {
      const piece = Buffer.alloc(65_536);
      try {
        log += piece.toString("utf8", 0, readSync(reader, piece));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
      }
      return address.test(log);
    },
    60_000,
  );
  const url = address.exec(log)?.[1] ?? "";
  const publish = async (n: number): Promise<void> => {
    const answer = await request(`${url}/events`, {
      method: "POST",
      headers: { authorization: `Bearer ${TEST_KEYS.publishToken}`, "content-type": "application/json" },
      body: JSON.stringify({ type: "a:b", keyId: "key_1", id: `stuck:${n}`, data: "x".repeat(200) }),
    });
    await answer.body.dump();
    expect([202, 429]).toContain(answer.statusCode);
  };
  for (let from = 0; from < 1_900; from += 100) {
    await Promise.all(Array.from({ length: 100 }, (_, i) => publish(from + i)));
  }
  return {
    running,
    async terminate(times) {
      const began = performance.now();
      running.kill("SIGTERM");
      if (times > 1) {
        // Two signals at once are one: the first has been heard when nothing listens any more.
        await eventually("it stops", () => listens(url).then((yes) => !yes));
        running.kill("SIGTERM");
      }
      const late = new Promise<{ readonly code: string }>((resolve) => {
        setTimeout(() => resolve({ code: "still running" }), BOUND_MS).unref();
      });
      const { code } = await Promise.race([running.ended, late]);
      return { code, tookMs: performance.now() - began };
    },
    async [Symbol.asyncDispose]() {
      running.kill("SIGKILL");
      await running.ended;
      closeSync(reader);
    },
  };
}

describe("a relay whose log nobody reads", () => {
  it("stops at SIGTERM within its time", async () => {
    await using stuck = await startStuck();
    const { code, tookMs } = await stuck.terminate(1);
    expect(code).toBe(0);
    expect(tookMs).toBeLessThan(BOUND_MS);
  });

  it("ends at once at a second signal", async () => {
    await using stuck = await startStuck();
    const { code, tookMs } = await stuck.terminate(2);
    expect(code).toBe(143);
    expect(tookMs).toBeLessThan(SHUTDOWN_MS);
  });
});
