import type { Problem } from "../../kube/files-problem.ts";
import type { DesiredFromFiles } from "../desired.ts";
import { crossWarnings, serviceSubjects } from "./cross-warnings.ts";
import { serviceWarnings } from "./service-warnings.ts";

/** What is legal and surely wrong in objects that were read thoroughly, in no particular order. */
export function checkWarnings({ files, world, state }: Pick<DesiredFromFiles, "files" | "world" | "state">): Problem[] {
  const subjects = [...serviceSubjects(files.objects).values()];
  return [
    ...subjects.flatMap((subject) => serviceWarnings(subject, subject.value, world)),
    ...crossWarnings(files, state.conflicts()),
  ];
}
