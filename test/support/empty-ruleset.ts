import { execaSync } from "execa";

// Runs before each test file, which may share its network namespace with an earlier one.
execaSync("nft", ["flush", "ruleset"]);
