/** The routes of plug-ins: their requests, their answers, and how they describe themselves. */
import type { MaybePromise } from "../lib/maybe-promise.ts";
import type { ProblemCode } from "../model/problem.ts";
import type { Access } from "../model/token.ts";

/** A `Content-Encoding` that a body may have. */
export type ContentCoding = "gzip" | "deflate";

/** A request as a plug-in's route gets it. Header names are lower case. */
export interface RouteRequest {
  readonly method: string;
  readonly path: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  header(name: string): string | undefined;
  /**
   * Reads the whole body. The server bounds what all bodies together may hold, what one address may hold, and what one
   * `caller` may hold (the authenticated caller, where it is known).
   * @param coding the body is inflated while it is read, and every bound counts the bytes that come out
   * @throws Problem PAYLOAD_TOO_LARGE beyond `maxBytes`, PROVIDER_BACKPRESSURE when there is no room, INVALID_JSON for a
   * body that cannot be inflated
   */
  body(maxBytes: number, caller?: string, coding?: ContentCoding): Promise<Uint8Array>;
  /** The client's address, with trusted proxies taken into account. */
  readonly address: string;
  readonly requestId: string;
  /** Aborts when the client goes away. */
  readonly signal: AbortSignal;
}
export interface RouteReply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string | Uint8Array;
}

/** The caller of a request, found by its route before the limits are checked. */
export interface Identified<Caller = unknown> {
  /** The names that the limits count; with several, each must pass. */
  readonly counted: string | readonly string[];
  /** The rights of the caller: with `"read"` the server refuses routes that need `"manage"`. @default "manage" */
  readonly access?: Access;
  /** Passed to `handle`, so that nothing is looked up twice. */
  readonly caller: Caller;
}

/** An HTTP route of a plug-in. The server matches, limits, times and logs it; the route answers or throws a Problem. */
export interface Route<Caller = unknown> {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS";
  /** Segments may be `{name}`; a parameter is one segment. */
  readonly path: string;
  /** Its row in the limits table. Absent: nothing is counted. */
  readonly limit?: string;
  /** Has no effect any more: every route is answered on the shortest way. */
  readonly direct?: boolean;
  /** The right that its caller needs. @default "read" for GET, "manage" for every other method */
  readonly access?: Access;
  /** Its entry in `/openapi.json`. Absent: only its path is listed there. */
  readonly describe?: RouteDescription;
  /**
   * Identifies the caller, once, before the limits are checked. Absent: the limits count the client's address, and
   * `handle` gets no caller.
   * @throws Problem UNAUTHENTICATED
   */
  identify?(request: RouteRequest): MaybePromise<Identified<Caller>>;
  /** @param caller what `identify` found */
  handle(request: RouteRequest, caller: Caller): Promise<RouteReply>;
}

/** Describes what a route takes and answers, for `/openapi.json`. */
export interface RouteDescription {
  /** Names the route in clients that are generated. @default made of its method and path */
  readonly operationId?: string;
  /** Says what the route does, in one line. */
  readonly summary: string;
  /** More about it, in Markdown. */
  readonly description?: string;
  /** The heading that it is listed under. */
  readonly tag: string;
  /** The credential that a caller needs. Absent: none. */
  readonly security?: RouteSecurity;
  /** An object: a property for each parameter of the path. Left out: each is some text. */
  readonly params?: Schema;
  /** An object: a property for each parameter of the query. */
  readonly query?: Schema;
  /** An object: a property for each request header that means something to the route. */
  readonly headers?: Schema;
  /** The body, once for each accepted content type. Absent: none is read. */
  readonly body?: ContentDescription | readonly ContentDescription[];
  /** True: the body may be left out. @default false */
  readonly bodyOptional?: boolean;
  readonly answers: readonly AnswerDescription[];
  /** Codes of the problems that it answers. */
  readonly problems?: readonly ProblemCode[];
}

export interface ContentDescription {
  /** @default "application/json" */
  readonly type?: string;
  /** Left out: anything of that type. */
  readonly schema?: Schema;
  /** Complete examples by name; examples of single fields are in the schema. */
  readonly examples?: Readonly<Record<string, unknown>>;
}

export interface AnswerDescription {
  /** `default`: every status that is not named. */
  readonly status: number | "default";
  /** Says what it means, in one sentence. */
  readonly description?: string;
  /** An object: a property for each header of the answer. */
  readonly headers?: Schema;
  /** Left out: the answer has no body. */
  readonly content?: ContentDescription;
}

/** `"access token"`: one of the management API. Else a scheme of the route's own. */
export type RouteSecurity = "access token" | SecurityScheme;

export interface SecurityScheme {
  /** Stands for the scheme in the document: routes with the same name share one. */
  readonly name: string;
  /** The header that carries it. @default `Authorization`, as a Bearer token */
  readonly header?: string;
  readonly description: string;
  /** True: the route answers without it as well. @default false */
  readonly optional?: boolean;
}

/**
 * A schema of any library that speaks Standard JSON Schema (https://standardschema.dev/json-schema), such as zod 4. So what
 * validates a body documents it as well.
 */
export interface Schema {
  readonly "~standard": {
    readonly jsonSchema: {
      readonly input: (options: SchemaOptions) => Readonly<Record<string, unknown>>;
      readonly output: (options: SchemaOptions) => Readonly<Record<string, unknown>>;
    };
  };
}
export interface SchemaOptions {
  readonly target: "draft-2020-12";
  readonly libraryOptions?: Record<string, unknown>;
}
