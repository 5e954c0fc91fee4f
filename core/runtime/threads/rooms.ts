/** What each of several nodes has room for, while the leases of one claim are shared out to them. */
import type { ClaimRequest } from "../../ports/storage.ts";

interface Rooms<Node> {
  /** What all of them have room for, as one request. */
  readonly all: ClaimRequest;
  /**
   * Takes room for a delivery of this subscription: at `first` if it has some, else at the node with the most.
   * @returns the node; `undefined` when none has room
   */
  take(subscriptionId: string, first: Node | undefined): Node | undefined;
}

interface Room {
  readonly request: ClaimRequest;
  /** How many more it takes in all. */
  left: number;
  /** How many of each subscription it took. */
  readonly taken: Map<string, number>;
}

export function createRooms<Node>(requests: ReadonlyMap<Node, ClaimRequest>): Rooms<Node> {
  const rooms = new Map<Node, Room>();
  for (const [node, request] of requests) rooms.set(node, { request, left: request.limit, taken: new Map() });

  function fits({ request, left, taken }: Room, id: string): boolean {
    return left > 0 && (request.busy.get(id) ?? 0) + (taken.get(id) ?? 0) < request.perSubscription;
  }

  function widest(id: string): Node | undefined {
    let found: Node | undefined;
    let most = 0;
    for (const [node, room] of rooms) {
      if (room.left <= most || !fits(room, id)) continue;
      most = room.left;
      found = node;
    }
    return found;
  }

  return {
    all: sum([...requests.values()]),
    take(id, first) {
      const own = first === undefined ? undefined : rooms.get(first);
      const node = own !== undefined && fits(own, id) ? first : widest(id);
      const room = node === undefined ? undefined : rooms.get(node);
      if (room === undefined) return undefined;
      room.left--;
      room.taken.set(id, (room.taken.get(id) ?? 0) + 1);
      return node;
    },
  };
}

function sum(requests: readonly ClaimRequest[]): ClaimRequest {
  const [first] = requests;
  if (first !== undefined && requests.length === 1) return first;
  const busy = new Map<string, number>();
  let limit = 0;
  let perSubscription = 0;
  for (const request of requests) {
    limit += request.limit;
    perSubscription += request.perSubscription;
    // Beyond its own bound a node takes no room from the others.
    for (const [id, count] of request.busy)
      busy.set(id, (busy.get(id) ?? 0) + Math.min(count, request.perSubscription));
  }
  return { limit, perSubscription, busy };
}
