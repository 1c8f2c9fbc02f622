// Bundles CodeMirror into one module, with the licences of what is in it beside it.
import { build } from "esbuild";
import { readFileSync, writeFileSync } from "node:fs";

const folder = new URL("../vendor/codemirror/", import.meta.url).pathname;
const { metafile } = await build({
  entryPoints: ["codemirror.js"],
  outfile: `${folder}codemirror.js`,
  bundle: true,
  format: "esm",
  legalComments: "none",
  metafile: true,
  minify: true,
  target: "es2022",
});
const packages = [...new Set(
  Object.keys(metafile.inputs).map((path) => path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1]).filter(Boolean),
)].sort();
const licences = packages.map((name) => {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
  return `${name} ${version}\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}\n`;
});
writeFileSync(`${folder}LICENSE`, licences.join("\n\n"));
