import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import type { FilesResult } from "../../kube/files/object-gatherer.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { crossWarnings, serviceSubjects } from "./cross-warnings.ts";
import { serviceWarnings } from "./service-warnings.ts";

/** Objects that were read from files, and the ruleset rendered from them. */
export interface CheckInput {
  readonly files: FilesResult;
  readonly cache: ObjectCache;
  readonly state: RulesetState;
}

/** Returns warnings about values that are valid and most likely mistakes, unsorted. The files must be read thoroughly. */
export function checkWarnings({ files, cache, state }: CheckInput): Diagnostic[] {
  const subjects = [...serviceSubjects(files.objects).values()];
  return [
    ...subjects.flatMap((subject) => serviceWarnings(subject, subject.value, cache)),
    ...crossWarnings(files, state.conflicts()),
  ];
}
