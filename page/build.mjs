// Builds the page into crates/server/page/. `node build.mjs --check` compares that folder with what the sources give.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.env.ANABRANCH_PAGE_OUT ?? join(here, "../crates/server/page");
const FIRST_SCREEN_MAX = 60 * 1024;
const ALL_MAX = 250 * 1024;
const TYPES = { txt: "text/plain; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml", html: "text/html; charset=utf-8" };

/** gzip without a time and without the name of the system, so that the same input gives the same bytes. */
function zipped(content) {
  const bytes = gzipSync(content, { level: 9 });
  bytes.fill(0, 4, 8);
  bytes[9] = 255;
  return bytes;
}

function digest(content) {
  return createHash("sha256").update(content).digest("hex");
}

async function bundle() {
  const result = await esbuild.build({
    absWorkingDir: here,
    entryPoints: [{ in: "src/main.tsx", out: "main" }, { in: "src/css/main.css", out: "style" }],
    bundle: true,
    splitting: true,
    format: "esm",
    minify: true,
    sourcemap: false,
    legalComments: "none",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    charset: "utf8",
    define: { "process.env.NODE_ENV": '"production"' },
    entryNames: "[name]-[hash]",
    chunkNames: "part-[hash]",
    outdir: join(here, "out"),
    metafile: true,
    write: false,
    logLevel: "warning",
  });
  const files = new Map(result.outputFiles.map((file) => [file.path.split("/").pop(), Buffer.from(file.contents)]));
  const parts = new Map(Object.entries(result.metafile.outputs).map(([path, output]) => [path.split("/").pop(), output]));
  return { files, parts };
}

/** Files that the first screen loads: the entry and all that it imports statically. */
function firstScreen(entry, parts) {
  const found = new Set([entry]);
  for (const name of found) {
    for (const part of parts.get(name)?.imports ?? []) {
      if (part.kind === "import-statement") found.add(part.path.split("/").pop());
    }
  }
  return found;
}

/** The licences of the libraries that are in the bundles ask to go with them. */
function licences(parts) {
  const inputs = [...parts.values()].flatMap((part) => Object.keys(part.inputs));
  const found = inputs.map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]).filter((name) => name !== undefined);
  const texts = [...new Set(found)].sort().map((name) => {
    const folder = join(here, "node_modules", name);
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    return `${name} ${version} (${license})\n\n${file === undefined ? "" : readFileSync(join(folder, file), "utf8").trim()}\n`;
  });
  return Buffer.from(texts.join("\n----\n\n"));
}

/** A file whose name has a hash of its content. */
function named(name, content) {
  const [stem, ending] = name.split(".");
  return `${stem}-${digest(content).slice(0, 8).toUpperCase()}.${ending}`;
}

/** The list of the files for the server, as rustfmt writes it. */
function rust({ build, files }) {
  const others = files.filter((file) => file.name !== "index.html");
  const entry = ({ name, content_type }) => `    File::gzip("${name}", "${content_type}", include_bytes!("${name}.gz")),\n`;
  return `//! The files of the page: written by page/build.mjs.

use super::File;

/// A hash over all files.
pub(in crate::http) const BUILD: &str = "${build}";

pub(super) static INDEX: &[u8] = include_bytes!("index.html");

pub(super) static FILES: [File; ${others.length}] = [
${others.map(entry).join("")}];
`;
}

async function build() {
  const { files, parts } = await bundle();
  const icon = readFileSync(join(here, "src/icon.svg"));
  const iconName = named("icon.svg", icon);
  files.set(iconName, icon);
  const licence = licences(parts);
  const licenceName = named("licences.txt", licence);
  files.set(licenceName, licence);
  const names = [...files.keys()].sort();
  const script = names.find((name) => /^main-.*\.js$/.test(name));
  const style = names.find((name) => /^style-.*\.css$/.test(name));
  const template = readFileSync(join(here, "src/index.html"), "utf8");
  const first = firstScreen(script, parts);
  // The parts of the first screen are fetched together, not one after the other.
  const preload = [...first].filter((name) => name !== script).sort();
  const links = preload.map((name) => `<link rel="modulepreload" href="/page/${name}">`).join("\n    ");
  const html = template.replace("{SCRIPT}", script).replace("{STYLE}", style).replace("{ICON}", iconName).replace("{LICENCES}", licenceName).replace("{PRELOAD}", links);
  const build = digest(html + names.map((name) => name + digest(files.get(name))).join("\n")).slice(0, 16);
  files.set("index.html", Buffer.from(html.replace("{BUILD}", build)));

  const written = new Map();
  const listed = [];
  for (const [name, content] of [...files].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const packed = zipped(content);
    written.set(name === "index.html" ? name : `${name}.gz`, name === "index.html" ? content : packed);
    listed.push({ name, content_type: TYPES[name.split(".").pop()], bytes: content.length, gzip_bytes: packed.length, first: name === "index.html" || name === style || first.has(name) });
  }
  const manifest = { build, files: listed };
  written.set("manifest.json", Buffer.from(JSON.stringify(manifest, null, 2) + "\n"));
  written.set("files.rs", Buffer.from(rust(manifest)));
  return { manifest, written };
}

function sum(files) {
  return files.reduce((total, file) => total + file.gzip_bytes, 0);
}

function plain(name, content) {
  return name.endsWith(".gz") ? gunzipSync(content) : content;
}

/** The committed files may have been compressed by another release of zlib: compare what is in them. */
function compare(written) {
  const present = readdirSync(out).sort();
  const wanted = [...written.keys()].sort();
  const withoutSizes = (content) => String(content).replace(/"gzip_bytes": \d+/g, "");
  const isSame = (name) => {
    const [a, b] = [plain(name, readFileSync(join(out, name))), plain(name, written.get(name))];
    return name === "manifest.json" ? withoutSizes(a) === withoutSizes(b) : a.equals(b);
  };
  return present.join() === wanted.join() && wanted.every(isSame);
}

const { manifest, written } = await build();
const [first, all] = [sum(manifest.files.filter((file) => file.first)), sum(manifest.files)];
console.log(`build ${manifest.build}: first screen ${(first / 1024).toFixed(1)} KB, all ${(all / 1024).toFixed(1)} KB gzip, ${manifest.files.length} files`);
if (first > FIRST_SCREEN_MAX || all > ALL_MAX) {
  console.error(`over the budget: first screen ${FIRST_SCREEN_MAX / 1024} KB, all ${ALL_MAX / 1024} KB`);
  process.exit(1);
}
if (process.argv.includes("--check")) {
  if (!compare(written)) {
    console.error("crates/server/page/ is not what page/ gives: run `npm ci && node build.mjs` in page/, and commit the result");
    process.exit(1);
  }
} else {
  mkdirSync(out, { recursive: true });
  // The new files first, then those that nothing names any more: a build of the server at the same time finds all that it needs.
  for (const [name, content] of written) writeFileSync(join(out, name), content);
  for (const name of readdirSync(out)) if (!written.has(name)) rmSync(join(out, name));
}
