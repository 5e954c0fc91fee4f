/** An operation of the management API: the one source of its checks, its types and its documentation. */
import type { z } from "zod";
import type { Actor, AuditAction } from "../../model/audit.ts";
import type { ProblemCode } from "../../model/problem.ts";
import type { Access } from "../../model/token.ts";
import type { Principal } from "../../ports/auth.ts";
import type { Route } from "../../ports/plugin.ts";
import type { Call } from "./call.ts";
import type { HttpAnswer } from "./reply.ts";

/** The input of a handler. Everything in it has passed its checks. */
export interface OperationRequest<Body, Query> {
  readonly call: Call;
  readonly principal: Principal;
  /** For audit lines. */
  readonly actor: Actor;
  /** The key of the path, owned by the token; empty where the path names none, as are the two below. */
  readonly keyId: string;
  readonly eventId: string;
  readonly subscriptionId: string;
  readonly params: Readonly<Record<string, string>>;
  readonly body: Body;
  /** The text of the body, character for character; undefined where the operation has none, or none was sent. */
  readonly text: string | undefined;
  readonly query: Query;
}

/** Writes the response itself, and resolves when it has ended. */
interface Streaming {
  readonly stream: (call: Call, headers: Readonly<Record<string, string>>) => Promise<void>;
}

/** Nothing for an answer without a body. */
type Answer = HttpAnswer | Streaming | void;

interface OperationSpec<Body, Query> {
  /** Its name in the OpenAPI document, and so in every client: a verb and a noun. It never changes. */
  readonly id: string;
  readonly summary: string;
  /** Its row in the limits table. @default `METHOD path` */
  readonly limit?: string | false;
  readonly body?: z.ZodType<Body>;
  /** The body may be left out; then it reads as `{}`. */
  readonly bodyOptional?: true;
  readonly query?: z.ZodType<Query>;
  /** The right that its caller needs. @default "read" for GET, "manage" for every other method */
  readonly access?: Access;
  /**
   * Open to the holder of a portal link too, within its key. What shows what operators do, or cannot be undone, is not.
   * @default false
   */
  readonly portal?: true;
  /** Needs a fresh second factor. The audit trail records a request without one as this action, refused. */
  readonly stepUp?: AuditAction;
  /** Only for tokens that own every key; for all others it is NOT_FOUND. */
  readonly everyKey?: true;
  /** Success: its status and what `data` is. Without `data` there is no body. */
  readonly reply: {
    readonly status: number;
    readonly data?: z.ZodType;
    readonly paged?: true;
    readonly warns?: true;
    readonly type?: string;
  };
  /** Codes beyond those that every operation can answer with. */
  readonly problems?: readonly ProblemCode[];
  handle(ask: OperationRequest<Body, Query>): Promise<Answer> | Answer;
}

/** An operation without its types. */
export interface AnyOperation extends OperationSpec<unknown, unknown> {
  readonly method: Route["method"];
  readonly path: string;
  readonly tag: string;
}

/**
 * Returns a function that makes the operations of one tag of the documentation, out of a route, which is method and path, and
 * what is said of it. It keeps what the schemas say of body and query for the handler's types.
 */
export const operationsOf =
  (tag: string) =>
  <Body = undefined, Query = undefined>(
    route: `${Route["method"]} /${string}`,
    spec: OperationSpec<Body, Query>,
  ): AnyOperation => {
    const [method, path] = route.split(" ");
    return { method, path, tag, ...spec } as unknown as AnyOperation;
  };
