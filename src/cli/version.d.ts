/** The version of the package, put in place by the bundler. */
declare const __VERSION__: string;
