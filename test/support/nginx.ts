/** nginx as deploy/nginx has it. */
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { freePort } from "../../tools/free-port.ts";
import { findProgram } from "./needs.ts";

/** A file in deploy/. */
export const deployed = (file: string): Promise<string> =>
  readFile(resolve(import.meta.dirname, "../../deploy", file), "utf8");

/** Runs a configuration of deploy/nginx with the ports of this test; `change` puts more of the test's in. */
export async function startNginx(
  relay: string,
  upstream: string,
  file = "limits.conf",
  change: (config: string, folder: string, port: number) => string = (config) => config,
): Promise<{ readonly port: number } & AsyncDisposable> {
  const folder = await mkdtemp(join(tmpdir(), "relay-nginx-"));
  const port = await freePort();
  const temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  );
  const documented = (await deployed(`nginx/${file}`))
    .replace("127.0.0.1:8080", `127.0.0.1:${new URL(relay).port}`)
    .replace("127.0.0.1:9000", `127.0.0.1:${new URL(upstream).port}`)
    .replace("127.0.0.1:8000", `127.0.0.1:${port}`);
  const http = ["access_log off;", ...temp, change(documented, folder, port)].join("\n");
  const around = `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log; events {}`;
  await mkdir(join(folder, "logs"));
  await writeFile(join(folder, "nginx.conf"), `${around}\nhttp {\n${http}\n}\n`);
  const child = spawn(findProgram("nginx") as string, ["-p", folder, "-c", join(folder, "nginx.conf")], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const said: string[] = [];
  child.stderr.setEncoding("utf8").on("data", (text: string) => said.push(text));
  const ended = new Promise<void>((done) => void child.once("close", () => done()));
  while (!(await answers(port))) {
    if (child.exitCode !== null) throw new Error(`nginx ended: ${said.join("")}`);
  }
  return {
    port,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const answers = (port: number): Promise<boolean> =>
  new Promise((tell) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      tell(true);
    });
    socket.once("error", () => tell(false));
  });
