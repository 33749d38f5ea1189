// Is loaded into the daemon before its program (`--import`). Its random numbers are small, so that pauses
// which spread the requests of thousands of nodes over up to 30 s take milliseconds, and the same time in
// each run.
Math.random = () => 0.01;
