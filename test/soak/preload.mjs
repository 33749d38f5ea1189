// Is loaded into the daemon before its program (`--import`), with a folder as SOAK_FOLDER:
// - its wall clock is off by the milliseconds in the file `clock-offset`, if there is one. The machine's
//   clock stays.
// - SIGUSR2 collects all garbage twice, so that the second time moves all objects together. 3 s later, when
//   pages have gone back to the system, it writes the file `heap`: what process.memoryUsage() tells then, as
//   JSON, as `anonymous` what is resident without a file, and as `code` what of the heap is compiled code.
//   All are of one moment: the engine's reserve grows and shrinks.
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { getHeapCodeStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

const PERIOD = 100;
const RETURNED = 3000;
const folder = process.env.SOAK_FOLDER;
const RealDate = Date;
let offset = 0;

globalThis.Date = class ShiftedDate extends RealDate {
  constructor(...words) {
    if (words.length === 0) super(RealDate.now() + offset);
    else super(...words);
  }

  static now() {
    return RealDate.now() + offset;
  }
};

function readOffset() {
  try {
    offset = Number(readFileSync(join(folder, "clock-offset"), "utf8"));
  } catch {
    offset = 0;
  }
}
readOffset();
setInterval(readOffset, PERIOD).unref();

process.on("SIGUSR2", () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  collect();
  setTimeout(() => {
    setFlagsFromString("--compact-on-every-full-gc");
    collect();
    setFlagsFromString("--no-compact-on-every-full-gc");
  }, 200);
  setTimeout(() => {
    const [, kilobytes = "0"] = /^RssAnon:\s+(\d+) kB/m.exec(readFileSync("/proc/self/status", "utf8")) ?? [];
    const { code_and_metadata_size, bytecode_and_metadata_size } = getHeapCodeStatistics();
    const file = join(folder, "heap");
    writeFileSync(
      `${file}.new`,
      JSON.stringify({
        ...process.memoryUsage(),
        anonymous: Number(kilobytes) * 1024,
        code: code_and_metadata_size + bytecode_and_metadata_size,
      }),
    );
    renameSync(`${file}.new`, file);
  }, RETURNED);
});
