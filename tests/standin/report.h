// The report that STANDIN_REPORT asks for.
#pragma once

namespace standin {

// Arranges for the report to be written when the process ends by exit(). Not in a forked child.
void StartReport();

}  // namespace standin
