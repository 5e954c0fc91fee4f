// A line to a server that we hold: it can be cut, or become a hole into which everything falls.
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

export interface Line {
  /** By which everybody else knows the server. */
  readonly port: number;
  /** Nothing goes through any more, and nobody learns of it. */
  hole(): void;
  /** Resets every connection; what was swallowed is gone with them. */
  drop(): void;
  mend(): void;
  end(): void;
}

export async function openLine(target: number): Promise<Line> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let holed = false;
  const line = createServer((near) => {
    const far = connect(target, "127.0.0.1");
    const pair = [near, far] as const;
    pairs.add(pair);
    const end = (): void => {
      pairs.delete(pair);
      near.destroy();
      far.destroy();
    };
    near.on("error", end).on("close", end);
    far.on("error", end).on("close", end);
    near.on("data", (chunk) => void (holed || far.write(chunk)));
    far.on("data", (chunk) => void (holed || near.write(chunk)));
  });
  await new Promise<void>((done) => line.listen(0, "127.0.0.1", done));
  function drop(): void {
    for (const [near, far] of pairs) {
      near.resetAndDestroy();
      far.destroy();
    }
  }
  return {
    port: (line.address() as AddressInfo).port,
    hole: () => void (holed = true),
    drop,
    mend() {
      holed = false;
      // A connection that missed some of its bytes must not go on.
      drop();
    },
    end() {
      drop();
      line.close();
    },
  };
}
