import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

interface WorkflowParser {
  readonly parseWorkflow: (file: { name: string; content: string }, trace: object) => ParsedWorkflow;
  readonly NoOperationTraceWriter: new () => object;
}

interface ParsedWorkflow {
  readonly context: { readonly errors: { getErrors(): readonly { readonly message: string }[] } };
}

/**
 * GitHub's own parser with its schema. It is bundled first, because it imports JSON in a way that Node
 * refuses.
 */
async function loadParser(): Promise<WorkflowParser> {
  const contents = 'export * from "@actions/workflow-parser";';
  const stdin = { contents, resolveDir: fileURLToPath(new URL("../..", import.meta.url)) };
  const { outputFiles } = await build({ stdin, bundle: true, format: "cjs", platform: "node", write: false });
  const module = { exports: {} as WorkflowParser };
  new Function("module", "require", outputFiles[0]?.text ?? "")(module, createRequire(import.meta.url));
  return module.exports;
}

const parser = await loadParser();

/** Returns the errors that GitHub would find in a workflow: unknown keys, wrong types, wrong expressions. */
export function workflowErrors(content: string): string[] {
  const { context } = parser.parseWorkflow(
    { name: "workflow.yaml", content },
    new parser.NoOperationTraceWriter(),
  );
  return context.errors.getErrors().map(({ message }) => message);
}
