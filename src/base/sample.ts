/** The labels of one series. */
export type Labels = Readonly<Record<string, string>>;

/** A value for one series: the increase of a counter, the value of a gauge, an observation of a histogram. */
export interface Sample {
  /** The name of its series, if that is not the metric's: those of a histogram have three names. */
  readonly metricName?: string;
  readonly labels: Labels;
  readonly value: number;
}

/** Makes one sample. */
export function one(value: number, labels: Labels = {}): readonly Sample[] {
  return [{ labels, value }];
}
