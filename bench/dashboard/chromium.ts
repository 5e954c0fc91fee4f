/**
 * Opens tabs of Chromium by its protocol, with nothing switched on that would slow a page down: a driver for tests has it
 * report each request with the lines that sent it, for which every script is parsed a second time.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { findProgram } from "../../tools/find-program.ts";
import { own } from "../throughput/process.ts";

export interface Tab {
  /** Resolves when the browser has the first of the answer. */
  goTo(url: string): Promise<void>;
  /** Returns what the expression, or its promise, comes to in the page. */
  evaluate<T>(expression: string): Promise<T>;
  close(): Promise<void>;
}

export interface Chromium {
  /** Opens a tab. The browser has cached nothing, and keeps its cookies. */
  coldTab(): Promise<Tab>;
  end(): void;
}

interface Reply {
  readonly id?: number;
  readonly result?: Readonly<Record<string, never>>;
  readonly error?: { readonly message: string };
}
interface Evaluated<T> {
  readonly result: { readonly value: T };
  readonly exceptionDetails?: { readonly text: string; readonly exception?: { readonly description?: string } };
}

/** Starts it with a profile in this folder. @throws Error where it is not installed */
export async function openChromium(folder: string): Promise<Chromium> {
  const program = findProgram("chromium");
  if (program === undefined) throw new Error("needs chromium-headless-shell");
  const flags = ["--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--window-size=1280,800"];
  const child = spawn(program, [...flags, "--headless", `--user-data-dir=${join(folder, "chromium")}`], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  own(child);
  const socket = new WebSocket(await addressOf(child));
  await once(socket, "open");
  const waiting = new Map<number, (reply: Reply) => void>();
  socket.addEventListener("message", ({ data }) => {
    const reply = JSON.parse(String(data)) as Reply;
    waiting.get(reply.id ?? 0)?.(reply);
    waiting.delete(reply.id ?? 0);
  });
  let asked = 0;
  const ask = <T>(method: string, params: object = {}, sessionId?: string): Promise<T> =>
    new Promise((resolve, reject) => {
      const id = ++asked;
      waiting.set(id, ({ result, error }) => (error ? reject(new Error(error.message)) : resolve(result as T)));
      socket.send(JSON.stringify({ id, method, params, sessionId }));
    });

  return {
    async coldTab() {
      const { targetId } = await ask<{ targetId: string }>("Target.createTarget", { url: "about:blank" });
      const to = { targetId, flatten: true };
      const { sessionId } = await ask<{ sessionId: string }>("Target.attachToTarget", to);
      await ask("Network.clearBrowserCache", {}, sessionId);
      return {
        goTo: (url) => ask("Page.navigate", { url }, sessionId),
        async evaluate<T>(expression: string) {
          const how = { expression, awaitPromise: true, returnByValue: true };
          const { result, exceptionDetails } = await ask<Evaluated<T>>("Runtime.evaluate", how, sessionId);
          if (exceptionDetails !== undefined)
            throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
          return result.value;
        },
        close: () => ask("Target.closeTarget", { targetId }),
      };
    },
    end: () => void child.kill("SIGKILL"),
  };
}

/** Reads the address of its protocol from what it prints. */
async function addressOf(child: ChildProcess): Promise<string> {
  if (child.stderr !== null)
    for await (const line of createInterface({ input: child.stderr })) {
      const found = /^DevTools listening on (ws:.*)$/.exec(line)?.[1];
      if (found !== undefined) {
        child.stderr.resume();
        return found;
      }
    }
  throw new Error("Chromium ended before it was ready");
}
