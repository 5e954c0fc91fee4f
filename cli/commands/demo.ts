/** `relay demo`: shows the main job with a real relay: publish, sign, deliver, retry, fail, replay. */
import type { Command } from "../support/command.ts";
import { EX_OK, EX_SOFTWARE } from "../support/exit.ts";
import { openStage, type Stage } from "../local/demo-stage.ts";
import { createNarrator, type Narrator } from "../local/narrator.ts";

const demo: Command = {
  usage: "demo",
  about: "show the main job on this machine, with everything real",
  options: [{ flags: "--keep", about: "keep it running afterwards, until Ctrl+C" }],
  async run(given, io) {
    const begun = io.clock.monotonic();
    const teller = createNarrator(io);
    // From the beginning: a signal while it is set up must not leave the folder behind either.
    const interrupted = signalled();
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
      code = (await Promise.race([play(stage, teller), interrupted])) ?? undefined;
      if (code !== undefined) return code;
      if (given.flag("keep")) {
        io.say(`\nIt goes on until Ctrl+C. Dashboard: ${stage.relayUrl}/developers`);
        code = await interrupted;
      }
    } catch (error) {
      teller.check(`the demo goes on to its end: ${(error as Error).message}`, false);
      io.say(stage.log());
    } finally {
      const ended = await stage.close();
      // Ctrl+C reaches the relay too, which stops by itself.
      if (code === undefined) teller.check(`the relay stops cleanly (exit code ${ended})`, ended === 0);
    }
    teller.end(((io.clock.monotonic() - begun) / 1_000).toFixed(1));
    return teller.failures() === 0 ? EX_OK : EX_SOFTWARE;
  },
};

/** Resolves to the exit code of a signal when the demo is interrupted: the folder is removed then too. */
const signalled = (): Promise<number> =>
  new Promise((resolve) => void process.once("SIGINT", () => resolve(130)).once("SIGTERM", () => resolve(143)));

/** The story. Each `check` is a promise of the relay that must hold. */
async function play(stage: Stage, { say, title, check, arrival }: Narrator): Promise<void> {
  say(`A relay at ${stage.relayUrl} keeps its data in a temporary folder.`);
  say(`A receiver at ${stage.receiverUrl} speaks TLS and checks every signature.`);
  say(`The dashboard is at ${stage.relayUrl}/developers while this runs.`);

  title("Three subscriptions of the key key_demo");
  const shop = await stage.subscribe("/shop", "deposit:paid", []);
  const books = await stage.subscribe("/books", "deposit:paid", [500]);
  const bank = await stage.subscribe("/bank", "withdraw:sent", [500, 500, 500, 500, 500]);
  for (const one of [shop, books, bank]) say(`${one.path.padEnd(8)}${one.event.padEnd(16)}${one.id}`);

  title("A deposit is published; /books is broken for a moment");
  const deposit = await stage.publish("deposit:paid", '{"amount":12.50,"currency":"EUR"}');
  say(`published  ${deposit.id}, stored (${deposit.durability}), ${deposit.deliveries} deliveries`);
  check("it was on disk before the answer came", deposit.durability === "fsync");
  check("two subscriptions want it", deposit.deliveries === 2);
  const paid = await stage.arrivals(deposit.id, 3);
  for (const one of paid) arrival(one);
  check(
    "every signature is right",
    paid.every((one) => one.verdict === "verified"),
  );
  check(
    "a single changed byte would be noticed",
    paid.every((one) => !stage.stillVerifies(one)),
  );
  check(
    "the data came byte for byte (12.50, not 12.5)",
    paid.every((one) => one.body.includes('"amount":12.50,')),
  );
  const tries = paid.filter((one) => one.path === "/books").map((one) => `${one.attempt}:${one.status}`);
  check("/books got it at the second attempt", tries.join() === "1:500,2:200");
  check("the event reads as delivered", (await stage.settled(deposit.id)) === "delivered");

  title("A withdrawal is published; /bank stays broken");
  const withdrawal = await stage.publish("withdraw:sent", '{"amount":"90071992547409931"}');
  say(`published  ${withdrawal.id}, stored (${withdrawal.durability}), ${withdrawal.deliveries} delivery`);
  const lost = await stage.arrivals(withdrawal.id, 5);
  for (const one of lost) arrival(one);
  check("there were 5 attempts and no more", lost.length === 5 && lost.every((one) => one.status === 500));
  check("the event reads as failed, and is kept", (await stage.settled(withdrawal.id)) === "failed");

  title("/bank is mended; the withdrawal is replayed");
  const moved = await stage.replay(withdrawal.id);
  say(`replayed   ${withdrawal.id}, ${moved} delivery`);
  const again = (await stage.arrivals(withdrawal.id, 6)).slice(5);
  for (const one of again) arrival(one);
  check("it arrived, signed, with the same id", again.length === 1 && again[0]?.verdict === "verified");
  check("the event reads as delivered", (await stage.settled(withdrawal.id)) === "delivered");
}

export const commands: readonly Command[] = [demo];
