/** The version of the package, inserted by the bundler. */
declare const __VERSION__: string;
