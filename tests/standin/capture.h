// The rules of stream capture: who may call what while a stream captures, and what a captured call
// becomes. All functions want state().mutex held.
#pragma once

#include <string_view>

#include "graph.h"

namespace standin {

// For a call that stream capture may forbid, by the name it has in the behaviour data
// ("cuMemAlloc"). `context` restricts it to captures of that context. Returns the error, and ends
// the validity of the captures that do not survive it.
CUresult CheckAllowedDuringCapture(std::string_view function, const Context* context = nullptr);

// For use of the legacy stream while a blocking stream of its context captures.
CUresult CheckLegacyUse(const Stream& stream);

// For a synchronous call on a stream, a copy for example.
CUresult CheckSynchronousUse(const Stream& stream);

// Adds a node behind what the stream has captured.
CUresult AddNode(Stream& stream, NodeParameters parameters);

// Whether all that a capturing stream has captured comes before what another stream of its capture
// captured last: it has joined that one again, or done nothing since it left it.
bool HasJoined(const Stream& stream);

// Whether all that the capture's streams have captured comes before what its origin captured last.
// Nodes that the program added or let go of by
// hand do not matter.
bool AllJoined(const Capture& capture);

// Reports case `id`; the capture stays valid only if it survives that.
CUresult FailCapture(Capture& capture, std::string_view id);

// The stream and all that joined its capture leave it. A graph that was to be the program's and is
// not its own by now ends.
void LeaveCapture(std::shared_ptr<Capture> capture);

}  // namespace standin
