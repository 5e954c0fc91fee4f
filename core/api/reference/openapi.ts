/** The OpenAPI 3.1 document, put together from what operations and routes say of themselves. */
import type { RepeatedHeaders } from "../../model/header-names.ts";
import type { Route, SecurityScheme } from "../../ports/route.ts";
import { neededAccess, type Guarded } from "../http/access.ts";
import type { AnyOperation } from "../http/operation.ts";
import { problem } from "../resources/shapes.ts";
import { collectSchemas, type Json } from "./json-schema.ts";
import { describeOperation } from "./operations.ts";
import { type Described, pathItem, shownPath } from "./paths.ts";
import type { EventTypes } from "../../model/event-type.ts";
import { OPERATIONAL_EVENTS } from "./operational-webhooks.ts";
import { typedWebhooks } from "./typed-webhooks.ts";
import { webhooks } from "./webhooks.ts";

interface DocumentDeps {
  readonly operations: readonly AnyOperation[];
  /** Routes of plug-ins and of the relay itself: one without a description is listed by its path. */
  readonly routes: readonly Route[];
  /** Called for a route whose description cannot be read; it is listed by its path then. @default it throws */
  readonly undescribable?: (route: Pick<Route, "method" | "path">, error: unknown) => void;
  readonly version: string;
  /** What the config says of the event types now; the same object until it changes. */
  readonly types?: (() => EventTypes | undefined) | undefined;
  /** Headers that deliveries have a second time, under a name of the config. */
  readonly repeated?: RepeatedHeaders;
}

/** Asked for by every operation, and by routes that say so. */
const ACCESS_TOKEN = { type: "http", scheme: "bearer", bearerFormat: "JWT", description: "An access token." };

export function openApiDocument(deps: DocumentDeps): Json {
  const { operations, routes, undescribable, version, types, repeated = {} } = deps;
  const schemas = collectSchemas();
  schemas.of(problem, "output");
  const paths: Record<string, Record<string, unknown>> = {};
  const schemes: Record<string, Json> = {};
  const add = (one: Described, item: Json): void =>
    void ((paths[shownPath(one.path)] ??= {})[one.method.toLowerCase()] = item);
  for (const one of operations)
    add(one, pathItem(withForbidden(one, describeOperation(one), one.portal !== true), schemas));
  for (const one of routes) {
    try {
      const described = withForbidden(one, one.describe, false);
      const item = pathItem(described, schemas);
      const security = described.describe?.security;
      const scheme =
        security === undefined || security === "access token" ? {} : { [security.name]: schemeOf(security) };
      // What is no JSON fails here, where it is known whose it is.
      JSON.stringify([item, scheme]);
      add(one, item);
      Object.assign(schemes, scheme);
    } catch (error) {
      if (undescribable === undefined) throw error;
      undescribable(one, error);
      add(one, pathItem({ method: one.method, path: one.path }, schemas));
    }
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Relay",
      version,
      summary: "Webhook subscriptions, events and their deliveries.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/" }],
    security: [{ bearer: [] }],
    paths,
    webhooks: {
      ...webhooks(schemas, repeated),
      ...typedWebhooks(types?.() ?? {}),
      ...typedWebhooks(OPERATIONAL_EVENTS, "Operational events"),
    },
    components: { schemas: schemas.components, securitySchemes: { ...schemes, bearer: ACCESS_TOKEN } },
  };
}

/** Adds what the server answers in a route's place, to a caller who may only read or came by a portal link. */
function withForbidden(one: Described & Guarded, describe: Described["describe"], closed: boolean): Described {
  const { method, path } = one;
  const guarded = describe?.security === "access token" && (closed || neededAccess(one) === "manage");
  return {
    method,
    path,
    describe: guarded ? { ...describe, problems: [...(describe.problems ?? []), "FORBIDDEN"] } : describe,
  };
}

const schemeOf = ({ header, description }: SecurityScheme): Json =>
  header === undefined
    ? { type: "http", scheme: "bearer", description }
    : { type: "apiKey", in: "header", name: header, description };

/** `/openapi.json`: made when it is first asked for, since most relays are never asked, and again for other event types. */
export function openApiRoutes(deps: DocumentDeps): readonly Route[] {
  // Bytes are shared by all answers under way, where each would join a text to a copy of its own.
  let text: Buffer | undefined;
  let made: EventTypes | undefined;
  return [
    {
      method: "GET",
      path: "/openapi.json",
      async handle() {
        const types = deps.types?.();
        if (types !== made) text = undefined;
        made = types;
        text ??= Buffer.from(JSON.stringify(openApiDocument(deps)));
        return { status: 200, body: text };
      },
    },
  ];
}
