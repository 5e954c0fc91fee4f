/** The wall around the routes of a plug-in: a request that fails or hangs there is answered, and names the plug-in. */
import { Gone } from "../../api/http/body.ts";
import { ConflictError, DamagedRecordError, StorageError } from "../../model/errors.ts";
import { Problem } from "../../model/problem.ts";
import type { MaybePromise } from "../../model/maybe-promise.ts";
import type { Identified, Route, RouteReply } from "../../ports/route.ts";
import { callerOf, replyOf } from "./route-answers.ts";
import { thrownError } from "./thrown.ts";
import { isThenable, type Wall } from "./wall.ts";

/** A route answers within this time, ms: longer than any body may take to arrive and be stored. */
const ROUTE_MS = 120_000;

/** What the relay throws itself, through the plug-in. */
const isOurs = (error: unknown): boolean =>
  error instanceof Problem ||
  error instanceof StorageError ||
  error instanceof ConflictError ||
  error instanceof DamagedRecordError ||
  error instanceof Gone;

export function containRoutes(routes: readonly Route[], { inside, note, deadlines }: Wall): readonly Route[] {
  return routes.map((route): Route => {
    const { method, path } = route;
    const call = `${method} ${path}`;
    const failed = (error: unknown): unknown => {
      if (isOurs(error)) return error;
      note(call, error);
      return thrownError(error);
    };
    const late = (): never => {
      note(call, new Error(`no answer within ${ROUTE_MS} ms`));
      throw new Problem("INTERNAL_ERROR", "It took too long. Try again later.");
    };
    return {
      ...route,
      ...(route.identify !== undefined && {
        identify(request): MaybePromise<Identified> {
          try {
            const found = inside(() => route.identify?.(request)) as MaybePromise<Identified>;
            if (!isThenable(found)) return callerOf(found);
            return deadlines.bound(Promise.resolve(found).then(callerOf), { ms: ROUTE_MS, late, failed });
          } catch (error) {
            throw failed(error);
          }
        },
      }),
      async handle(request, caller): Promise<RouteReply> {
        let work: Promise<RouteReply>;
        try {
          work = inside(() => route.handle(request, caller));
        } catch (error) {
          throw failed(error);
        }
        const reply = await deadlines.bound(work, { ms: ROUTE_MS, late, failed });
        try {
          return replyOf(reply);
        } catch (error) {
          throw failed(error);
        }
      },
    };
  });
}
