/** Takes one event a request at POST /my-source. */
import { createHash, timingSafeEqual } from "node:crypto";
import { isSecretOption, Problem } from "relaybox";
import type { Accept, Plugin, Route, SecretOption, Source, SourceInfo } from "relaybox";
import { z } from "zod";

export interface Options {
  /** What upstream sends in X-Token. */
  readonly token: SecretOption;
  /** Largest event, in bytes. @default 65_536 */
  readonly maxBytes?: number;
}

const schema = z.strictObject({
  token: z.custom<SecretOption>(isSecretOption, "must be text, or secretFrom(…)"),
  maxBytes: z.int().min(1).max(1_048_576).optional(),
});

/** Every problem of the options, with its path. */
function problemsOf(options: unknown): { path: string; message: string }[] {
  const { error } = schema.safeParse(options);
  return (error?.issues ?? []).map(({ path, message }) => ({ path: path.join("."), message }));
}

const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

export function mySource(options: Options): Plugin<"source", Source> {
  const problems = problemsOf(options);
  return {
    kind: "source",
    name: "my-source",
    routes: ["POST /my-source"],
    problems,
    secrets: problems.length === 0 ? { token: options.token } : {},
    metrics: [
      { name: "relay_source_events_refused_total", type: "counter", help: "Events refused, by code", labels: ["code"] },
    ],
    setup({ secret, metrics }) {
      const wanted = digest(secret("token"));
      const { maxBytes = 65_536 } = options;
      const underWay = new Set<Promise<unknown>>();
      let accept: Accept | undefined;
      let info: SourceInfo | undefined;

      const route: Route<string> = {
        method: "POST",
        path: "/my-source",
        identify(request) {
          const given = request.header("x-token") ?? "";
          if (!timingSafeEqual(digest(given), wanted)) throw new Problem("UNAUTHENTICATED", "Send X-Token.");
          return { counted: "my-source", caller: "my-source" };
        },
        async handle(request, caller) {
          const admittedAt = info?.admit?.();
          const text = Buffer.from(await request.body(maxBytes, caller)).toString("utf8");
          if (accept === undefined) throw new Problem("SHUTTING_DOWN", "Send it again in a moment.", { retryAfter: 5 });
          // Acknowledge upstream only after accept has resolved.
          const stored = accept({
            publications: [{ text, path: "" }],
            source: "my-source",
            ...(admittedAt !== undefined && { admittedAt }),
          });
          underWay.add(stored);
          try {
            await stored;
          } catch (error) {
            // A reader of a queue asks isLater(error): offer the message again, or set it aside. This route answers with the code.
            if (error instanceof Problem) metrics.count("relay_source_events_refused_total", { code: error.code });
            throw error;
          } finally {
            underWay.delete(stored);
          }
          return { status: 202 };
        },
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
        readiness: () => (accept === undefined ? "not started" : undefined),
      };
    },
  };
}
