/**
 * A real Redis in a simulated network: the scripts run in the server itself, by the world's clock; connections, their
 * delays and their cuts are simulated. Nothing else happens in the world while the server works, so that a seed lives the
 * same life each time.
 */
import { Redis } from "ioredis";
import { redisAt } from "../../plugins/storage/redis.ts";
import { COMMAND_MS, type Client, type RedisConnection } from "../../plugins/storage/redis/connect.ts";
import { sortedMap, type SortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { startRedis } from "../support/redis.ts";
import { LEASE_MS, type Cut, type SimShared } from "./shared-storage.ts";
import { GENESIS, type Life, type World } from "./world.ts";

/** One server, for one world after the other. */
export interface SimRedis extends AsyncDisposable {
  /** Empty, for the next world. */
  enter(world: World): Promise<SimShared>;
}

type Part = string | number | Buffer;
type Listener = (...args: never[]) => void;

/** Arrives so late at most, where a broken line lets it through at all. */
const LATE_MS = 8_000;
const RECONNECT_MS = 200;
const PREFIX = "relay";
const SYNC = "sim:sync";
const SCRIPTS = new Set(["eval", "evalsha"]);
/** Where a script's first argument stands, its time as the node took it, behind its text, the number of keys and the keys. */
const TIME_AT = 4;
const TIME = /^\d+(?= |$)/;

export async function openSimRedis(): Promise<SimRedis> {
  const server = await startRedis({ config: { appendonly: "no" } });
  const raw = new Redis(server.port, "127.0.0.1");
  const ears = new Redis(server.port, "127.0.0.1");
  let heard: (readonly [channel: string, message: string])[] = [];
  let synced = 0;
  let wake = (): void => {};
  ears.on("pmessage", (_pattern: string, channel: string, message: string) => {
    if (channel !== SYNC) return void heard.push([channel, message]);
    synced = Number(message);
    wake();
  });
  await ears.psubscribe("*");
  let calls = 0;

  /** Runs one command, and waits for all that it published. */
  async function run(name: string, parts: readonly Part[]): Promise<{ reply: unknown; told: typeof heard }> {
    const own = ++calls;
    const replied = raw.call(name, parts as Part[]).then(
      (value) => () => value,
      (error: unknown) => () => {
        throw error;
      },
    );
    void raw.publish(SYNC, String(own));
    const reply = await replied;
    while (synced < own) await new Promise<void>((resolve) => (wake = resolve));
    const told = heard;
    heard = [];
    return { reply, told };
  }

  async function snapshot(): Promise<SortedMap> {
    const rows = sortedMap();
    const base = `{${PREFIX}}:r:`;
    const names = await raw.keys(`${base}*`);
    const values = names.length === 0 ? [] : await raw.mget(names);
    for (const [i, name] of names.entries()) rows.set(name.slice(base.length), values[i] as string);
    return rows;
  }

  return {
    async enter(world) {
      await raw.flushall();
      // Which scripts it knows decides how often it is asked.
      await raw.script("FLUSH");
      return network(world, run, snapshot);
    },
    async [Symbol.asyncDispose]() {
      raw.disconnect();
      ears.disconnect();
      await server[Symbol.asyncDispose]();
    },
  };
}

type Run = (name: string, parts: readonly Part[]) => Promise<{ reply: unknown; told: (readonly [string, string])[] }>;

function network(world: World, run: Run, snapshot: () => Promise<SortedMap>): SimShared {
  const { random } = world;
  const cuts = new Map<string, Cut>();
  const lines = new Set<Line>();
  const serverNow = (): number => GENESIS + Math.floor(world.now());

  interface Line {
    readonly life: Life;
    readonly channels: Set<string>;
    message(channel: string, text: string): void;
    close(): void;
    open(): void;
  }

  /** One connection of a node: what of ioredis the plug-in uses. */
  function connect(life: Life): Client {
    const listeners = new Map<string, Listener[]>();
    const channels = new Set<string>();
    const underWay = new Set<(error: Error) => void>();
    let up = false;
    let ended = false;
    let arrives = 0;
    let returns = 0;
    const emit = (event: string, ...args: unknown[]): void => {
      for (const listener of listeners.get(event) ?? []) listener(...(args as never[]));
    };

    const line: Line = {
      life,
      channels,
      message: (channel, text) => emit("message", channel, text),
      close() {
        if (!up) return;
        up = false;
        channels.clear();
        for (const reject of underWay) reject(new Error("Connection is closed."));
        underWay.clear();
        emit("close");
      },
      open() {
        if (up || ended || cuts.has(life.name)) return;
        up = true;
        emit("ready");
      },
    };
    lines.add(line);

    function send(name: string, parts: readonly Part[]): Promise<unknown> {
      if (!life.alive()) return new Promise(() => {});
      if (!up) return Promise.reject(new Error("Stream isn't writeable and enableOfflineQueue options is false"));
      const how = cuts.get(life.name);
      arrives = Math.max(arrives, world.now() + random.next() * 5);
      const arrival = how === "hole" ? world.now() + random.next() * LATE_MS : arrives;
      const vanishes = how === "hole" && random.chance(0.5);
      return new Promise((resolve, reject) => {
        underWay.add(reject);
        const end = (act: () => void): void => void (underWay.delete(reject) && act());
        life.after(COMMAND_MS, () => end(() => reject(new Error("Command timed out"))));
        if (vanishes) return;
        // The server's side goes on whatever becomes of the node.
        world.after(arrival - world.now(), () => world.hold(arrive(name, parts, end, resolve, reject)));
      });
    }

    async function arrive(
      name: string,
      parts: readonly Part[],
      end: (act: () => void) => void,
      resolve: (value: unknown) => void,
      reject: (error: unknown) => void,
    ): Promise<void> {
      // The server's time is that of the call's arrival.
      const given = SCRIPTS.has(name)
        ? parts.with(TIME_AT, String(parts[TIME_AT]).replace(TIME, String(serverNow())))
        : parts;
      const { reply, told } = await run(name, given);
      for (const [channel, text] of told) {
        for (const other of lines) {
          if (!other.channels.has(channel) || cuts.has(other.life.name)) continue;
          other.life.after(
            random.next() * 20,
            () => void (other.channels.has(channel) && other.message(channel, text)),
          );
        }
      }
      if (cuts.has(life.name)) return;
      returns = Math.max(returns, world.now() + random.next() * 5);
      life.after(returns - world.now(), () =>
        end(() => {
          try {
            resolve((reply as () => unknown)());
          } catch (error) {
            reject(error);
          }
        }),
      );
    }

    const own: Record<string, unknown> = {
      on: (event: string, listener: Listener) => void listeners.set(event, [...(listeners.get(event) ?? []), listener]),
      async connect() {
        if (cuts.has(life.name)) throw new Error("connect ECONNREFUSED");
        up = true;
      },
      disconnect(again?: boolean) {
        line.close();
        if (again === true) return void life.after(RECONNECT_MS, () => line.open());
        ended = true;
        lines.delete(line);
      },
      call: (name: string, parts: readonly Part[]) => send(name, parts),
      ping: () => send("ping", []),
      async subscribe(...names: readonly string[]) {
        await send("ping", []);
        for (const name of names) channels.add(name);
      },
    };
    // Any other command, by its name.
    return new Proxy(own, {
      get: (target, name) =>
        name in target || typeof name === "symbol" || name === "then"
          ? target[name as string]
          : (...parts: readonly (Part | readonly Part[])[]) => send(name, parts.flat()),
      has: (target, name) => name in target,
    }) as unknown as Client;
  }

  return {
    rows: snapshot,
    async open(life) {
      const client = connect(life);
      const clients = [client];
      const another = (): Client => clients[clients.push(connect(life)) - 1] as Client;
      const made: RedisConnection = {
        client,
        driver: { getInstance: () => client } as unknown as RedisConnection["driver"],
        subscriber: another,
        patient: another,
        end: () => clients.forEach((one) => one.disconnect()),
      };
      const plugin = redisAt(
        { url: "redis://simulated", prefix: PREFIX, leaseMs: LEASE_MS },
        serverNow,
        async () => made,
      );
      return plugin.setup(pluginContext(life.clock, "/nonexistent"));
    },
    cut(name, how) {
      const own = [...lines].filter(({ life }) => life.name === name);
      if (how === "whole") {
        if (!cuts.delete(name)) return;
        for (const line of own) {
          line.close();
          line.life.after(random.next() * RECONNECT_MS, () => line.open());
        }
        return;
      }
      cuts.set(name, how);
      // A connection behind a hole looks open until its own timeout.
      for (const line of own) {
        if (how === "refused") line.close();
        else line.life.after(COMMAND_MS, () => void (cuts.has(name) && line.close()));
      }
    },
  };
}
