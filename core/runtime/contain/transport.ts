/** The wall around a transport: it answers in time and with a reply, and what it is given is its own. */
import type { AttemptError } from "../../model/attempt.ts";
import { Problem } from "../../model/problem.ts";
import type { Reply, Transport, TransportRequest } from "../../ports/transport.ts";
import { checkPort, reasonOf, wallOf, type Walls } from "./wall.ts";
import type { PluginName } from "./incidents.ts";
import { thrownError } from "./thrown.ts";

/** Longest part of an answer that is kept, as the port says. */
const EXCERPT = 4_096;
const LONGEST_DETAIL = 500;
/** Longest wait for the judgement of a URL. */
const PROBLEMS_MS = 5_000;
const STAGES: ReadonlySet<unknown> = new Set<AttemptError>([
  ...(["dns", "guard", "connect", "tls", "timeout", "reset", "protocol", "token"] as const),
]);

/**
 * @param hide masks secrets in what people see
 * @throws StartError 78 when it is no transport
 */
export function containTransport(
  transport: Transport,
  plugin: PluginName,
  walls: Walls,
  hide: (text: string) => string,
): Transport {
  checkPort(transport, plugin, ["send", "dispose"]);
  const { schemes, keepsBody = false } = transport;
  if (!Array.isArray(schemes) || !schemes.every((one) => typeof one === "string"))
    checkPort({}, plugin, ["list of schemes"]);
  const { inside, note, tell, deadlines } = wallOf(plugin, walls);

  function read(given: Reply): Reply {
    try {
      return replyOf(given);
    } catch (thrown) {
      note("send", thrown);
      throw thrownError(thrown);
    }
  }

  /** @throws Error when it is no reply */
  function replyOf(reply: Reply): Reply {
    const { kind } = (reply ?? {}) as Partial<Reply>;
    if (kind === "response" && reply.kind === kind) {
      const { status, excerpt, retryAfter, hidden } = reply;
      if (!Number.isInteger(status) || status < 100 || status > 599 || !(excerpt instanceof Uint8Array))
        throw new Error("it answered with a response without a status or an excerpt");
      if (hidden !== undefined && !hidden.every((one) => typeof one === "string"))
        throw new Error("it answered with something to hide that is no text");
      if (excerpt.length <= EXCERPT && (retryAfter === undefined || typeof retryAfter === "string")) return reply;
      const cut = { excerpt: excerpt.subarray(0, EXCERPT), truncated: excerpt.length > EXCERPT };
      return { kind, status, ...cut, ...(hidden && { hidden }) };
    }
    if (kind === "error" && reply.kind === kind && STAGES.has(reply.error))
      return { kind, error: reply.error, detail: lineOf(reply.detail) };
    if (kind === "unavailable" && reply.kind === kind) return { kind, detail: lineOf(reply.detail) };
    throw new Error("it answered with something that is no reply");
  }

  const lineOf = (detail: unknown): string => hide(String(detail)).slice(0, LONGEST_DETAIL);

  return {
    ...declared(transport),
    schemes: [...schemes],
    ...(transport.problems && {
      async problems(url: string) {
        const said = await deadlines.bound(
          // Within an async function, so that what it throws at once is a rejection, too.
          inside(async () => transport.problems?.(url)),
          {
            ms: PROBLEMS_MS,
            late: () => {
              throw uncheckable(new Error(`no answer within ${PROBLEMS_MS} ms`));
            },
            failed: uncheckable,
          },
        );
        if (said === undefined || typeof said === "string") return said && hide(said);
        throw uncheckable(new Error("its answer is no text"));
      },
    }),
    async send(request, signal) {
      const { timeoutMs } = request;
      const given = keepsBody ? request : copyOf(request);
      let work: Promise<Reply>;
      try {
        work = inside(() => transport.send(given, signal));
      } catch (error) {
        note("send", error);
        throw thrownError(error);
      }
      const reply = await deadlines.bound<Reply>(work, {
        ms: timeoutMs,
        signal,
        late() {
          note("send", new Error(`no reply within ${timeoutMs} ms`));
          return { kind: "error", error: "timeout", detail: `the transport gave no reply within ${timeoutMs} ms` };
        },
        failed(error) {
          if (signal.aborted && error === signal.reason) return error;
          note("send", error);
          return thrownError(error);
        },
      });
      return read(reply);
    },
    forget: (id) => tell("forget", () => transport.forget?.(id)),
    ...(transport.readiness && { readiness: () => reasonOf(() => inside(() => transport.readiness?.())) }),
    dispose: async () => {
      await inside(() => transport.dispose());
    },
  };

  function uncheckable(error: unknown): Problem {
    note("problems", error);
    return new Problem("INTERNAL_ERROR", "The transport of this URL cannot check it now. Try again later.");
  }
}

/** What it says of itself, read once: everything but its methods. */
const declared = (transport: Transport): Partial<Transport> =>
  Object.fromEntries(Object.entries(transport).filter(([, value]) => typeof value !== "function"));

/** The body is shared with the other deliveries of its event, and nobody can freeze bytes. */
const copyOf = (request: TransportRequest): TransportRequest => ({ ...request, body: new Uint8Array(request.body) });
