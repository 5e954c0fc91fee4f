import { describe, expect, it } from "vitest";
import { commitOnce } from "../../core/records/commit-once.ts";
import { ConflictError, StorageError, type StorageFault } from "../../core/model/errors.ts";
import type { Change } from "../../core/ports/storage.ts";
import { shelf } from "../support/shelf.ts";

const EVENT: readonly Change[] = [
  { op: "put", key: "event:k:1", value: "e", if: null },
  { op: "put", key: "due:s:1", value: "d" },
];
const fault = (name: StorageFault): StorageError => new StorageError(name, name);

describe("a commit whose end the storage could not tell", () => {
  it("is made once, when it had not happened", async () => {
    const store = shelf();
    const faults = [fault("uncertain")];
    store.before = () => {
      const next = faults.shift();
      if (next !== undefined) throw next;
    };
    expect(await commitOnce(store, EVENT)).toBe(true);
    expect(store.commits).toHaveLength(1);
  });

  it.each(["full", "unavailable"] as const)(
    "is not what a storage leaves that is %s: that is said at once",
    async (name) => {
      const store = shelf();
      let asked = 0;
      store.before = () => {
        asked++;
        throw fault(name);
      };
      await expect(commitOnce(store, EVENT)).rejects.toMatchObject({ fault: name });
      expect(asked).toBe(1);
    },
  );

  it("is known again, when it had happened", async () => {
    const store = shelf();
    store.after = () => {
      throw fault("uncertain");
    };
    expect(await commitOnce(store, EVENT)).toBe(false);
    expect(store.commits).toHaveLength(1);
  });

  it("did not happen, when the second is refused for another row than the event's", async () => {
    const store = shelf();
    store.before = () => {
      store.before = () => {};
      // Another node takes the event's id meanwhile.
      store.rows.set("eventid:k:a", "2");
      throw fault("uncertain");
    };
    const changes: readonly Change[] = [...EVENT, { op: "put", key: "eventid:k:a", value: "1", if: null }];
    await expect(commitOnce(store, changes)).rejects.toBeInstanceOf(ConflictError);
    expect([...store.rows.keys()]).toEqual(["eventid:k:a"]);
  });

  it.each(["full", "unavailable", "uncertain"] as const)(
    "stays open when the storage is %s at the second look: it may be there",
    async (name) => {
      const store = shelf();
      store.after = () => {
        store.before = () => {
          throw fault(name);
        };
        throw fault("uncertain");
      };
      await expect(commitOnce(store, EVENT)).rejects.toMatchObject({ fault: "uncertain" });
      expect(store.rows.size).toBe(2);
    },
  );
});
