import type { Feature, ObjectAnnotation } from "../../src/features/seam/feature.ts";

/** Returns the rows of the annotations of some features in deploy/reference.md. */
export function annotationRows(features: readonly Feature[]): string[][] {
  return features.flatMap(({ name: feature, annotations = [], sliceAnnotations = [] }) => {
    const row = ({ name, values, absent, cost }: ObjectAnnotation, writers: string): string[] => {
      return [`\`${name}\``, values, absent, `\`${feature}\``, `who may write ${writers}`, cost];
    };
    return [
      ...annotations.map((annotation) => row(annotation, "Services")),
      ...sliceAnnotations.map((annotation) => row(annotation, "EndpointSlices")),
    ];
  });
}
