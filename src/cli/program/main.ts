import { styleFor } from "../terminal.ts";
import { runProgram } from "./program.ts";

const { columns } = styleFor(process.stdout, process.env);
const exitCode = await runProgram(process.argv.slice(2), {
  stdout: process.stdout,
  stderr: process.stderr,
  columns: Number.isFinite(columns) ? columns : 80,
});
// Everything is printed. Does not wait for anything that still runs, such as a program that hangs.
process.exit(exitCode);
