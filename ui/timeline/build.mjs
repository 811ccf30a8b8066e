// Builds the bundle that the pages load: `npm run build`; with --check, says whether the committed one is what would be built.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const TARGET = new URL("../assets/stallscope_timeline.js", import.meta.url);
const SOURCES = new URL("src/", import.meta.url);

/** A digest of every source's name and text, which tests/repository compares where there is no esbuild. */
function digest() {
  const hash = createHash("sha256");
  for (const name of readdirSync(SOURCES).filter((one) => one.endsWith(".js")).sort()) {
    hash.update(`${name}\n`).update(readFileSync(new URL(name, SOURCES)));
  }
  return hash.digest("hex");
}

const built = await build({
  entryPoints: [new URL("component.js", SOURCES).pathname], bundle: true, minify: true, format: "iife", target: "es2020", write: false,
  banner: { js: `// Built from ui/timeline/src by npm run build. Sources: sha256 ${digest()}` },
});
const text = built.outputFiles[0].text;
if (process.argv.includes("--check")) {
  if (readFileSync(TARGET, "utf8") !== text) {
    console.error("ui/assets/stallscope_timeline.js is out of date: run npm run build in ui/timeline");
    process.exit(1);
  }
} else writeFileSync(TARGET, text);
