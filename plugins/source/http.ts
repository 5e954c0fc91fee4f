/** The http source: `POST /events` with a publish token. */
import { hash } from "node:crypto";
import { StartError } from "../../core/model/errors.ts";
import { optionProblems } from "../../core/ports/options.ts";
import { own } from "../../core/ports/own-plugins.ts";
import { Problem } from "../../core/model/problem.ts";
import { isoTime } from "../../core/lib/time.ts";
import type { Plugin, PluginContext } from "../../core/ports/plugin.ts";
import type { Route, RouteDescription, RouteReply, RouteRequest } from "../../core/ports/route.ts";
import type { Accept, Accepted, AcceptRequest, Source, SourceInfo } from "../../core/ports/source.ts";
import type { PublishBody, readEventBody } from "./http/event-body.ts";
import {
  presentedToken,
  publishToken,
  readTokens,
  shortTokens,
  tokenSecrets,
  tokenProblems,
  type PublishToken,
  type TokenOption,
} from "./http/tokens.ts";

export interface HttpOptions {
  /**
   * The tokens that may publish: for every key, or bound to some.
   * @default the relay's own publish token
   */
  readonly tokens?: readonly TokenOption[];
}

/** `POST /events`: one event, a list, or NDJSON. A 202 means that all of it is stored. */
export function http(options: HttpOptions = {}): Plugin<"source", Source> {
  const { tokens } = options ?? {};
  const problems = optionProblems<HttpOptions>(options, { tokens: tokenProblems });
  return own({
    kind: "source",
    name: "http",
    once: true,
    routes: ["POST /events"],
    problems,
    warnings: () => shortTokens(tokens),
    secrets: problems.length === 0 ? tokenSecrets(tokens) : {},
    async setup(ctx) {
      const [{ publishing }, { readEventBody }] = await Promise.all([
        import("./http/description.ts"),
        import("./http/event-body.ts"),
      ]);
      return createHttpSource(tokensOf(options, ctx), ctx, publishing, readEventBody);
    },
  });
}

function tokensOf({ tokens }: HttpOptions, { publishToken: own, secret }: PluginContext): readonly PublishToken[] {
  if (tokens === undefined) {
    const found = tokenProblems([own]);
    if (own === undefined || found.length > 0) throw new StartError(78, "http() was given no publish token");
    return [publishToken(own)];
  }
  const read = readTokens(tokens, secret);
  // Those that were read from elsewhere are judged as those of the config are.
  const [wrong] = tokenProblems(read);
  if (wrong !== undefined) throw new StartError(78, `http(): ${wrong.path} ${wrong.message}`);
  return read.map(({ token, keys }) => publishToken(token, keys));
}

function createHttpSource(
  tokens: readonly PublishToken[],
  { clock }: Pick<PluginContext, "clock">,
  describe: RouteDescription,
  readBody: typeof readEventBody,
): Source {
  let accept: Accept | undefined;
  let info: SourceInfo = { durability: "volatile" };
  const underWay = new Set<Promise<unknown>>();

  async function handle(request: RouteRequest, token: PublishToken): Promise<RouteReply> {
    const admittedAt = info.admit?.();
    const body = await readBody(request, token.scope);
    const key = request.header("idempotency-key");
    const idempotency = key === undefined ? undefined : idempotencyOf(key, token.scope, body);
    const traceparent = request.header("traceparent");
    // Only now: the body may have taken long, and the relay may be stopping.
    if (accept === undefined) throw closed();
    const work = accept({
      publications: body.publications,
      keys: token.keys,
      idempotency,
      traceparent: traceparent === undefined ? undefined : traceparentOf(traceparent),
      requestId: request.requestId,
      source: "http",
      ...(admittedAt !== undefined && { admittedAt }),
    });
    underWay.add(work);
    let accepted: readonly Accepted[];
    try {
      accepted = await work;
    } finally {
      underWay.delete(work);
    }
    return {
      status: 202,
      headers: { "Content-Type": "application/json", "Relay-Durability": info.durability },
      body: JSON.stringify({
        data: body.batch ? accepted : accepted[0],
        meta: { timestamp: isoTime(clock.now()) },
      }),
    };
  }

  const route: Route<PublishToken> = {
    method: "POST",
    path: "/events",
    limit: "POST /events",
    describe,
    identify(request) {
      const token = presentedToken(request.header("authorization"), tokens);
      return { counted: `publish:${token.scope}`, caller: token };
    },
    handle,
  };

  return {
    routes: [route],
    start(given, about) {
      accept = given;
      info = about;
    },
    async stop() {
      accept = undefined;
      await Promise.allSettled(underWay);
    },
  };
}

const closed = (): Problem =>
  new Problem("SHUTTING_DOWN", "Nothing is accepted now. Publish again in a moment.", {
    retryAfter: 5,
    // A kept connection would lead back here; a new one goes to a relay that accepts events.
    headers: { Connection: "close" },
  });

const VISIBLE = /^[\x21-\x7e]{1,128}$/;

/**
 * Returns what identifies repeats of a request with this Idempotency-Key. It is hashed, since it may hold any visible ASCII.
 * @throws Problem VALIDATION_FAILED
 */
function idempotencyOf(key: string, scope: string, { bytes, format }: PublishBody): AcceptRequest["idempotency"] {
  if (!VISIBLE.test(key)) {
    const errors = [{ path: "Idempotency-Key", message: "must be 1 to 128 characters of visible ASCII" }];
    throw new Problem("VALIDATION_FAILED", "Correct the Idempotency-Key header, or leave it out.", { errors });
  }
  return { scope, key: hash("sha256", key, "hex"), digest: `${format}-${hash("sha256", bytes, "hex")}` };
}

const LONGEST_TRACEPARENT = 256;
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/;

/** Returns the traceparent unchanged if it is valid (https://www.w3.org/TR/trace-context/); a broken one is ignored. */
function traceparentOf(given: string): string | undefined {
  if (given.length > LONGEST_TRACEPARENT) return undefined;
  const [, version, traceId, parentId, more] = TRACEPARENT.exec(given) ?? [];
  if (version === undefined || version === "ff" || (version === "00" && more !== undefined)) return undefined;
  return traceId === "0".repeat(32) || parentId === "0".repeat(16) ? undefined : given;
}
