import { AppError } from "../base/errors.ts";
import { quoted } from "../base/schema-error.ts";
import type { ServiceArgument } from "../inspect/explain/query.ts";
import { serviceName } from "../model/ids.ts";
import { type Argv, textArgument } from "./command.ts";

const LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
const FORM = new RegExp(`^(?:(${LABEL})/)?(${LABEL})(?::(${LABEL}))?$`);

/**
 * The Service or Service port of `--service namespace/name[:port]`, undefined without the flag. The namespace
 * defaults to `default`.
 * @throws AppError BAD_ARGUMENT
 */
export function serviceArgument(argv: Argv): ServiceArgument | undefined {
  const text = textArgument(argv, "service");
  if (text === undefined) return undefined;
  const [, namespace = "default", name, port] = FORM.exec(text) ?? [];
  if (name === undefined) {
    throw new AppError("BAD_ARGUMENT", `--service must be namespace/name or namespace/name:port, not ${quoted(text)}`);
  }
  return { service: serviceName(namespace, name), ...(port === undefined ? {} : { port }) };
}
