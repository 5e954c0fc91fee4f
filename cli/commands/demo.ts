/** `relay demo`: shows the main job with a real relay: publish, sign, deliver, retry, fail, replay. */
import { openStage, type ReceivedDelivery, type Stage } from "../local/demo-stage.ts";
import type { Command } from "../support/command.ts";
import { type CliEnvironment, paint } from "../support/environment.ts";
import { EX_OK, EX_SOFTWARE } from "../support/exit.ts";
import { printable } from "../support/output.ts";
import { stopAsked } from "../support/signals.ts";

const demo: Command = {
  usage: "demo",
  about: "show the main job on this machine, with everything real",
  options: { "--keep": "keep it running afterwards, until Ctrl+C" },
  async run(given, io) {
    const begun = io.clock.monotonic();
    const narrator = new Narrator(io);
    // From the beginning: a signal while it is set up must not leave the folder behind either.
    const interrupted = stopAsked();
    let stage: Stage;
    try {
      stage = await openStage(io);
    } catch (error) {
      // Ctrl+C reaches the relay too, which then does not start.
      const asked = await Promise.race([interrupted, Promise.resolve()]);
      if (asked !== undefined) return asked;
      throw error;
    }
    let code: number | undefined;
    try {
      code = (await Promise.race([play(stage, narrator), interrupted])) ?? undefined;
      if (code !== undefined) return code;
      if (given.flag("keep")) {
        io.say(`\nIt goes on until Ctrl+C. Dashboard: ${stage.relayUrl}/developers`);
        code = await interrupted;
      }
    } catch (error) {
      narrator.check(`the demo goes on to its end: ${(error as Error).message}`, false);
      io.say(stage.output());
    } finally {
      const ended = await stage.close();
      // Ctrl+C reaches the relay too, which stops by itself.
      if (code === undefined) narrator.check(`the relay stops cleanly (exit code ${ended})`, ended === 0);
    }
    return narrator.end(((io.clock.monotonic() - begun) / 1_000).toFixed(1));
  },
};

/** Tells the story. Each `check` is a promise of the relay that must hold. */
async function play(stage: Stage, narrator: Narrator): Promise<void> {
  const { arrivals } = stage;
  narrator.say(`A relay at ${stage.relayUrl} keeps its data in a temporary folder.`);
  narrator.say(`A receiver at ${stage.receiverUrl} speaks TLS and checks every signature.`);
  narrator.say(`The dashboard is at ${stage.relayUrl}/developers while this runs.`);

  narrator.title("Three subscriptions of the key key_demo");
  const shop = await stage.subscribe("/shop", "deposit:paid", []);
  const books = await stage.subscribe("/books", "deposit:paid", [500]);
  const bank = await stage.subscribe("/bank", "withdraw:sent", [500, 500, 500, 500, 500]);
  for (const { path, type, id } of [shop, books, bank]) narrator.say(`${path.padEnd(8)}${type.padEnd(16)}${id}`);

  narrator.title("A deposit is published; /books is broken for a moment");
  const deposit = await stage.publish("deposit:paid", '{"amount":12.50,"currency":"EUR"}');
  narrator.say(`published  ${deposit.id}, stored (${deposit.durability}), ${deposit.deliveries} deliveries`);
  narrator.check("it was on disk before the answer came", deposit.durability === "fsync");
  narrator.check("two subscriptions want it", deposit.deliveries === 2);
  const paid = await arrivals.of(deposit.id, 3);
  for (const one of paid) narrator.arrival(one);
  const all = (promise: string, holds: (one: ReceivedDelivery) => boolean): void =>
    narrator.check(promise, paid.every(holds));
  all("every signature is right", (one) => one.verdict === "verified");
  all("a single changed byte would be noticed", (one) => !arrivals.stillVerifies(one));
  all("the data came byte for byte (12.50, not 12.5)", (one) => one.body.includes('"amount":12.50,'));
  const tries = paid.filter((one) => one.path === "/books").map((one) => `${one.attempt}:${one.status}`);
  narrator.check("/books got it at the second attempt", tries.join() === "1:500,2:200");
  narrator.check("the event reads as delivered", (await stage.settled(deposit.id)) === "delivered");

  narrator.title("A withdrawal is published; /bank stays broken");
  const withdrawal = await stage.publish("withdraw:sent", '{"amount":"90071992547409931"}');
  narrator.say(`published  ${withdrawal.id}, stored (${withdrawal.durability}), ${withdrawal.deliveries} delivery`);
  const lost = await arrivals.of(withdrawal.id, 5);
  for (const one of lost) narrator.arrival(one);
  const five = lost.length === 5 && lost.every((one) => one.status === 500);
  narrator.check("there were 5 attempts and no more", five);
  narrator.check("the event reads as failed, and is kept", (await stage.settled(withdrawal.id)) === "failed");

  narrator.title("/bank is mended; the withdrawal is replayed");
  const moved = await stage.replay(withdrawal.id);
  narrator.say(`replayed   ${withdrawal.id}, ${moved} delivery`);
  const again = (await arrivals.of(withdrawal.id, 6)).slice(5);
  for (const one of again) narrator.arrival(one);
  narrator.check("it arrived, signed, with the same id", again.length === 1 && again[0]?.verdict === "verified");
  narrator.check("the event reads as delivered", (await stage.settled(withdrawal.id)) === "delivered");
}

/** Prints the steps, and counts the promises that did not hold. */
class Narrator {
  readonly #io: CliEnvironment;
  #held = 0;
  #failed = 0;
  #chapter = 0;

  constructor(io: CliEnvironment) {
    this.#io = io;
  }

  say(text: string): void {
    this.#io.print(`   ${printable(text)}`);
  }

  title(text: string): void {
    this.#io.print(`\n${paint(this.#io.stdout, "bold", `${++this.#chapter}. ${text}`)}`);
  }

  check(promise: string, holds: boolean): void {
    if (holds) this.#held += 1;
    else this.#failed += 1;
    const mark = paint(this.#io.stdout, holds ? "green" : "red", holds ? "ok  " : "NOT ");
    this.#io.print(`   ${mark} ${printable(promise)}`);
  }

  arrival({ path, attempt, verdict, status, afterMs }: ReceivedDelivery): void {
    const head = `${"arrived".padEnd(9)}  ${path.padEnd(7)}  attempt ${attempt}`;
    this.say(`${head}  after ${String(afterMs).padStart(4)} ms  signature ${verdict}  answered ${status}`);
  }

  /** @returns the exit code */
  end(seconds: string): number {
    const [held, failed] = [this.#held, this.#failed];
    const text =
      failed === 0
        ? `All ${held} promises held, in ${seconds} s.`
        : `${failed} of ${held + failed} promises did not hold.`;
    this.#io.print(`\n${paint(this.#io.stdout, failed === 0 ? "green" : "red", text)}`);
    return failed === 0 ? EX_OK : EX_SOFTWARE;
  }
}

export const commands: readonly Command[] = [demo];
