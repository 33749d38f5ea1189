/** The labels of one series. */
export type Labels = Readonly<Record<string, string>>;

/** A value for one series: the increase of a counter, the value of a gauge, an observation of a histogram. */
export interface Sample {
  readonly labels: Labels;
  readonly value: number;
}

/** Makes one sample. */
export function one(value: number, labels: Labels = {}): readonly Sample[] {
  return [{ labels, value }];
}
