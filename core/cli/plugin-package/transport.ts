/** The package of a transport: one line out, one line back, over TCP through the guard. */
export const TRANSPORT = {
  about:
    "It sends each delivery as one line of JSON to `NAME://host:port` and reads one line back: a status, and a text. Replace that by your protocol.",
  use: `
import { defineRelay, https } from "relaybox";
import { FACTORY } from "NAME";

export default defineRelay({ transports: [https(), FACTORY()], guard: { allow: ["10.0.0.5:9000"] } });
`,
  source: `
/** Sends each delivery as one line of JSON to NAME://host:port, and reads one line back: a status, a space, a text. */
import type { Socket } from "node:net";
import { ConnectError } from "relaybox";
import type { Plugin, PluginContext, Reply, Transport, TransportRequest } from "relaybox";
import { z } from "zod";

export interface Options {
  /** Whether the far side speaks TLS. @default true */
  readonly tls?: boolean;
}

const schema = z.strictObject({ tls: z.boolean().optional() });

/** Every problem of the options, with its path. */
function problemsOf(options: unknown): { path: string; message: string }[] {
  const { error } = schema.safeParse(options);
  return (error?.issues ?? []).map(({ path, message }) => ({ path: path.join("."), message }));
}

const EXCERPT = 4_096;
const LONGEST_LINE = EXCERPT + 64;

export function FACTORY(options: Options = {}): Plugin<"transport", Transport> {
  return {
    kind: "transport",
    name: "NAME",
    problems: problemsOf(options),
    setup: ({ clock, connect }) => ({
      schemes: ["NAME"],
      // The bytes are only read, so the relay need not copy them.
      keepsBody: true,
      // No problems(url): the guard judges host and port.
      send: (request, signal) => send(request, signal, { clock, connect, tls: options.tls ?? true }),
      dispose: () => Promise.resolve(),
    }),
  };
}

/** Whatever the far side does is a reply; only the signal's reason is thrown. */
async function send(
  { url, headers, body, timeoutMs }: TransportRequest,
  signal: AbortSignal,
  { clock, connect, tls }: Pick<PluginContext, "clock" | "connect"> & { readonly tls: boolean },
): Promise<Reply> {
  signal.throwIfAborted();
  // One deadline for everything: name, connection, TLS, request and answer.
  const over = new AbortController();
  const late = new Error(\`no answer within \${timeoutMs} ms\`);
  const both = AbortSignal.any([signal, over.signal]);
  const ended = new AbortController();
  clock.sleep(clock.now() + timeoutMs, ended.signal).then(
    () => over.abort(late),
    () => undefined,
  );
  let socket: Socket | undefined;
  try {
    const { hostname, port } = new URL(url);
    socket = await connect({ hostname, port: Number(port || 443), tls }, both);
    socket.write(\`\${JSON.stringify({ headers, body: Buffer.from(body).toString("base64") })}\\n\`);
    return read(await lineOf(socket, both));
  } catch (error) {
    signal.throwIfAborted();
    if (over.signal.aborted) return { kind: "error", error: "timeout", detail: late.message };
    if (error instanceof ConnectError) return { kind: "error", error: error.stage, detail: error.message };
    return { kind: "error", error: "reset", detail: String(error) };
  } finally {
    ended.abort();
    socket?.destroy();
  }
}

/** The first line that comes, or as much of it as is kept. */
async function lineOf(socket: Socket, signal: AbortSignal): Promise<Buffer> {
  const stop = (): void => void socket.destroy(new Error("given up"));
  signal.addEventListener("abort", stop, { once: true });
  try {
    signal.throwIfAborted();
    let bytes = Buffer.alloc(0);
    for await (const part of socket) {
      bytes = Buffer.concat([bytes, part as Buffer]);
      const end = bytes.indexOf(10);
      if (end >= 0) return bytes.subarray(0, end);
      if (bytes.length > LONGEST_LINE) return bytes;
    }
    throw new Error("the connection ended before an answer");
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

function read(line: Buffer): Reply {
  const [, status] = /^([1-5]\\d\\d)(?: |$)/.exec(line.subarray(0, 4).toString("latin1")) ?? [];
  if (status === undefined) return { kind: "error", error: "protocol", detail: "the answer has no status" };
  const text = line.subarray(4);
  return { kind: "response", status: Number(status), excerpt: text.subarray(0, EXCERPT), truncated: text.length > EXCERPT };
}
`,
  test: `
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { describeTransport, systemClock, testContext, type FarRequest, type FarSide } from "relaybox/conformance";
import { FACTORY } from "../src/index.ts";

/** A far side that answers each line as the test has set it to. */
async function farSide() {
  let does: FarSide = { do: "answer", status: 200 };
  const requests: FarRequest[] = [];
  const held: Socket[] = [];
  const sockets = new Set<Socket>();
  const waiting = new Set<() => void>();
  const timers = new Set<NodeJS.Timeout>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket)).on("error", () => undefined);
    let text = "";
    socket.setEncoding("utf8").on("data", (part: string) => {
      text += part;
      if (!text.endsWith("\\n")) return;
      const { headers, body } = JSON.parse(text) as { headers: Record<string, string>; body: string };
      requests.push({ headers, body: Buffer.from(body, "base64") });
      for (const look of waiting) look();
      answer(socket);
    });
  });
  function answer(socket: Socket): void {
    switch (does.do) {
      case "answer":
        return void socket.end(\`\${does.status} \${does.body ?? ""}\\n\`);
      case "garble":
        return void socket.end("what?\\n");
      case "cut":
        return void socket.destroy();
      case "drip":
        return void timers.add(setInterval(() => void socket.write("2"), 20));
      case "gather":
        held.push(socket);
        if (held.length >= does.count) for (const one of held.splice(0)) one.end("200 \\n");
        return;
      case "hang":
        return;
    }
  }
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    port,
    far: (next: FarSide) => void (does = next),
    arrived: (count: number) =>
      new Promise<readonly FarRequest[]>((resolve) => {
        const look = (): void => void (requests.length >= count && (waiting.delete(look), resolve(requests)));
        waiting.add(look);
        look();
      }),
    async close() {
      for (const timer of timers) clearInterval(timer);
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => void server.close(resolve));
    },
  };
}

describe("the law of the transport port", () => {
  describeTransport(it, {
    cannot: { headers: "the answer of this protocol has no headers" },
    async open() {
      const plugin = FACTORY({ tls: false });
      const ctx = await testContext(plugin, { clock: systemClock() });
      const transport = await plugin.setup(ctx);
      const far = await farSide();
      const closed = await farSide();
      await closed.close();
      return {
        transport,
        url: \`NAME://127.0.0.1:\${far.port}\`,
        nowhere: \`NAME://127.0.0.1:\${closed.port}\`,
        far: far.far,
        arrived: far.arrived,
        async [Symbol.asyncDispose]() {
          await transport.dispose();
          await far.close();
          await ctx[Symbol.asyncDispose]();
        },
      };
    },
  });
});

describe("NAME", () => {
  it("names what is wrong with its options", () => {
    expect(FACTORY({ tls: "yes" as never }).problems?.map(({ path }) => path)).toEqual(["tls"]);
  });
});
`,
} as const;
