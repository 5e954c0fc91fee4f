// Says of each folder that is named whether the receiver of the guide accepts the delivery in it.
import { readFileSync } from "node:fs";
import { verify } from "./verify.mjs";

for (const folder of process.argv.slice(2)) {
  const lines = readFileSync(`${folder}/headers`, "utf8").trimEnd().split("\n");
  const headers = Object.fromEntries(lines.map((line) => line.split(": ")));
  process.stdout.write(
    `${verify(readFileSync(`${folder}/body`), headers, readFileSync(`${folder}/secret`, "utf8"))}\n`,
  );
}
