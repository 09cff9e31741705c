// Ctrl-C and SIGTERM as a wish that a batch asks for between two files. A second one ends the
// process as usual; results are written to temporary names, so even that leaves no half file under
// a final name.
#pragma once

namespace apps {

void watch_interrupts();
bool is_interrupted();

}  // namespace apps
