import { AppError } from "../base/errors.ts";
import { type Argv, textArgument } from "./command.ts";

/** The form that `--output` asks for; the first of `formats` when it was not given. Throws AppError BAD_ARGUMENT. */
export function outputFormat<Format extends string>(argv: Argv, formats: readonly [Format, ...Format[]]): Format {
  const given = textArgument(argv, "output");
  if (given === undefined) return formats[0];
  const format = formats.find((name) => name === given);
  if (format !== undefined) return format;
  throw new AppError("BAD_ARGUMENT", `--output is ${JSON.stringify(given)}: must be one of ${formats.join(", ")}`);
}
