// Runs a receiver of docs/receivers.md: one that listens itself, or a function of a Fetch request, which is served here.
import { createServer } from "node:http";
import { Readable } from "node:stream";

const [door, file] = process.argv.slice(2);
const { resolveOwnModules } = await import(door);
resolveOwnModules("");
const { default: app, POST } = await import(file);
const answer = POST ?? app?.fetch;
if (answer !== undefined) {
  const serve = async (req, res) => {
    const { url, method, headers } = req;
    const body = method === "POST" ? Readable.toWeb(req) : undefined;
    const { status } = await answer(new Request(`http://localhost${url}`, { method, headers, body, duplex: "half" }));
    res.writeHead(status).end();
  };
  const server = createServer((req, res) => void serve(req, res));
  server.listen(process.env.PORT);
}
