import { runProgram } from "./program.ts";

const exitCode = await runProgram(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  columns: process.stdout.columns ?? 80,
});
// Ends what is still under way, too, such as a program that hangs: everything was printed.
process.exit(exitCode);
