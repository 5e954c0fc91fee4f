/** Makes operational events (`relay:…`): for the key that one is about, and for the relay's operator. */
import { OPERATOR_KEY } from "../model/names.ts";
import type { Storage } from "../ports/storage.ts";
import { commitOnce, type PrepareEvent, type Prepared } from "../records/commit-once.ts";
import { retryOnConflict } from "../records/transaction.ts";

/** Returns the keys whose subscriptions are offered what concerns a key; absent: what concerns the whole relay. */
export const listenersOf = (keyId: string | undefined): readonly string[] =>
  keyId === undefined || keyId === OPERATOR_KEY ? [OPERATOR_KEY] : [keyId, OPERATOR_KEY];

/** Returns the data for one of them: the operator reads which key it is about. */
export const dataFor = (listener: string, keyId: string | undefined, data: object): object =>
  listener === OPERATOR_KEY && keyId !== undefined && keyId !== OPERATOR_KEY ? { keyId, ...data } : data;

export const together = (parts: readonly Prepared[]): Prepared | undefined =>
  parts.length < 2
    ? parts[0]
    : {
        changes: parts.flatMap(({ changes }) => changes),
        committed: () => parts.forEach((part) => part.committed()),
      };

export function createOperational(deps: {
  readonly publisher: { readonly prepare: PrepareEvent };
  readonly storage: Pick<Storage, "commit">;
}) {
  /**
   * Prepares an operational event for a commit of the caller's own: one for the subscriptions of the key, and one for
   * those of the operator, whose data names the key. `undefined` when no subscription wants it: then it is not stored.
   * @throws StorageError
   */
  async function prepare(keyId: string, type: string, data: object): Promise<Prepared | undefined> {
    const made = await Promise.all(
      listenersOf(keyId).map((listener) =>
        deps.publisher.prepare({ keyId: listener, type, data: dataFor(listener, keyId, data) }),
      ),
    );
    return together(made.filter((part) => part !== undefined));
  }

  /** Prepares and commits one. @throws StorageError */
  async function accept(keyId: string, type: string, data: object): Promise<void> {
    // Its node may not have heard of a change to subscriptions yet.
    await retryOnConflict(async () => {
      const event = await prepare(keyId, type, data);
      if (event !== undefined && (await commitOnce(deps.storage, event.changes))) event.committed();
    });
  }

  return { prepare, accept };
}
