/** Scenes for tests of the command: a folder with a config and the relay started there, and a server in place of a relay. */
import { chmodSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { runHere, type HereOptions } from "./command-here.ts";
import { startCommand, type Ran, type Running } from "./command.ts";
import { testFolder } from "./folder.ts";

/** Runs a command line: its first text is split at spaces, the others stay as they are. */
export type Run = (words: string, ...more: readonly string[]) => Promise<Ran>;

/** Returns a function that runs command lines in this process. */
export const commandLine =
  (options: () => HereOptions): Run =>
  (words, ...more) =>
    runHere([...words.split(" "), ...more], options());

const LISTENING = /listening at (http[^\s"]+)["\n]/;

/** Resolves to the URL of a relay, or of `relay listen`, once it listens. */
export const urlOf = async (running: Running): Promise<string> => (await running.waitFor(LISTENING))[1] ?? "";

/** A folder that commands run in. */
export class CommandStage {
  readonly folder = testFolder();
  readonly run = commandLine(() => ({ cwd: this.folder, env: this.env }));
  readonly env: Record<string, string> = {};

  /** @param config source text of config entries; without it there is no file. @param imports beside `defineRelay` */
  constructor(config?: string, ...imports: readonly string[]) {
    const head = `import { ${["defineRelay", ...imports].join(", ")} } from "relaybox";\n`;
    if (config !== undefined) this.write("relay.config.ts", `${head}export default defineRelay({ ${config} });\n`);
  }

  /** @returns the name */
  write(name: string, content: string | Uint8Array, mode = 0o600): string {
    writeFileSync(join(this.folder, name), content);
    chmodSync(join(this.folder, name), mode);
    return name;
  }

  /** Runs a command line with this on its stdin. */
  piped(input: string, words: string, ...more: readonly string[]): Promise<Ran> {
    return runHere([...words.split(" "), ...more], { cwd: this.folder, env: this.env, input });
  }

  /** Runs a command line with `--json`, which must succeed, and resolves to what it prints. */
  async json<T>(words: string, ...more: readonly string[]): Promise<T> {
    const { code, stdout, stderr } = await this.run(words, ...more, "--json");
    expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
    return JSON.parse(stdout) as T;
  }

  /** Starts a relay there, which the command lines ask from then on. */
  async start(...more: readonly string[]): Promise<Running> {
    const running = startCommand(["start", ...more], { cwd: this.folder });
    this.env["RELAY_URL"] = await urlOf(running);
    return running;
  }
}

/** A run that ends with this code, and says this on stderr. */
export const ends = (code: number, stderr: string): object => ({ code, stderr: expect.stringContaining(stderr) });
/** The same with nothing on stdout. */
export const refused = (code: number, stderr: string): object => ({ ...ends(code, stderr), stdout: "" });

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** An answer in JSON, after which the connection is closed. */
export const says =
  (status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Answer =>
  (_, response) =>
    void response
      .writeHead(status, { "content-type": "application/json", connection: "close", ...headers })
      .end(JSON.stringify(body));

/** A server in place of a relay, for all tests of a file. */
export function fakeRelay() {
  const fake = { url: "", port: 0, asked: [] as IncomingMessage[], answer: says(200, {}) };
  const server = createServer((request, response) => {
    fake.asked.push(request);
    fake.answer(request, response);
  });
  beforeAll(async () => {
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    fake.port = (server.address() as AddressInfo).port;
    fake.url = `http://127.0.0.1:${fake.port}`;
  });
  afterAll(() => {
    server.closeAllConnections();
    return new Promise((resolve) => void server.close(resolve));
  });
  return fake;
}
