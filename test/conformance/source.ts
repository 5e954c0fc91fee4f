/** The law of a source: upstream hears "accepted" when the event is stored and not before, and nothing is lost on the way. */
import { expect } from "vitest";
import { Problem } from "../../core/model/problem.ts";
import type { Accept, AcceptRequest, Source } from "../../core/ports/source.ts";

/** The answers that upstream gets: it may forget the event; it must mend it; it is to be offered again. */
export type Upstream = "acknowledged" | "refused" | "later";

export interface SourceUnderTest extends AsyncDisposable {
  readonly source: Source;
  /**
   * Offers the text of one event, as upstream would, and resolves to what upstream learns of it. It may stay open while
   * the source says nothing.
   */
  publish(text: string): Promise<Upstream>;
}

export interface SourceHarness {
  /** A fresh source that was not started. */
  open(): Promise<SourceUnderTest>;
  /** Offers what was told "later" once more, if upstream has to; sources that come back by themselves may only be waited for. */
  again(under: SourceUnderTest, text: string): Promise<Upstream>;
  /**
   * The text that the source hands over for each event, where it makes that itself and takes none from upstream.
   * @default the published text
   */
  readonly makes?: string;
}

type It = (name: string, law: () => Promise<void>) => unknown;

const TEXT = '{ "type":"deposit:paid", "keyId":"key_1",\t"data":{"n":1.0,"é":"\\u00e9","big":12345678901234567890} }';

/** An intake of the test's own: what was handed in, and what it says to that. */
interface Desk {
  readonly accept: Accept;
  readonly requests: AcceptRequest[];
  /** Resolves when the source has handed in something. */
  readonly called: Promise<void>;
  answer: () => Promise<void> | void;
}

function desk(): Desk {
  const called = Promise.withResolvers<void>();
  const made: Desk = {
    requests: [],
    called: called.promise,
    answer: () => {},
    async accept(request) {
      made.requests.push(request);
      called.resolve();
      await made.answer();
      return request.publications.map((_, i) => ({
        id: `evt_${i}`,
        type: "deposit:paid",
        keyId: "key_1",
        createdAt: "2026-01-01T00:00:00.000Z",
        deliveries: 0,
        duplicate: false,
      }));
    },
  };
  return made;
}

/** Lets the event loop turn a few times: long enough for what is wrongly not waited for to show. */
async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => void setImmediate(resolve));
}

const info = { durability: "fsync" } as const;

/** Registers the laws with `it`. */
export function describeSource(it: It, harness: SourceHarness): void {
  const handed = harness.makes ?? TEXT;

  it("hands over each event byte for byte, and says which source it is", async () => {
    await using under = await harness.open();
    const intake = desk();
    await under.source.start(intake.accept, info);
    expect(await under.publish(TEXT)).toBe("acknowledged");
    expect(intake.requests.flatMap(({ publications }) => publications.map(({ text }) => text))).toEqual([handed]);
    expect(intake.requests[0]?.source).toMatch(/^[\w.@/:-]{1,100}$/);
  });

  it("acknowledges upstream only when the event is stored", async () => {
    await using under = await harness.open();
    const intake = desk();
    const gate = Promise.withResolvers<void>();
    intake.answer = () => gate.promise;
    await under.source.start(intake.accept, info);
    let learned: Upstream | undefined;
    const work = under.publish(TEXT).then((upstream) => (learned = upstream));
    await intake.called;
    await settle();
    expect(learned).toBeUndefined();
    gate.resolve();
    expect(await work).toBe("acknowledged");
  });

  it("tells upstream that an event is refused, and does not come back with it", async () => {
    await using under = await harness.open();
    const intake = desk();
    intake.answer = () => {
      throw new Problem("VALIDATION_FAILED", "no", { errors: [{ path: "type", message: "is missing" }] });
    };
    await under.source.start(intake.accept, info);
    expect(await under.publish(TEXT)).toBe("refused");
    await settle();
    expect(intake.requests).toHaveLength(1);
  });

  for (const code of ["STORAGE_FULL", "STORAGE_UNAVAILABLE", "PROVIDER_BACKPRESSURE"] as const) {
    it(`loses nothing while the answer is ${code}`, async () => {
      await using under = await harness.open();
      const intake = desk();
      intake.answer = () => {
        throw new Problem(code, "later", { retryAfter: 1 });
      };
      await under.source.start(intake.accept, info);
      expect(await under.publish(TEXT)).toBe("later");
      intake.answer = () => {};
      expect(await harness.again(under, TEXT)).toBe("acknowledged");
      const texts = intake.requests.map(({ publications }) => publications[0]?.text);
      expect(texts).toEqual([handed, handed]);
    });
  }

  it("takes an error that nobody foresaw for no acknowledgement", async () => {
    await using under = await harness.open();
    const intake = desk();
    intake.answer = () => {
      throw new Error("broken");
    };
    await under.source.start(intake.accept, info);
    expect(await under.publish(TEXT)).toBe("later");
  });

  it("stops only when what is under way has been acknowledged", async () => {
    await using under = await harness.open();
    const intake = desk();
    const gate = Promise.withResolvers<void>();
    intake.answer = () => gate.promise;
    await under.source.start(intake.accept, info);
    const work = under.publish(TEXT);
    await intake.called;
    let stopped = false;
    const stopping = under.source.stop().then(() => (stopped = true));
    await settle();
    expect(stopped).toBe(false);
    gate.resolve();
    expect(await work).toBe("acknowledged");
    await stopping;
  });

  it("takes nothing more in once it is stopped", async () => {
    await using under = await harness.open();
    const intake = desk();
    await under.source.start(intake.accept, info);
    await under.source.stop();
    // Upstream may be told "later", or nothing at all.
    const learned = await Promise.race([under.publish(TEXT), settle()]);
    expect(learned === undefined || learned === "later").toBe(true);
    expect(intake.requests).toEqual([]);
  });

  it("can be stopped twice, and before it was started", async () => {
    await using under = await harness.open();
    await under.source.stop();
    await under.source.stop();
    await using other = await harness.open();
    await other.source.start(desk().accept, info);
    await Promise.all([other.source.stop(), other.source.stop()]);
    await other.source.stop();
  });
}
