/**
 * The client of a relay's API: a method for each operation of `/openapi.json`, under its operation id, typed by that document.
 *
 * ```ts
 * const relay = createClient({ url: "http://127.0.0.1:8080", token, publishToken });
 * await relay.createSubscription({ keyId: "key_1", body: { url, events: ["deposit:*"] } });
 * await relay.publish({ type: "deposit:paid", keyId: "key_1", data: { amount: "12.50" } });
 * for await (const event of relay.listEvents({ keyId: "key_1", status: "failed" })) console.log(event.id);
 * ```
 */
import { type components, OPERATIONS, type operations } from "./generated.ts";
import { type Answer, type ClientOptions, Http } from "./http.ts";

export type { components, operations, paths, ProblemCode, webhooks } from "./generated.ts";
export type { Answer, ClientOptions, Token } from "./http.ts";
export { type FieldProblem, ForeignAnswer, NoAnswer, RelayProblem } from "./problem.ts";

/** The schemas of the document by their names: `Schemas["Subscription"]`. */
export type Schemas = components["schemas"];

type Values<T> = T[keyof T];
type Given<T> = T extends object ? T : unknown;
/** Parameters of path and query, and the body. */
type Parameters<O> = O extends { parameters: { path?: infer Path; query?: infer Query } }
  ? Given<Path> & Given<Query>
  : unknown;
type Body<O> = O extends { requestBody: { content: infer Content } }
  ? { readonly body: Values<Content> }
  : O extends { requestBody?: { content: infer Content } }
    ? { readonly body?: Values<Content> }
    : unknown;
type Asked<O> = Parameters<O> & Body<O> & { readonly signal?: AbortSignal };
type Success<O> = O extends { responses: infer Responses }
  ? Values<Pick<Responses, keyof Responses & (200 | 201 | 202)>>
  : never;
type Content<O> = Success<O> extends { content: infer Types } ? Types : Record<never, never>;
/** The envelope, `{ data, meta }`; a stream of bytes; or nothing, of a 204. */
export type Answered<Id extends keyof operations> =
  Content<operations[Id]> extends { "application/json": infer Json }
    ? Json
    : [Success<operations[Id]>] extends [never]
      ? void
      : ReadableStream<Uint8Array>;

/** A list. Awaited, it is its first page; iterated, it is all items of all pages, each page asked for when it is needed. */
export interface Pages<Page extends { readonly data: readonly unknown[] }>
  extends Promise<Page>, AsyncIterable<Page["data"][number]> {}

type Result<Id extends keyof operations> = Id extends `list${string}`
  ? Answered<Id> extends { data: readonly unknown[] }
    ? Pages<Answered<Id>>
    : never
  : Promise<Answered<Id>>;
type Method<Id extends keyof operations> = (
  ...asked: Record<never, never> extends Asked<operations[Id]> ? [Asked<operations[Id]>?] : [Asked<operations[Id]>]
) => Result<Id>;

interface PublishOptions {
  /** Names the request: sent again, it is answered as the first time. @default a new one for each call */
  readonly idempotencyKey?: string;
  /** W3C trace context, sent along with the deliveries. */
  readonly traceparent?: string;
  readonly signal?: AbortSignal;
}
/** With what a 202 is worth: see `Relay-Durability`. */
type Published<Data> = Promise<{ readonly data: Data; readonly durability?: "fsync" | "replicated" | "volatile" }>;

/** Every method rejects with RelayProblem, NoAnswer or ForeignAnswer. */
export type Client = { readonly [Id in keyof typeof OPERATIONS]: Method<Id> } & {
  /**
   * Publishes an event, or a list of them: all or none. Resolves when they are stored. As the request has an Idempotency-Key, it
   * is repeated after 503 and when no answer came. Give events ids of your own to be safe across restarts as well.
   * @param events a text is sent as it is, byte for byte
   */
  publish(event: Schemas["Publication"], options?: PublishOptions): Published<Schemas["Accepted"]>;
  publish(
    events: readonly Schemas["Publication"][],
    options?: PublishOptions,
  ): Published<readonly Schemas["Accepted"][]>;
  publish(text: string, options?: PublishOptions): Published<Schemas["Accepted"] | readonly Schemas["Accepted"][]>;
  /** Asks for any other path, such as a plug-in's, with the access token. @param path with its query */
  request(method: string, path: string, body?: unknown): Promise<Answer>;
};

export function createClient(options: ClientOptions): Client {
  const http = new Http(options);
  const methods = Object.entries(OPERATIONS).map(([id, route]) => [
    id,
    (asked: Input = {}) => (id.startsWith("list") ? pages(http, route, asked) : call(http, route, asked)),
  ]);
  return {
    ...Object.fromEntries(methods),
    publish: (events: unknown, given?: PublishOptions) => publish(http, events, given),
    request: (method: string, path: string, body?: unknown) => http.ask(method, path, { text: textOf(body) }),
  } as Client;
}

type Input = Readonly<Record<string, unknown>> & { readonly body?: unknown; readonly signal?: AbortSignal };
type Page = { readonly data: readonly unknown[]; readonly meta: { readonly nextCursor?: string } };

const textOf = (body: unknown): string | undefined => (body === undefined ? undefined : JSON.stringify(body));

/** @param route `GET /api-keys/{keyId}/stream text/event-stream`: method, path, and the type of a stream */
async function call(http: Http, route: string, { body, signal, ...given }: Input): Promise<unknown> {
  const [method = "", path = "", type] = route.split(" ");
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given))
    if (value !== undefined && !path.includes(`{${name}}`)) query.set(name, String(value as string | number));
  const asked = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => segment(name, given[name]));
  const target = query.size === 0 ? asked : `${asked}?${query}`;
  if (type !== undefined) return http.follow(target, type, { signal });
  const { data, meta } = await http.data(method, target, { text: textOf(body), signal });
  return data === undefined ? undefined : { data, meta };
}

/** @throws TypeError for what no path can have as one segment: it would ask for another path */
function segment(name: string, value: unknown): string {
  if (typeof value === "string" && !["", ".", ".."].includes(value)) return encodeURIComponent(value);
  throw new TypeError(`${name} is no id or name: ${JSON.stringify(value)}`);
}

function pages(http: Http, route: string, asked: Input): Pages<Page> {
  const page = async (more: Input): Promise<Page> => (await call(http, route, { ...asked, ...more })) as Page;
  const first = page({});
  return Object.assign(first, {
    async *[Symbol.asyncIterator]() {
      for (let next = first; ;) {
        const { data, meta } = await next;
        yield* data;
        if (meta.nextCursor === undefined) return;
        next = page({ cursor: meta.nextCursor });
      }
    },
  });
}

async function publish(http: Http, events: unknown, options: PublishOptions = {}): Promise<unknown> {
  const { idempotencyKey = crypto.randomUUID(), traceparent, signal } = options;
  const { data, headers } = await http.data("POST", "/events", {
    text: typeof events === "string" ? events : textOf(events),
    headers: { "idempotency-key": idempotencyKey, traceparent },
    publishes: true,
    signal,
  });
  return { data, durability: headers.get("relay-durability") ?? undefined };
}
