/** Every command that a Redis is given, as it tells it. */
import { once } from "node:events";
import { connect } from "node:net";
import type { RedisServer } from "./redis.ts";

export interface Monitor extends Disposable {
  /** One a command: time, who asked, and its parts in quotes. */
  lines(): readonly string[];
}

export async function monitor(server: RedisServer): Promise<Monitor> {
  const socket = connect(server.port, "127.0.0.1");
  let text = "";
  socket.setEncoding("latin1").on("error", () => {});
  socket.write("MONITOR\r\n");
  await once(socket, "data");
  socket.on("data", (part: string) => (text += part));
  return {
    lines: () => text.split("\r\n"),
    [Symbol.dispose]: () => void socket.destroy(),
  };
}
