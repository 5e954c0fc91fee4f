// Defines the faults that may befall a relay. Each ends by itself: when it resolves, all is as before.
import { existsSync } from "node:fs";
import { open, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { findCommand } from "../find-program.ts";
import { sleep, start } from "./process.ts";
import type { Random } from "./random.ts";
import type { Blow, TorturedServer } from "./redis.ts";
import type { Relay } from "./relay.ts";
import type { Receivers } from "./receivers.ts";
import { anyMood } from "./subject.ts";

export interface Scene {
  readonly relays: readonly Relay[];
  readonly receivers: Receivers;
  readonly random: Random;
  readonly folder: string;
  /** The folder is a small disk of its own, which can be filled. */
  readonly small: boolean;
  readonly server?: TorturedServer;
  /** The file that libfaketime reads, where the relays run under it. */
  readonly clockFile?: string;
}

export interface Fault {
  readonly name: string;
  /** How often it is chosen. */
  readonly weight: number;
  /** It is none of the kills that are counted. */
  readonly harmless?: true;
  act(scene: Scene): Promise<void>;
}

export const FAKETIME = [
  "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
  "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
  "/usr/lib/faketime/libfaketimeMT.so.1",
].find((path) => existsSync(path));

/** The environment under which a relay's clock is what the file says; monotonic time stays true. */
export const fakeTime = (file: string): NodeJS.ProcessEnv => ({
  LD_PRELOAD: FAKETIME,
  FAKETIME_TIMESTAMP_FILE: file,
  FAKETIME_NO_CACHE: "1",
  FAKETIME_DONT_FAKE_MONOTONIC: "1",
});

/** Written beside and renamed, so that nobody reads it half. */
export async function setClock(file: string, offset: string): Promise<void> {
  await writeFile(`${file}.new`, `${offset}\n`);
  await rename(`${file}.new`, file);
}

const killed: Fault = {
  name: "SIGKILL",
  weight: 5,
  async act({ relays, random }) {
    const relay = random.pick(relays);
    await relay.kill();
    await sleep(random.int(0, 200));
    await relay.start();
  },
};

const ended: Fault = {
  name: "SIGTERM",
  weight: 1,
  async act({ relays, random }) {
    const relay = random.pick(relays);
    await relay.stop();
    await relay.start();
  },
};

const stopped: Fault = {
  name: "SIGSTOP",
  weight: 2,
  async act({ relays, random }) {
    const relay = random.pick(relays);
    relay.signal("SIGSTOP");
    await sleep(random.pick([100, 800, 2_500]));
    relay.signal("SIGCONT");
  },
};

const moody: Fault = {
  name: "receivers",
  weight: 4,
  harmless: true,
  async act({ receivers, random }) {
    for (const subject of receivers.subjects) {
      if (subject.moody && random.chance(0.5)) subject.mood = random.chance(subject.moody) ? anyMood(random) : "well";
    }
  },
};

/** Where only kills are asked for, receivers are hostile all the same, now and then. */
const rarely: Fault = { ...moody, weight: 0.5 };

/** So long may strace take to let go of a relay, ms. */
const LET_GO_MS = 2_000;

/** Lets strace change what fsync comes to in one relay, for a while. */
const injected = (name: string, inject: string, longestMs: number): Fault => ({
  name,
  weight: 2,
  async act({ relays, random }) {
    const relay = random.pick(relays);
    const calls = "fsync,fdatasync";
    const strace = start([
      findCommand("strace") as string,
      "-f",
      "-qq",
      "-p",
      String(relay.pid()),
      "-e",
      `trace=${calls}`,
      "-e",
      `inject=${calls}:${inject}`,
    ]);
    await sleep(random.int(200, longestMs));
    strace.signal("SIGTERM");
    // It may hang over a process that is dying under it; killed, it lets go.
    const force = setTimeout(() => strace.signal("SIGKILL"), LET_GO_MS);
    await strace.gone;
    clearTimeout(force);
    // A relay may have been killed at one of its calls, as asked.
    await sleep(50);
    if (!relay.up()) {
      await relay.kill();
      await relay.start();
    }
  },
});

const full: Fault = {
  name: "full disk",
  weight: 2,
  async act({ folder, random }) {
    const balloon = join(folder, "balloon");
    const file = await open(balloon, "w");
    try {
      for (const size of [1_048_576, 4_096]) {
        const block = Buffer.alloc(size);
        try {
          for (;;) await file.write(block);
        } catch {
          // ENOSPC: as full as it gets with blocks of this size.
        }
      }
      await sleep(random.int(200, 1_500));
    } finally {
      await file.close();
      await rm(balloon, { force: true });
    }
  },
};

const stepped: Fault = {
  name: "clock step",
  weight: 2,
  async act({ clockFile, random }) {
    if (clockFile === undefined) return;
    await setClock(clockFile, random.pick(["-3600s", "-2s", "+2s", "+90s", "+3600s"]));
    await sleep(random.int(300, 2_000));
    await setClock(clockFile, "+0s");
  },
};

/** Strikes one of the servers of the storage, mostly the one that takes writes, for a while. */
const serverStruck = (name: string, weight: number, blow: Blow, forMs: (random: Random) => number): Fault => ({
  name,
  weight,
  async act({ server, random }) {
    const heal = await server?.strike(blow, random.chance(0.25) ? "replica" : "master");
    await sleep(forMs(random));
    await heal?.();
  },
});
/** The storages that are servers of their own, and what people call them. */
const SERVERS: Readonly<Record<string, string>> = { redis: "Redis", postgres: "PostgreSQL" };
const serverKilled = (name: string): Fault =>
  serverStruck(`${name} SIGKILL`, 3, "kill", (random) => random.int(0, 800));
const serverFaults = (name: string): readonly Fault[] => [
  serverKilled(name),
  serverStruck(`${name} SIGSTOP`, 2, "stop", (random) => random.pick([200, 1_500, 3_500])),
  serverStruck(`${name} black hole`, 2, "hole", (random) => random.int(200, 3_000)),
  {
    name: `${name} reset`,
    weight: 2,
    async act({ server }) {
      server?.reset();
    },
  },
  {
    // The one that takes writes goes, its copy takes its place, and the old one comes back as a copy.
    name: `${name} failover`,
    weight: 4,
    async act({ server, random }) {
      const heal = await server?.strike(random.pick(["kill", "stop", "hole"] as const));
      await server?.promoted();
      await sleep(random.int(0, 500));
      await heal?.();
    },
  },
];

export interface Choice {
  readonly faults: readonly Fault[];
  /** Faults that cannot be made here, and why. */
  readonly missing: readonly string[];
}

/** The faults that fit a scene. */
export function faultsFor(storage: string, scene: Pick<Scene, "small" | "clockFile">): Choice {
  const faults = [killed, ended, stopped, moody];
  const missing: string[] = [];
  const name = SERVERS[storage];
  if (name !== undefined) faults.push(...serverFaults(name));
  else {
    if (findCommand("strace") === undefined) missing.push("EIO on fsync, slow fsync: strace is not installed");
    else {
      faults.push(injected("EIO on fsync", "error=EIO", 1_000));
      faults.push(injected("slow fsync", "delay_exit=150000", 2_000));
      faults.push(injected("SIGKILL at fsync", "signal=SIGKILL:when=3", 1_000));
    }
    if (scene.small) faults.push(full);
    else missing.push("full disk: a small tmpfs needs root");
  }
  if (scene.clockFile !== undefined) faults.push(stepped);
  else missing.push("clock steps: libfaketime is not installed");
  return { faults, missing };
}

/** Where only kills are asked for: of the relays, and as often of the server that they share. Nothing else is missed. */
export function killsFor(storage: string): Choice {
  const name = SERVERS[storage];
  const shared = name === undefined ? [] : [{ ...serverKilled(name), weight: killed.weight }];
  return { faults: [killed, ...shared, rarely], missing: [] };
}

export function choose(faults: readonly Fault[], random: Random): Fault {
  let left = random.next() * faults.reduce((sum, { weight }) => sum + weight, 0);
  return faults.find(({ weight }) => (left -= weight) < 0) ?? (faults[0] as Fault);
}
