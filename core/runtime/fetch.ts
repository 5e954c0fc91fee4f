/** Fetches control traffic (JWKS, probes): ofetch over the guarded connector, without redirects and proxy variables. */
import { openedLate } from "../lib/opened-late.ts";
import type { Connect, FetchOptions, FetchReply, PluginContext } from "../ports/plugin.ts";

const TIMEOUT_MS = 10_000;
const MAX_BYTES = 65_536;

/** @throws the connector's ConnectError, a TimeoutError, or an Error when the answer is longer than allowed */
export function createFetch(connect: Connect): { readonly fetch: PluginContext["fetch"]; dispose(): Promise<void> } {
  // Loaded at the first call, as most relays have no control traffic.
  async function open(): Promise<Opened> {
    const [{ createFetch }, undici] = await Promise.all([import("ofetch"), import("undici")]);
    const agent = new undici.Agent({
      connect: (options, done) => {
        const port = Number(options.port) || (options.protocol === "https:" ? 443 : 80);
        connect(
          { hostname: options.hostname, port, tls: options.protocol === "https:" },
          AbortSignal.timeout(TIMEOUT_MS),
        ).then(
          (socket) => done(null, socket),
          (error: Error) => done(error, null),
        );
      },
    });
    const guarded = (input: unknown, init?: object) =>
      undici.fetch(input as string, { ...init, dispatcher: agent, redirect: "error" });
    return { call: createFetch({ fetch: guarded as unknown as typeof globalThis.fetch }), close: () => agent.close() };
  }

  const opened = openedLate(open, (one) => one.close());
  return {
    fetch: async (url, options = {}) => read(await opened.use(), url, options),
    dispose: opened.close,
  };
}

interface Opened {
  readonly call: ReturnType<typeof import("ofetch").createFetch>;
  close(): Promise<void>;
}

async function read({ call }: Opened, url: string, options: FetchOptions): Promise<FetchReply> {
  const { method, headers, body, timeoutMs = TIMEOUT_MS, maxBytes = MAX_BYTES } = options;
  const deadline = AbortSignal.timeout(timeoutMs);
  const response = await call.raw(url, {
    method,
    headers: { ...headers },
    body,
    retry: 0,
    ignoreResponseError: true,
    responseType: "stream",
    signal: options.signal === undefined ? deadline : AbortSignal.any([deadline, options.signal]),
  });
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    length += chunk.length;
    if (length > maxBytes) throw new Error(`the answer of ${new URL(url).host} is longer than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return {
    status: response.status,
    headers: Object.fromEntries(response.headers),
    text: Buffer.concat(chunks).toString("utf8"),
  };
}
