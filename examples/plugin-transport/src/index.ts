/** Sends each delivery as one line of JSON to my-transport://host:port, and reads one line back: a status, a space, a text. */
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

export function myTransport(options: Options = {}): Plugin<"transport", Transport> {
  return {
    kind: "transport",
    name: "my-transport",
    problems: problemsOf(options),
    setup: ({ clock, connect }) => ({
      schemes: ["my-transport"],
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
  const late = new Error(`no answer within ${timeoutMs} ms`);
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
    socket.write(`${JSON.stringify({ headers, body: Buffer.from(body).toString("base64") })}\n`);
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
  const [, status] = /^([1-5]\d\d)(?: |$)/.exec(line.subarray(0, 4).toString("latin1")) ?? [];
  if (status === undefined) return { kind: "error", error: "protocol", detail: "the answer has no status" };
  const text = line.subarray(4);
  return {
    kind: "response",
    status: Number(status),
    excerpt: text.subarray(0, EXCERPT),
    truncated: text.length > EXCERPT,
  };
}
