/** The law of transports over a named connection: a new bus writes a harness (test/support/buses), and none of these laws. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { TransportPlugin } from "../../core/ports/plan.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { within } from "../../core/lib/within.ts";
import { freePort } from "../../tools/free-port.ts";
import { describeTransport, type Ability, type FarRequest, type TransportBench } from "../conformance/transport.ts";
import { keptLog, sendTo, setUp, textOf, whenNotReady, whenReady } from "./bus-bench.ts";
import { tcpShim } from "./tcp-shim.ts";
import { until } from "./until.ts";

export interface Arrived extends FarRequest {
  readonly headers: Readonly<Record<string, string>>;
  readonly messageId?: string;
}

/** A bus that runs, for one test file. */
export interface FarBus extends AsyncDisposable {
  /** Where it is: `127.0.0.1:4222`, or a folder. */
  readonly at: string;
  /** Makes an empty destination, and returns its URL. */
  destination(name: string): Promise<string>;
  /** Resolves to all that has arrived there, once that are so many. */
  arrived(url: string, least: number): Promise<readonly Arrived[]>;
  /** Resolves once the destination outlives a kill of the bus. */
  lasts?(url: string): Promise<void>;
  /** Lets the bus take messages and say nothing, in place of what stands between. */
  hang?(on: boolean): void;
  readonly server?: { pause(): void; kill(): Promise<void>; start(): Promise<void> };
}

export interface BusHarness<Far extends FarBus = FarBus> {
  /** For people, and as the log names it: `NATS`. */
  readonly system: string;
  /** Why there is none here. */
  readonly missing?: string | undefined;
  readonly make: (options: never) => TransportPlugin;
  /** The options of a transport named `bus` to the bus that is there. */
  readonly options: (at: string) => object;
  /** All options at once, without a problem. */
  readonly everyOption: object;
  /** Options that are wrong, with the paths of their problems. */
  readonly wrongOptions: readonly (readonly [options: object, ...paths: readonly string[]])[];
  /** The part of URLs behind `scheme://bus/`, and the rule that a wrong one is answered with. */
  readonly urls: { readonly rule: string; readonly right: readonly string[]; readonly wrong: readonly string[] };
  /** Beside what no bus can. `away`: it can be missing. `between`: something can stand between. */
  readonly cannot?: Partial<Record<Ability | "away" | "between", string>>;
  /** Matches the reply to a message that arrived, which names its place. */
  readonly place: RegExp;
  /** A URL whose messages the bus refuses, and the words of the reply. */
  readonly refused: readonly [url: string, words: RegExp];
  /** A URL that is sent to before the bus falls silent, where the client opens something for a destination first. */
  readonly opens?: string;
  start(): Promise<Far>;
}

/** The abilities of the law that no bus has, with the reason. */
const NO_BUS_CAN: Partial<Record<Ability, string>> = {
  status: "a bus confirms or refuses, and has no statuses",
  drip: "a bus confirms a message at once or not at all",
  garble: "the client reads the protocol",
  cut: "what a lost connection means is tried with the real server below",
};

/** A stop beside a bus that says nothing takes no longer, ms: a machine may be slow. */
const STOP_MS = 20_000;

/** The parts that the tests of one bus share. */
export interface BusStage<Far extends FarBus> {
  readonly far: Far;
  /** A transport to the bus, ready; it is closed when the tests have ended. */
  open(more?: object): Promise<Transport>;
}

/** @param more registers the tests of this bus alone, which need it */
export function describeBus<Far extends FarBus>(harness: BusHarness<Far>, more?: (stage: BusStage<Far>) => void): void {
  const { system, missing, options, cannot = {} } = harness;
  const make = harness.make as (options: object) => TransportPlugin;
  const here = it.skipIf(missing !== undefined);
  const because = missing === undefined ? "" : ` (skipped: ${missing})`;

  describe(`a transport to ${system}${because}`, () => {
    let started: Far;
    let count = 0;
    const opened: Transport[] = [];
    const stage: BusStage<Far> = {
      get far() {
        return started;
      },
      async open(given = {}) {
        const transport = await keep(setUp(make({ ...options(started.at), ...given })));
        await whenReady(transport);
        return transport;
      },
    };
    async function keep(making: Promise<Transport>): Promise<Transport> {
      const transport = await making;
      opened.push(transport);
      return transport;
    }
    const nowhere = async (): Promise<Transport> => keep(setUp(make(options(`127.0.0.1:${await freePort()}`))));
    const destination = (): Promise<string> => started.destination(`law${++count}`);

    beforeAll(async () => {
      if (missing === undefined) started = await harness.start();
    });
    afterAll(async () => {
      await Promise.all(opened.map((transport) => transport.dispose()));
      await started?.[Symbol.asyncDispose]();
    });

    describe.skipIf(missing !== undefined)("keeps the law of transports:", () => {
      const hang = cannot.between !== undefined && { hang: cannot.between };
      describeTransport(it, {
        cannot: { ...NO_BUS_CAN, ...hang, ...cannot },
        open: async () => busBench(harness, started, await destination()),
      });
    });

    here("sends the body with the headers as they are and the message id, and names the place", async ({ skip }) => {
      if (cannot.headers !== undefined) return skip(cannot.headers);
      const transport = await stage.open();
      const url = await destination();
      const headers = { "Content-Type": "application/json", "webhook-signature": "v1,abc=" };
      const body = Buffer.from('{ "é": "\\u00e9" }');
      const messageId = `dlv_${system}_law`;
      expect(textOf(await sendTo(transport, url, { headers, body, messageId }))).toMatch(harness.place);
      const [first] = await started.arrived(url, 1);
      expect(first).toMatchObject({ messageId });
      expect(first?.headers).toEqual(headers);
      expect(Buffer.from(first?.body ?? "").toString()).toBe('{ "é": "\\u00e9" }');
    });

    here("says in the words of the bus why it refuses a message, and stays ready", async () => {
      const transport = await stage.open();
      const [url, words] = harness.refused;
      const reply = await sendTo(transport, url);
      expect(reply).toMatchObject({ kind: "error", error: "protocol" });
      expect(textOf(reply)).toMatch(words);
      expect(transport.readiness?.()).toBeUndefined();
    });

    here(
      "is away while the bus is killed, ends what is under way, comes back by itself, and says both",
      async (test) => {
        const { server } = started;
        if (server === undefined) return test.skip(cannot.away);
        const { log, said } = keptLog();
        const transport = await keep(setUp(make(options(started.at)), { log }));
        await whenReady(transport);
        const url = await destination();
        await sendTo(transport, url);
        await started.lasts?.(url);
        server.pause();
        const sending = sendTo(transport, url);
        await server.kill();
        expect(textOf(await sending)).toBe("unavailable the connection bus is away");
        expect(await whenNotReady(transport)).toMatch(/^is not connected(?:: |$)/);
        expect(await sendTo(transport, url)).toMatchObject({ kind: "unavailable" });
        await server.start();
        await whenReady(transport);
        expect(textOf(await sendTo(transport, url))).toMatch(harness.place);
        expect(said).toContain(`warn a connection to ${system} failed`);
        expect(said.filter((line) => line.startsWith("info "))).toEqual([
          `info the connection to ${system} is there again`,
        ]);
        expect(said.at(-1)).toMatch(/^info /);
      },
    );

    here("stops soon beside a bus that says nothing, and ends what is under way", async ({ skip }) => {
      if (cannot.between !== undefined) return skip(cannot.between);
      await using bench = await busBench(harness, started, await destination());
      bench.far({ do: "hang" });
      const sending = sendTo(bench.transport, bench.url, { timeoutMs: 600_000 });
      await bench.arrived(1);
      expect(await within(systemClock(), STOP_MS, bench.transport.dispose())).toBe(true);
      expect(await sending).toMatchObject({ kind: "unavailable" });
    });

    it("starts without the bus, says so once, and finds it when it comes", async ({ skip }) => {
      if (cannot.away !== undefined) return skip(cannot.away);
      await using shim = await tcpShim(await freePort());
      const { log, said } = keptLog();
      const transport = await keep(setUp(make(options(`127.0.0.1:${shim.port}`)), { log }));
      expect(transport.readiness?.()).toMatch(/^is not connected(?:: |$)/);
      expect(await sendTo(transport, harness.refused[0])).toMatchObject({ kind: "unavailable" });
      await until(() => said.length > 0);
      expect(said).toEqual([`warn a connection to ${system} failed`]);
      if (missing !== undefined || cannot.between !== undefined) return;
      shim.aim(Number(started.at.split(":")[1]));
      await whenReady(transport);
    });

    it("takes its own kind of URL alone, and none that reaches what the bus keeps for itself", async () => {
      const transport = await (cannot.away === undefined ? nowhere() : stage.open());
      const start = `${transport.schemes[0]}://bus/`;
      for (const right of harness.urls.right) expect(await transport.problems?.(start + right), right).toBeUndefined();
      for (const wrong of harness.urls.wrong) {
        const problem = `must be ${start} and ${harness.urls.rule}`;
        expect(await transport.problems?.(start + wrong), wrong).toMatch(problem);
        expect(await sendTo(transport, start + wrong), wrong).toMatchObject({ kind: "error", error: "protocol" });
      }
      expect(await transport.problems?.(`${transport.schemes[0]}://other/${harness.urls.right[0]}`)).toMatch(
        /^must be /,
      );
    });

    if (more !== undefined) describe.skipIf(missing !== undefined)("in its own way", () => more(stage));
  });

  describe(`the options of ${make.name}`, () => {
    const problems = (given: object) => make(given).problems ?? [];

    it("are taken as documented, and another one is named", () => {
      expect(problems(harness.everyOption)).toEqual([]);
      expect(problems({ ...harness.everyOption, bogus: 1 })).toEqual([{ path: "bogus", message: "is not an option" }]);
      expect(problems({}).map(({ path }) => path)).toContain("name");
    });

    it.each(harness.wrongOptions)("are judged before the start: %o", (given, ...paths) => {
      const found = problems({ name: "bus", ...(given as object) });
      expect(found.map(({ path }) => path)).toEqual(paths);
      // No message shows a password.
      expect(JSON.stringify(found)).not.toContain("s3cret");
    });
  });
}

/** A transport to the bus that can be made to say nothing. */
async function busBench(harness: BusHarness, far: FarBus, url: string): Promise<TransportBench> {
  await using open = new AsyncDisposableStack();
  const between = harness.cannot?.between === undefined && far.hang === undefined;
  const shim = between ? open.use(await tcpShim(Number(far.at.split(":")[1]))) : undefined;
  const at = shim === undefined ? far.at : `127.0.0.1:${shim.port}`;
  const transport = await setUp((harness.make as (options: object) => TransportPlugin)(harness.options(at)));
  open.defer(() => transport.dispose());
  await whenReady(transport);
  if (harness.opens !== undefined) await sendTo(transport, harness.opens);
  const closing = open.move();
  return {
    transport,
    url,
    nowhere: harness.refused[0],
    far({ do: does }) {
      if (far.hang !== undefined) far.hang(does === "hang");
      else if (does === "hang") shim?.swallowReplies();
      else shim?.pass();
    },
    arrived: (least) => far.arrived(url, least),
    [Symbol.asyncDispose]: () => closing.disposeAsync(),
  };
}

/** Reads again and again until there are so many. */
export async function atLeast<T>(
  least: number,
  read: () => Promise<readonly T[]> | readonly T[],
): Promise<readonly T[]> {
  let found: readonly T[] = [];
  await until(async () => (found = await read()).length >= least);
  return found;
}
