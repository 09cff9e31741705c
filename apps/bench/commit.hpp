// The commit that this program was built from, for the record of a benchmark.
#pragma once

namespace apps {

extern const char* const
    kCommit;  // "unknown" outside a git clone; ends in "+" where files were changed since

}  // namespace apps
