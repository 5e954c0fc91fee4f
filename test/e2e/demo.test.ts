// `npm run demo` as people run it: it tells its story, holds its promises, cleans up, and ends by itself.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { runCommand, startCommand } from "../support/command.ts";
import { until } from "../support/until.ts";

it("shows the main job for real and ends with 0 within 30 s", async () => {
  const temp = mkdtempSync(join(tmpdir(), "relay-demo-test-"));
  try {
    // Settings of the shell are for another relay.
    const env = { TMPDIR: temp, RELAY_PORT: "nonsense", RELAY_PUBLISH_TOKEN: "nonsense" };
    const { code, stdout, stderr } = await runCommand(["demo"], { env });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const story = [
      /dashboard is at http:\/\/127\.0\.0\.1:\d+\/developers/,
      /published {2}demo_1, stored \(fsync\), 2 deliveries/,
      /\/books +attempt 1 .*signature verified +answered 500/,
      /\/books +attempt 2 .*signature verified +answered 200/,
      /\/bank +attempt 5 .*signature verified +answered 500/,
      /reads as failed, and is kept/,
      /replayed +demo_2, 1 delivery/,
      /\/bank +attempt 1 .*signature verified +answered 200/,
      /All \d+ promises held/,
    ];
    let at = 0;
    for (const line of story) {
      const found = line.exec(stdout.slice(at));
      expect(found, `${line} after ${stdout.slice(0, at)}`).not.toBeNull();
      at += (found?.index ?? 0) + 1;
    }
    expect(stdout).not.toContain("NOT ");
    expect(readdirSync(temp)).toEqual([]);
  } finally {
    rmSync(temp, { recursive: true });
  }
});

it("stops, and removes its folder, when it is interrupted", async () => {
  const temp = mkdtempSync(join(tmpdir(), "relay-demo-test-"));
  try {
    await using demo = startCommand(["demo"], { env: { TMPDIR: temp } });
    await demo.waitFor(/arrived/);
    demo.kill("SIGINT");
    expect((await demo.ended).code).toBe(130);
    expect(readdirSync(temp)).toEqual([]);
  } finally {
    rmSync(temp, { recursive: true });
  }
});

it("removes its folder when it is interrupted while it is still set up", async () => {
  const temp = mkdtempSync(join(tmpdir(), "relay-demo-test-"));
  try {
    await using demo = startCommand(["demo"], { env: { TMPDIR: temp } });
    await until(() => readdirSync(temp).some((name) => name.startsWith("relay-demo-")));
    demo.kill("SIGTERM");
    expect((await demo.ended).code).toBe(143);
    expect(readdirSync(temp)).toEqual([]);
  } finally {
    rmSync(temp, { recursive: true });
  }
});
