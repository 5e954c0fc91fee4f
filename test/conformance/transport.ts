/** The law of the transport port: what every transport must do, whatever it speaks. */
import { expect } from "vitest";
import type { Reply, Transport, TransportRequest } from "../../core/ports/transport.ts";

/**
 * The abilities that a far side may lack. `headers`: what came with the body can be read, and a wish for a pause can be sent
 * back. `status`: it answers with statuses and bodies of its own; a bus confirms or refuses, and has neither.
 */
export type Ability = FarSide["do"] | "headers" | "status";

/** The answer of the far side to every request from now on. */
export type FarSide =
  | { readonly do: "answer"; readonly status: number; readonly body?: string; readonly retryAfter?: string }
  /** Takes the request and says nothing more. */
  | { readonly do: "hang" }
  /** Answers as long as it is let, a little at a time, and never comes to an end. */
  | { readonly do: "drip" }
  /** Answers with what its protocol forbids. */
  | { readonly do: "garble" }
  /** Takes the request and ends the connection. */
  | { readonly do: "cut" }
  /** Holds every request until `count` are there, then answers them all with 200. */
  | { readonly do: "gather"; readonly count: number };

export interface FarRequest {
  readonly body: Uint8Array;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

export interface TransportBench extends AsyncDisposable {
  readonly transport: Transport;
  /** Where the far side listens. */
  readonly url: string;
  /** Where nobody listens. */
  readonly nowhere: string;
  far(does: FarSide): void;
  /** Resolves to what has arrived once `count` requests have. */
  arrived(count: number): Promise<readonly FarRequest[]>;
}

export interface TransportHarness {
  /** A transport, set up, and a far side for it. Its disposal disposes the transport as well. */
  open(): Promise<TransportBench>;
  /** Laws that cannot be tried here, with the reason. */
  readonly cannot?: Partial<Record<Ability, string>>;
}

type Register = (name: string, law: () => Promise<void>) => unknown;

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);
/** Each send is a message of its own: a bus drops those that it had before. */
let sends = 0;
/** Far beyond the time-outs of a few hundred ms that the laws give, as a machine may be slow; before a default of 30 s ends it. */
const IN_TIME_MS = 20_000;
const never = (): AbortSignal => new AbortController().signal;

/** Registers the laws with `it`. Those that the harness cannot try are registered with `it.skip` and the reason. */
export function describeTransport(it: Register & { readonly skip: Register }, harness: TransportHarness): void {
  const law = (
    name: string,
    needs: readonly Ability[],
    check: (bench: TransportBench, send: Send) => Promise<void>,
  ): void => {
    const reason = needs.flatMap((need) => harness.cannot?.[need] ?? [])[0];
    const run = async (): Promise<void> => {
      await using bench = await harness.open();
      await check(bench, (over = {}, signal = never()) =>
        bench.transport.send(
          {
            url: bench.url,
            headers: {},
            body: encode("{}"),
            timeoutMs: 10_000,
            subscriptionId: "sub_law",
            keyId: "key_law",
            messageId: `dlv_law_${++sends}_0`,
            ...over,
          },
          signal,
        ),
      );
    };
    if (reason === undefined) it(name, run);
    else it.skip(`${name} (skipped: ${reason})`, run);
  };

  law("it names its schemes in lower case, without a colon", [], async ({ transport, url }) => {
    expect(transport.schemes.length).toBeGreaterThan(0);
    for (const scheme of transport.schemes) expect(scheme).toMatch(/^[a-z][a-z0-9+.-]*$/);
    expect(transport.schemes).toContain(new URL(url).protocol.slice(0, -1));
  });

  law("it takes the URL that it serves, and is the connection that the URL names", [], async ({ transport, url }) => {
    expect(await transport.problems?.(url)).toBeUndefined();
    if (transport.name !== undefined) expect(new URL(url).hostname).toBe(transport.name);
  });

  law("it is ready once it is set up and answered", ["answer"], async (bench, send) => {
    bench.far({ do: "answer", status: 200 });
    await send();
    expect(bench.transport.readiness?.()).toBeUndefined();
  });

  law("the body arrives byte for byte, once", ["answer"], async (bench, send) => {
    bench.far({ do: "answer", status: 200 });
    const bytes = Uint8Array.from({ length: 256 * 40 }, (_, index) => index % 256);
    expect(await send({ body: bytes })).toMatchObject({ kind: "response", status: 200 });
    const requests = await bench.arrived(1);
    expect(requests).toHaveLength(1);
    expect(Buffer.compare(requests[0]?.body ?? new Uint8Array(), bytes)).toBe(0);
    // The bytes are shared with other deliveries.
    expect(bytes.every((byte, index) => byte === index % 256)).toBe(true);
  });

  law("the headers arrive as they were given", ["answer", "headers"], async (bench, send) => {
    bench.far({ do: "answer", status: 200 });
    const headers = { "content-type": "application/json", "webhook-id": "evt_1", "x-relay-event": "deposit:paid" };
    await send({ headers });
    expect((await bench.arrived(1))[0]?.headers).toMatchObject(headers);
  });

  law("what the far side says is a reply, whatever it says", ["answer", "status"], async (bench, send) => {
    for (const status of [200, 204, 301, 400, 404, 410, 429, 500, 503]) {
      bench.far({ do: "answer", status });
      expect(await send()).toMatchObject({ kind: "response", status });
    }
    expect(await bench.arrived(9)).toHaveLength(9);
  });

  law("Retry-After is told as it came", ["answer", "status", "headers"], async (bench, send) => {
    bench.far({ do: "answer", status: 429, retryAfter: "17" });
    expect(await send()).toMatchObject({ status: 429, retryAfter: "17" });
    bench.far({ do: "answer", status: 503 });
    expect((await send()) satisfies Reply).not.toMatchObject({ retryAfter: expect.anything() as unknown });
  });

  law("a short answer is kept whole", ["answer", "status"], async (bench, send) => {
    bench.far({ do: "answer", status: 400, body: "no such hook: é" });
    const reply = await send();
    expect(reply).toMatchObject({ kind: "response", status: 400, truncated: false });
    if (reply.kind === "response") expect(new TextDecoder().decode(reply.excerpt)).toBe("no such hook: é");
  });

  law("of a long answer the first 4 KiB are kept", ["answer", "status"], async (bench, send) => {
    const body = "0123456789abcdef".repeat(65_536);
    bench.far({ do: "answer", status: 200, body });
    const reply = await send();
    expect(reply).toMatchObject({ kind: "response", status: 200, truncated: true });
    if (reply.kind === "response") expect(new TextDecoder().decode(reply.excerpt)).toBe(body.slice(0, 4096));
  });

  law("what the protocol forbids is a reply like any other, never a fault of ours", ["garble"], async (bench, send) => {
    bench.far({ do: "garble" });
    expect(await send()).toMatchObject({ kind: "error", error: "protocol" });
  });

  law("a far side that says nothing is a timeout, in time", ["hang"], async (bench, send) => {
    bench.far({ do: "hang" });
    const began = performance.now();
    expect(await send({ timeoutMs: 200 })).toMatchObject({ kind: "error", error: "timeout" });
    const took = performance.now() - began;
    expect(took).toBeGreaterThanOrEqual(195);
    expect(took).toBeLessThan(IN_TIME_MS);
  });

  law("an answer without an end is cut off in time", ["drip"], async (bench, send) => {
    bench.far({ do: "drip" });
    const began = performance.now();
    await send({ timeoutMs: 300 });
    expect(performance.now() - began).toBeLessThan(IN_TIME_MS);
  });

  law(
    "a connection that is cut is a reply, and nothing is sent a second time",
    ["answer", "cut"],
    async (bench, send) => {
      bench.far({ do: "answer", status: 200 });
      await send();
      bench.far({ do: "cut" });
      const reply = await send();
      expect(reply.kind).toBe("error");
      if (reply.kind === "error") expect(reply.detail).not.toBe("");
      bench.far({ do: "answer", status: 200 });
      expect(await send()).toMatchObject({ kind: "response", status: 200 });
      expect(await bench.arrived(3)).toHaveLength(3);
    },
  );

  law("a far side that is not there is a reply", [], async (bench, send) => {
    const reply = await send({ url: bench.nowhere });
    // A connection that the config names may be away as a whole.
    expect(bench.transport.name === undefined ? ["error"] : ["error", "unavailable"]).toContain(reply.kind);
  });

  law("a caller who gave up before gets the signal's reason, and nothing is sent", ["answer"], async (bench, send) => {
    bench.far({ do: "answer", status: 200 });
    const reason = new Error("deleted");
    await expect(send({}, AbortSignal.abort(reason))).rejects.toBe(reason);
    await send();
    expect(await bench.arrived(1)).toHaveLength(1);
  });

  law("a caller who gives up meanwhile gets the signal's reason at once", ["hang"], async (bench, send) => {
    bench.far({ do: "hang" });
    const reason = new Error("deleted");
    const control = new AbortController();
    const sending = send({}, control.signal);
    await bench.arrived(1);
    control.abort(reason);
    await expect(sending).rejects.toBe(reason);
  });

  law("one that gives up leaves the others alone", ["hang", "answer"], async (bench, send) => {
    bench.far({ do: "hang" });
    const control = new AbortController();
    const sending = send({}, control.signal);
    await bench.arrived(1);
    bench.far({ do: "answer", status: 200 });
    const other = send();
    control.abort(new Error("deleted"));
    await expect(sending).rejects.toThrow("deleted");
    expect(await other).toMatchObject({ kind: "response", status: 200 });
  });

  law("sixteen attempts of one subscription are under way at once", ["gather"], async (bench, send) => {
    bench.far({ do: "gather", count: 16 });
    const replies = await Promise.all(Array.from({ length: 16 }, () => send()));
    for (const reply of replies) expect(reply).toMatchObject({ kind: "response", status: 200 });
  });

  law("a forgotten subscription can be sent to again", ["answer"], async (bench, send) => {
    bench.far({ do: "answer", status: 200 });
    await send();
    bench.transport.forget?.("sub_law");
    bench.transport.forget?.("sub_never_seen");
    expect(await send()).toMatchObject({ kind: "response", status: 200 });
  });

  law("it may be disposed twice", ["answer"], async (bench, send) => {
    bench.far({ do: "answer", status: 200 });
    await send();
    await bench.transport.dispose();
    await bench.transport.dispose();
  });
}

type Send = (over?: Partial<TransportRequest>, signal?: AbortSignal) => Promise<Reply>;
