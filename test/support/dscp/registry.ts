import { FEATURES as ALL } from "../../../src/features/registry.ts";
import type { Feature } from "../../../src/features/seam/feature.ts";
import { dscp } from "./feature.ts";

/** The features of the product, and the one of the tests. */
export const FEATURES: readonly Feature[] = [...ALL, dscp];
