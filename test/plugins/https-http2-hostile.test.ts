/** A hostile HTTP/2 receiver does no more to the relay than one that speaks HTTP/1. */
import { describe, expect, it } from "vitest";
import type { Reply, TransportRequest } from "../../core/ports/transport.ts";
import {
  answer,
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  frame,
  GOAWAY,
  header,
  HEADERS,
  PADDED,
  PING,
  PRIORITY,
  PUSH_PROMISE,
  RST_STREAM,
  setting,
  SETTINGS,
  startFramePeer,
  status,
  uint32,
  WINDOW_UPDATE,
  type FramePeer,
  type FramePeerOptions,
  type Peer,
} from "../support/http2-frames.ts";
import { openHttps, type HttpsLine } from "../support/https.ts";

const MOST_READ = 8_000_000;
const GOAWAY_ALL = 0x7fff_ffff;

const facing = async (
  options: FramePeerOptions,
  act: (send: (over?: Partial<TransportRequest>) => Promise<Reply>, far: FramePeer, line: HttpsLine) => Promise<void>,
): Promise<void> => {
  await using far = await startFramePeer(options);
  await using line = await openHttps({ options: { http2: true } });
  await act((over) => line.send({ url: far.url, ...over }), far, line);
};

const head = (stream: number, code = 200): Buffer => frame(HEADERS, END_HEADERS, stream, status(code));
const refused = (stream: number, code: number): Buffer => frame(RST_STREAM, 0, stream, uint32(code));

describe("an answer that does not end is read no further than an HTTP/1 one", () => {
  const floods: readonly (readonly [string, (stream: number) => Buffer])[] = [
    ["PINGs", () => frame(PING, 0, 0, "12345678")],
    ["answered PINGs that nobody sent", () => frame(PING, 1, 0, "12345678")],
    ["SETTINGS", () => frame(SETTINGS, 0, 0, setting(4, 65_535))],
    ["empty SETTINGS", () => frame(SETTINGS, 0, 0)],
    ["window updates", () => frame(WINDOW_UPDATE, 0, 0, uint32(1))],
    ["window updates of its stream", (stream) => frame(WINDOW_UPDATE, 0, stream, uint32(1))],
    ["priorities", (stream) => frame(PRIORITY, 0, stream, Buffer.from([0, 0, 0, 0, 1]))],
    ["frames of a type that nobody knows", (stream) => frame(0xfa, 0, stream, "x".repeat(100))],
    ["resets of requests that are no more", () => refused(1, 8)],
  ];
  it.each(floods)("%s before the answer: an error of the connection, which is closed", async (_, one) => {
    const request = (peer: Peer, stream: number): void => peer.pour(Buffer.concat(Array(100).fill(one(stream))));
    await facing(
      { request: (peer, stream, i) => (i === 0 ? peer.send(answer(stream)) : request(peer, stream)) },
      async (send, far) => {
        expect(await send()).toMatchObject({ status: 200 });
        expect(await send()).toMatchObject({ kind: "error", error: "protocol" });
        await far.waitForClosed(1);
        expect(far.written()).toBeLessThan(MOST_READ);
      },
    );
  });

  const bodies: readonly (readonly [string, (stream: number) => Buffer])[] = [
    ["a body", (stream) => frame(DATA, 0, stream, "x".repeat(10_000))],
    ["a body of nothing", (stream) => frame(DATA, 0, stream)],
    [
      "a body of padding",
      (stream) => frame(DATA, PADDED, stream, Buffer.concat([Buffer.from([255]), Buffer.alloc(255)])),
    ],
    ["PINGs", () => frame(PING, 0, 0, "12345678")],
  ];
  it.each(bodies)("%s after its status: that is the answer", async (_, one) => {
    const request = (peer: Peer, stream: number): void => {
      peer.send(head(stream, 503));
      peer.pour(Buffer.concat(Array(10).fill(one(stream))));
    };
    await facing({ request, settings: setting(4, 65_535) }, async (send, far) => {
      expect(await send()).toMatchObject({ kind: "response", status: 503, truncated: true });
      await far.waitForClosed(1);
      expect(far.written()).toBeLessThan(MOST_READ);
    });
  });

  it.each([
    ["of an answer", (stream: number) => frame(HEADERS, 0, stream, status(200)), "protocol"],
    [
      "of the trailers",
      (stream: number) => Buffer.concat([head(stream), frame(HEADERS, END_STREAM, stream, "")]),
      undefined,
    ],
  ])("headers %s that are continued for ever", async (_, begin, error) => {
    const request = (peer: Peer, stream: number): void => {
      peer.send(begin(stream));
      peer.pour(frame(CONTINUATION, 0, stream, header("x", "y")));
    };
    await facing({ request }, async (send, far) => {
      const reply = await send();
      if (error === undefined) expect(reply).toMatchObject({ kind: "response", status: 200, truncated: true });
      else expect(reply).toMatchObject({ kind: "error", error });
      await far.waitForClosed(1);
      expect(far.written()).toBeLessThan(MOST_READ);
    });
  });

  it("empty continuations for ever", async () => {
    const request = (peer: Peer, stream: number): void => {
      peer.send(frame(HEADERS, 0, stream, status(200)));
      peer.pour(frame(CONTINUATION, 0, stream));
    };
    await facing({ request }, async (send, far) => {
      expect(await send()).toMatchObject({ kind: "error", error: "protocol" });
      await far.waitForClosed(1);
    });
  });

  it("informational answers for ever: no more than ten are taken", async () => {
    const request = (peer: Peer, stream: number): void => peer.pour(head(stream, 103));
    await facing({ request }, async (send, far) => {
      expect(await send()).toEqual({
        kind: "error",
        error: "protocol",
        detail: "more than 10 informational answers came before the response",
      });
      await far.waitForClosed(1);
    });
  });

  it("floods while nothing is asked: the connection is closed, and the next request has another", async () => {
    let flooding: (() => void) | undefined;
    const request = (peer: Peer, stream: number): void => {
      peer.send(answer(stream));
      if (peer.connection === 1) flooding = () => peer.pour(frame(PING, 0, 0, "12345678"));
    };
    await facing({ request }, async (send, far) => {
      expect(await send()).toMatchObject({ status: 200 });
      flooding?.();
      await far.waitForClosed(1);
      expect(await send()).toMatchObject({ status: 200 });
      expect(far.connections()).toBe(2);
    });
  });
});

describe("header bombs", () => {
  it("a list that grows from a few bytes: protocol, and the memory stays", async () => {
    // An entry of 4 KB in the table, then 16,000 references to it: 64 MB of headers.
    const entry = Buffer.concat([Buffer.from([0x40, 1, 0x78, 0x7f, 0xa1, 0x1e]), Buffer.alloc(4_000, "y")]);
    const block = Buffer.concat([status(200), entry, Buffer.alloc(12_000, 0xbe)]);
    const request = (peer: Peer, stream: number): void =>
      peer.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, block));
    await facing({ request }, async (send) => {
      const before = process.memoryUsage().rss;
      for (let i = 0; i < 20; i++) expect(await send()).toMatchObject({ kind: "error", error: "protocol" });
      expect(process.memoryUsage().rss - before).toBeLessThan(100_000_000);
    });
  });

  it("more headers than HTTP/1 may have: protocol", async () => {
    const block = Buffer.concat([status(200), ...Array.from({ length: 600 }, (_, i) => header(`x${i}`, "y"))]);
    const request = (peer: Peer, stream: number): void =>
      peer.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, block));
    await facing({ request }, async (send) => {
      expect(await send()).toMatchObject({ kind: "error", error: "protocol" });
    });
  });
});

describe("what HTTP/2 forbids", () => {
  it.each([
    ["a push", (stream: number) => frame(PUSH_PROMISE, END_HEADERS, stream, Buffer.concat([uint32(2), status(200)]))],
    ["HTTP/1", () => Buffer.from("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")],
    ["a body before the headers", (stream: number) => frame(DATA, END_STREAM, stream, "x")],
    ["a frame that is too long", (stream: number) => frame(DATA, 0, stream, "x".repeat(20_000))],
    ["an answer on a stream that nobody opened", () => answer(99)],
    [
      "an answer without a status",
      (stream: number) => frame(HEADERS, END_HEADERS | END_STREAM, stream, header("x", "y")),
    ],
    ["a status of 000", (stream: number) => frame(HEADERS, END_HEADERS | END_STREAM, stream, "\x08\x03000")],
    ["a status of 099", (stream: number) => frame(HEADERS, END_HEADERS | END_STREAM, stream, "\x08\x03099")],
    ["a switch of protocols", (stream: number) => head(stream, 101)],
    ["an informational answer as the last", (stream: number) => answer(stream, 103)],
    ["two statuses", (stream: number) => frame(HEADERS, 5, stream, Buffer.concat([status(200), status(200)]))],
    ["headers that cannot be decoded", (stream: number) => frame(HEADERS, 5, stream, Buffer.alloc(10, 0xff))],
    ["a window beyond all bounds", () => frame(WINDOW_UPDATE, 0, 0, uint32(0x7fff_ffff))],
  ])("%s: protocol", async (_, bytes) => {
    await facing({ request: (peer, stream) => peer.send(bytes(stream)) }, async (send) => {
      expect(await send()).toMatchObject({ kind: "error", error: "protocol" });
    });
  });

  it("is an end to the other requests of the connection, not to the relay", async () => {
    const held: number[] = [];
    const request = (peer: Peer, stream: number): void => {
      held.push(stream);
      if (held.length === 3) peer.send(Buffer.from("nonsense, as long as a frame's head"));
    };
    await facing({ request }, async (send) => {
      for (const reply of await Promise.all([send(), send(), send()]))
        expect(reply).toMatchObject({ error: "protocol" });
    });
  });
});

describe("a receiver that holds a request up", () => {
  it("with a window of nothing: timeout", async () => {
    await facing({ settings: setting(4, 0), request: () => undefined }, async (send) => {
      expect(await send({ timeoutMs: 1_500 })).toEqual({
        kind: "error",
        error: "timeout",
        detail: "no complete response headers within 1500 ms",
      });
    });
  });

  it("with an answer before it has read the request: that is the answer", async () => {
    const begun = (peer: Peer, stream: number): void => peer.send(answer(stream, 413));
    await facing({ settings: setting(4, 0), request: () => undefined, begun }, async (send) => {
      expect(await send()).toMatchObject({ kind: "response", status: 413 });
    });
  });

  it("with no requests allowed at all: timeout", async () => {
    await facing({ settings: setting(3, 0), request: () => undefined }, async (send) => {
      expect(await send({ timeoutMs: 1_500 })).toMatchObject({ kind: "error", error: "timeout" });
    });
  });

  it("once: the next request has another connection, and the others of the first go on", async () => {
    const first = Promise.withResolvers<() => void>();
    const request = (peer: Peer, stream: number, index: number): void => {
      if (index === 0) first.resolve(() => peer.send(answer(stream, 201)));
      else if (index > 1) peer.send(answer(stream, 202));
    };
    await facing({ request }, async (send, far) => {
      const slow = send({ timeoutMs: 20_000 });
      const answers = await first.promise;
      expect(await send({ timeoutMs: 300 })).toMatchObject({ error: "timeout" });
      expect(await send()).toMatchObject({ status: 202 });
      answers();
      expect(await slow).toMatchObject({ status: 201 });
      expect(far.requests.map(({ connection }) => connection)).toEqual([1, 1, 2]);
      await far.waitForClosed(1);
    });
  });
});

describe("a request that the receiver has not processed is sent again, and it is no attempt", () => {
  it.each([
    ["REFUSED_STREAM", (peer: Peer, stream: number) => peer.send(refused(stream, 7))],
    ["a GOAWAY of requests before it", (peer: Peer) => peer.send(frame(GOAWAY, 0, 0, uint32(0, 0)))],
    ["a GOAWAY with an error", (peer: Peer) => peer.send(frame(GOAWAY, 0, 0, uint32(0, 11)))],
    [
      "a GOAWAY, and the end of the connection",
      (peer: Peer) => {
        peer.send(frame(GOAWAY, 0, 0, uint32(0, 0)));
        peer.end();
      },
    ],
  ])("%s", async (_, refuse) => {
    const request = (peer: Peer, stream: number): void => {
      if (peer.connection === 1) refuse(peer, stream);
      else peer.send(answer(stream, 201));
    };
    await facing({ request }, async (send, far) => {
      expect(await send()).toMatchObject({ kind: "response", status: 201 });
      expect(far.requests.map(({ connection }) => connection)).toEqual([1, 2]);
    });
  });

  it("but not for ever", async () => {
    await facing({ request: (peer, stream) => peer.send(refused(stream, 7)) }, async (send, far) => {
      expect(await send()).toMatchObject({ kind: "error", error: "reset" });
      expect(far.requests.length).toBeLessThanOrEqual(3);
    });
  });

  it("one that it may have processed is not", async () => {
    const ends = [
      (peer: Peer, stream: number) => peer.send(refused(stream, 2)),
      (peer: Peer, stream: number) => peer.send(refused(stream, 8)),
      (peer: Peer, stream: number) => peer.send(frame(GOAWAY, 0, 0, uint32(stream, 2))),
      (peer: Peer) => peer.end(),
    ];
    await facing({ request: (peer, stream, index) => ends[index]?.(peer, stream) }, async (send, far) => {
      for (let i = 0; i < ends.length; i++)
        expect(await send()).toEqual({
          kind: "error",
          error: "reset",
          detail: "the connection was closed before a complete response",
        });
      expect(far.requests).toHaveLength(ends.length);
    });
  });

  it("a GOAWAY that allows it lets it end, and the next request has another connection", async () => {
    const request = (peer: Peer, stream: number): void =>
      peer.send(frame(GOAWAY, 0, 0, uint32(GOAWAY_ALL, 0)), answer(stream, 201));
    await facing({ request }, async (send, far) => {
      expect(await send()).toMatchObject({ status: 201 });
      expect(await send()).toMatchObject({ status: 201 });
      expect(far.requests.map(({ connection }) => connection)).toEqual([1, 2]);
    });
  });
});

it("an answer in one piece with a body beyond the bound is an answer", async () => {
  const request = (peer: Peer, stream: number): void =>
    peer.send(
      head(stream),
      ...Array.from({ length: 3 }, () => frame(DATA, 0, stream, "x".repeat(16_384))),
      frame(DATA, END_STREAM, stream, "x".repeat(16_383)),
    );
  await facing({ request }, async (send) => {
    for (let i = 0; i < 5; i++) expect(await send()).toMatchObject({ kind: "response", status: 200, truncated: true });
  });
});

it("a receiver that ends the connection and reads no more of a long request: reset, at once", async () => {
  const begun = (peer: Peer): void => {
    peer.stall();
    peer.send(frame(WINDOW_UPDATE, 0, 0, uint32(100_000_000)));
    peer.end();
  };
  await facing({ settings: setting(4, 100_000_000), request: () => undefined, begun }, async (send) => {
    const body = Buffer.alloc(32_000_000);
    expect(await send({ body, timeoutMs: 8_000 })).toMatchObject({ kind: "error", error: "reset" });
  });
});

it("frames of any kind in any order, and ends at any time, are replies: nothing else comes of them", async () => {
  let seed = 1;
  const random = (below: number): number => {
    seed = (seed * 48_271) % 0x7fff_ffff;
    return seed % below;
  };
  const junk = (): Buffer =>
    frame(
      random(11),
      random(256),
      random(2) * (1 + 2 * random(20)),
      Buffer.from(Array.from({ length: random(60) }, () => random(256))),
    );
  const acts = [
    (peer: Peer, stream: number) => peer.send(answer(stream)),
    (peer: Peer) => peer.send(junk()),
    (peer: Peer, stream: number) => peer.send(head(stream), frame(DATA, 0, stream, "x"), junk()),
    (peer: Peer) => peer.end(),
    (peer: Peer) => peer.send(frame(GOAWAY, 0, 0, uint32(random(30), random(14)))),
    (peer: Peer, stream: number) => peer.send(refused(stream, random(14))),
    () => undefined,
  ];
  const request = (peer: Peer, stream: number): void => acts[random(acts.length)]?.(peer, stream);
  await facing({ request }, async (_, far, line) => {
    let sent = 0;
    const some = async (): Promise<void> => {
      while (sent++ < 600) {
        const control = new AbortController();
        const body = Buffer.alloc(random(3_000));
        const sending = line.send(
          { url: far.url, subscriptionId: `sub_${random(3)}`, timeoutMs: 100 + random(200), body },
          control.signal,
        );
        if (random(4) === 0) setTimeout(() => control.abort(new Error("gone")), random(20));
        const outcome = await sending.catch((error: Error) => ({ kind: error.message }));
        expect(["response", "error", "gone"]).toContain(outcome.kind);
      }
    };
    await Promise.all(Array.from({ length: 12 }, some));
  });
});
