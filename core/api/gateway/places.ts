/** Counts the places at the upstream and shares them out over addresses and keys. */

/** The share of the places that one caller may have. */
const SHARE = 1 / 8;
/** The share for requests whose body is still on its way, over all callers. The rest is for requests that are complete. */
const UPLOADS = 1 / 2;

export interface UploadPlace {
  /** Call it when the body has arrived: the place then counts as an upload no more. */
  uploaded(): void;
  /** May be called twice. */
  leave(): void;
}

interface Places {
  /**
   * Takes a place for these callers, each of which must have room. `undefined` when there is none.
   * @param uploading whether the body is still on its way
   */
  take(callers: readonly string[], uploading: boolean): UploadPlace | undefined;
}

/** @param concurrency requests at the upstream at once */
export function createPlaces(concurrency: number): Places {
  const mostOfOne = Math.max(1, Math.floor(concurrency * SHARE));
  const mostUploads = Math.max(1, Math.floor(concurrency * UPLOADS));
  const byCaller = new Map<string, number>();
  let taken = 0;
  let uploads = 0;

  function add(callers: readonly string[], by: 1 | -1): void {
    taken += by;
    for (const caller of callers) {
      const count = (byCaller.get(caller) ?? 0) + by;
      if (count > 0) byCaller.set(caller, count);
      else byCaller.delete(caller);
    }
  }

  return {
    take(callers, uploading) {
      if (taken >= concurrency || (uploading && uploads >= mostUploads)) return undefined;
      if (callers.some((caller) => (byCaller.get(caller) ?? 0) >= mostOfOne)) return undefined;
      add(callers, 1);
      if (uploading) uploads++;
      let upload = uploading;
      let left = false;
      const uploaded = (): void => {
        if (upload) uploads--;
        upload = false;
      };
      return {
        uploaded,
        leave() {
          if (left) return;
          left = true;
          uploaded();
          add(callers, -1);
        },
      };
    },
  };
}
