// The page's behaviours; each module starts itself. Pages load further modules of their own.
import "./time.js";
import "./toast.js";
import "./live.js";
import "./keys.js";
import "./copy.js";
