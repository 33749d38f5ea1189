// Is loaded into a command before its program (`--import`). Its timers of 30 s, which limit what nft may take to
// list, fire after one second.
import { syncBuiltinESMExports } from "node:module";
import timers from "node:timers/promises";

const { setTimeout } = timers;
timers.setTimeout = (milliseconds, ...rest) =>
  setTimeout(milliseconds === 30_000 ? 1000 : milliseconds, ...rest);
syncBuiltinESMExports();
