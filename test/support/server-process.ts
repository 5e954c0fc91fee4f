/** A server of another make in a process of its own, which a test may kill -9, pause and start again on the same data. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";

export interface ServerCommand {
  readonly command: string;
  readonly args: readonly string[];
  /** All of its variables: nothing of the test's own reaches it. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Resolves to true once the server serves. It is asked until then. */
  ready(): Promise<boolean>;
}

export interface ServerProcess extends AsyncDisposable {
  readonly pid: number;
  /** SIGKILL, and until it is gone. */
  kill(): Promise<void>;
  /** Begins again on the same port and data; for one that was killed. */
  start(): Promise<void>;
  /** Ends it as an operator would (SIGTERM), and starts it again: what it was told before is on its disk. */
  restart(): Promise<void>;
  /** SIGSTOP and SIGCONT: it is there and does not answer. */
  pause(): void;
  resume(): void;
}

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** RabbitMQ takes up to 90 s on a busy machine. */
const START_MS = 180_000;

/**
 * Starts it, and resolves when it serves.
 * @throws Error with the end of its output when it ends before that, or does not serve within three minutes
 */
export async function startServer(server: ServerCommand): Promise<ServerProcess> {
  let child: ChildProcess;

  async function start(): Promise<void> {
    const { command, args, env, cwd } = server;
    child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], ...(env && { env }), ...(cwd && { cwd }) });
    running.add(child);
    const own = child;
    child.once("exit", () => running.delete(own));
    let output = "";
    const keep = (chunk: Buffer): void => void (output = (output + chunk.toString()).slice(-4_000));
    child.stdout?.on("data", keep);
    child.stderr?.on("data", keep);
    const end = performance.now() + START_MS;
    for (;;) {
      if (performance.now() > end) throw new Error(`${command} does not serve after ${START_MS} ms: ${output}`);
      if (ended(child)) throw new Error(`${command} ended with ${child.exitCode ?? child.signalCode}: ${output}`);
      if (await server.ready().catch(() => false)) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async function kill(): Promise<void> {
    if (ended(child)) return;
    // Not "close": a helper of the server may hold its output for longer.
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    child.kill("SIGCONT");
    await gone;
  }

  async function restart(): Promise<void> {
    const gone = once(child, "exit");
    child.kill("SIGTERM");
    await gone;
    await start();
  }

  await start();
  return {
    get pid() {
      return child.pid as number;
    },
    kill,
    start,
    restart,
    pause: () => void child.kill("SIGSTOP"),
    resume: () => void child.kill("SIGCONT"),
    [Symbol.asyncDispose]: kill,
  };
}

const ended = (child: ChildProcess): boolean => child.exitCode !== null || child.signalCode !== null;

/** Connects, says `hello`, and resolves to what comes back first: how a server shows that it speaks its protocol. */
export function greet(port: number, hello: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(hello));
    socket.setTimeout(2_000, () => socket.destroy(new Error("no answer")));
    socket.once("data", (chunk) => {
      resolve(chunk.toString("latin1"));
      socket.destroy();
    });
    socket.once("error", reject);
    socket.once("close", () => reject(new Error("closed without an answer")));
  });
}
