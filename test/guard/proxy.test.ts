/** Tunnels through a proxy that cannot reach the target: few of its addresses are tried, one after the other. */
import { Duplex } from "node:stream";
import type { Socket } from "node:net";
import { expect, it } from "vitest";
import { tunnel } from "../../core/guard/proxy.ts";

const never = new AbortController().signal;
const many = Array.from({ length: 64 }, (_, i) => `203.0.113.${i}`);

/** A connection to a proxy that answers each request with this status. */
function proxyThat(answers: (authority: string) => number) {
  const asked: string[] = [];
  const open = async (): Promise<Socket> =>
    new Duplex({
      read() {},
      write(chunk: Buffer, _, done) {
        const authority = /^CONNECT (\S+)/.exec(chunk.toString())?.[1] ?? "";
        asked.push(authority);
        this.push(`HTTP/1.1 ${answers(authority)} Said\r\n\r\n`);
        done();
      },
    }) as unknown as Socket;
  return { asked, open };
}

const PROXY = { hostname: "proxy", port: 3128, tls: false };

it("of many addresses that the proxy cannot reach no more than three are asked for", async () => {
  const { asked, open } = proxyThat(() => 504);
  await expect(tunnel(PROXY, many, 443, open, never)).rejects.toThrow("the proxy cannot connect (504)");
  expect(asked).toEqual(["203.0.113.0:443", "203.0.113.1:443", "203.0.113.2:443"]);
});

it("the second is asked for where the first cannot be reached, and no other when it can", async () => {
  const { asked, open } = proxyThat((authority) => (authority.startsWith("203.0.113.1:") ? 200 : 502));
  const socket = await tunnel(PROXY, many, 443, open, never);
  expect(asked).toHaveLength(2);
  expect(socket.destroyed).toBe(false);
  socket.destroy();
});

it("no other is asked for where the proxy refuses the first", async () => {
  const { asked, open } = proxyThat(() => 403);
  await expect(tunnel(PROXY, many, 443, open, never)).rejects.toThrow("the proxy refuses the connection (403)");
  expect(asked).toHaveLength(1);
});
