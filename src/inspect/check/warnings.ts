import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import type { FilesResult } from "../../kube/files/object-gatherer.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { crossWarnings, serviceSubjects } from "./cross-warnings.ts";
import { serviceWarnings } from "./service-warnings.ts";

/** Objects as they were read from files, and what they render to. */
export interface CheckInput {
  readonly files: FilesResult;
  readonly cache: ObjectCache;
  readonly state: RulesetState;
}

/** What is legal and surely wrong in objects that were read thoroughly, in no particular order. */
export function checkWarnings({ files, cache, state }: CheckInput): Diagnostic[] {
  const subjects = [...serviceSubjects(files.objects).values()];
  return [
    ...subjects.flatMap((subject) => serviceWarnings(subject, subject.value, cache)),
    ...crossWarnings(files, state.conflicts()),
  ];
}
