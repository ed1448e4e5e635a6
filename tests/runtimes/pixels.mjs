// node pixels.mjs FILE...: writes the pixels that docs/guides/runtimes/classify.mjs reads to FILE.raw.
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const sharp = createRequire(`${process.cwd()}/`)("sharp");
for (const path of process.argv.slice(2))
  writeFileSync(`${path}.raw`, await sharp(path).rotate().toColourspace("srgb").removeAlpha().raw().toBuffer());
