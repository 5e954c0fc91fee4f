// relay dev: what is saved in a folder is published, delivered and printed; the developer's own server gets it too.
import { createServer, type IncomingHttpHeaders } from "node:http";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { createServer as createTcp, type AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import { publicationOf } from "../../cli/local/desk.ts";
import { ends } from "../support/command-stage.ts";
import { runCommand, startCommand, type Running } from "../support/command.ts";
import { testFolder } from "../support/folder.ts";
import { until } from "../support/until.ts";

const start = (cwd: string, ...args: string[]): Running => startCommand(["dev", "--port", "0", ...args], { cwd });

/** Resolves to the secret once files that are saved are published. */
async function ready(dev: Running): Promise<string> {
  const [, secret = ""] = await dev.waitFor(/deliveries are signed with (whsec_\S+)\n/);
  return secret;
}

describe.concurrent("relay dev", { timeout: 180_000 }, () => {
  it("publishes what is saved, prints each attempt, and keeps its secret over a restart", async () => {
    const cwd = testFolder();
    let secret: string;
    {
      await using dev = start(cwd, "--status", "500,200");
      secret = await ready(dev);
      expect(dev.stderr()).toContain("made ");
      await writeFile(join(cwd, "events", "deposit.paid.json"), '{ "amount": 12.50 }\n');
      await dev.waitFor(/attempt 2 {2}signature verified {2}answered 200\n.*"data":\{ "amount": 12\.50 \}/);
      expect(dev.stdout()).toMatch(/deposit\.paid {2}evt_\w+ {2}attempt 1 {2}signature verified {2}answered 500\n/);
      dev.kill("SIGINT");
      expect((await dev.ended).code).toBe(0);
    }
    for (const name of ["subscription.json", "ca-key.pem"])
      expect((await stat(join(cwd, ".relay-dev", name))).mode & 0o077).toBe(0);
    expect(await readFile(join(cwd, ".relay-dev", ".gitignore"), "utf8")).toBe("*\n");
    await using again = start(cwd);
    expect(await ready(again)).toBe(secret);
    // A file that stood there is not published a second time.
    expect(again.stderr()).not.toContain("published");
    await writeFile(join(cwd, "events", "order.created.json"), "{}");
    await again.waitFor(/order\.created .* signature verified {2}answered 200/);
  });

  it("names a file that cannot be published, and goes on with the next save", async () => {
    const cwd = testFolder();
    await mkdir(join(cwd, "saved"));
    await using dev = start(cwd, "saved", "--json");
    await ready(dev);
    await writeFile(join(cwd, "saved", "broken.json"), '{"a":');
    await dev.waitFor(/broken\.json is not published: it is no JSON/);
    await writeFile(join(cwd, "saved", "notes.txt"), "not this one");
    await writeFile(join(cwd, "saved", "no name!.json"), "{}");
    // The relay's message stands in lines of its own, as at `relay publish`.
    await dev.waitFor(/no name!\.json is not published: .+\n {2}.+\n {2}type: must be /);
    await writeFile(join(cwd, "saved", "latin1.json"), Buffer.from('{"name":"José"}', "latin1"));
    await dev.waitFor(/latin1\.json is not published: it is not UTF-8/);
    await writeFile(join(cwd, "saved", "broken.json"), '{"type":"order.paid","id":"own-1","data":[1.0]}');
    await dev.waitFor(/"event":"order\.paid","id":"own-1","attempt":1,"signature":"verified","answered":200/);
    expect(dev.stdout()).not.toContain("not this one");
  });

  it("passes deliveries on to a server of one's own, byte for byte, and tries again while it is away", async () => {
    const cwd = testFolder();
    const arrived: { readonly body: string; readonly headers: IncomingHttpHeaders }[] = [];
    const server = createServer((request, response) => {
      void text(request).then((body) => {
        arrived.push({ body, headers: request.headers });
        response.writeHead(arrived.length === 1 ? 503 : 204).end();
      });
    });
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    try {
      await using dev = start(cwd, "--to", `http://127.0.0.1:${port}/hook?from=relay`);
      const secret = await ready(dev);
      await writeFile(join(cwd, "events", "order.created.json"), '{"n": 1.0}');
      await dev.waitFor(/attempt 1 .*answered 503/);
      await dev.waitFor(/attempt 2 .*answered 204/);
      const [{ body, headers } = { body: "", headers: {} }] = arrived;
      expect(body).toContain('"data":{"n": 1.0}');
      expect(new Webhook(secret).verify(body, headers as Record<string, string>)).toMatchObject({
        type: "order.created",
      });
      server.closeAllConnections();
      await new Promise((resolve) => void server.close(resolve));
      await writeFile(join(cwd, "events", "order.created.json"), '{"n": 2}');
      await dev.waitFor(/does not answer: .*ECONNREFUSED/);
      await dev.waitFor(/attempt 1 .*answered 502/);
    } finally {
      server.close();
    }
  });

  it("leaves no relay behind when it is killed", async () => {
    const cwd = testFolder();
    await using dev = start(cwd);
    await ready(dev);
    const [, url = ""] = /relay is at (http\S+),/.exec(dev.stderr()) ?? [];
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    dev.kill("SIGKILL");
    await until(() =>
      fetch(`${url}/healthz`)
        .then(() => false)
        .catch(() => true),
    );
  });

  it("says why it cannot start", async () => {
    const cwd = testFolder();
    const taken = createTcp();
    await new Promise<void>((resolve) => void taken.listen(0, "127.0.0.1", resolve));
    const { port } = taken.address() as AddressInfo;
    const [busy, wrong, folder] = await Promise.all([
      runCommand(["dev", "--port", String(port)], { cwd }),
      runCommand(["dev", "--to", "localhost:3000"], { cwd }),
      runCommand(["dev", "--dir", "/dev/null/x"], { cwd }),
    ]);
    taken.close();
    expect(busy.code).toBe(69);
    expect(busy.stderr).toContain(String(port));
    expect(wrong).toMatchObject(ends(64, "--to must be an http:// or https:// URL"));
    expect(folder).toMatchObject(ends(69, "cannot keep anything in /dev/null/x"));
  });
});

describe("a saved file", () => {
  it("is the data of an event whose type is its name", () => {
    expect(publicationOf("a.b.json", ' {"n": 1.0}\n', "key_dev")).toBe(
      '{"type":"a.b","keyId":"key_dev","data":{"n": 1.0}}',
    );
    expect(publicationOf("a.json", '{"type":"b"}', "key_dev")).toBe(
      '{"type":"a","keyId":"key_dev","data":{"type":"b"}}',
    );
    expect(publicationOf("a.json", "[]", "key_dev")).toBe('{"type":"a","keyId":"key_dev","data":[]}');
  });

  it("is a publication where it has a type and data", () => {
    const own = '{"type":"b","keyId":"key_1","data":null}';
    expect(publicationOf("a.json", own, "key_dev")).toBe(own);
    expect(publicationOf("a.json", ' { "type":"b","data":1.0}', "key_dev")).toBe(
      ' {"keyId":"key_dev", "type":"b","data":1.0}',
    );
  });

  it("that is no JSON is refused", () => {
    for (const text of ["", "{", "{} {}"]) expect(() => publicationOf("a.json", text, "key_dev")).toThrow(SyntaxError);
  });
});
