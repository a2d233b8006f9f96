// What happens when a graph runs in its stream: its nodes' work, one after the other, in an order
// that their edges allow.
#include "contents.h"
#include "graph.h"
#include "launch.h"
#include "work.h"

namespace standin {
namespace {

template <typename Value>
void Set(const CUDA_MEMSET_NODE_PARAMS& set) {
  SetRows(set.dst, set.pitch, static_cast<Value>(set.value), set.width, set.height);
}

void Mark(const FencePtr& fence) {
  const Lock lock(state().mutex);
  fence->done = true;
  fence->when = Clock::now();
  state().changed.notify_all();
}

// Goes round while the condition holds. A round in which no kernel has set it is the last: the
// kernel that ends the loop on a GPU is one that computes nothing here (kernels.h).
void RunLoop(const Condition& condition, const Plan& body, std::chrono::nanoseconds delay) {
  while (condition.value != 0) {
    const std::uint64_t sets = condition.sets;
    RunPlan(body, delay);
    if (condition.sets == sets) break;
  }
}

void RunConditional(const ConditionalNode& node, const std::vector<Plan>& bodies,
                    std::chrono::nanoseconds delay) {
  const std::atomic<unsigned>& value = node.condition->value;
  switch (node.type) {
    case ConditionType::kIf:
      if (value != 0) {
        RunPlan(bodies[0], delay);
      } else if (bodies.size() > 1) {
        RunPlan(bodies[1], delay);
      }
      break;
    case ConditionType::kWhile:
      RunLoop(*node.condition, bodies[0], delay);
      break;
    case ConditionType::kSwitch:
      if (const unsigned choice = value; choice < bodies.size()) RunPlan(bodies[choice], delay);
      break;
  }
}

void RunNode(const PlannedNode& node, std::chrono::nanoseconds delay) {
  const NodeParameters& parameters = *node.parameters;
  if (const auto* kernel = std::get_if<KernelNode>(&parameters)) {
    RunKernel(*kernel);
  } else if (const auto* copy = std::get_if<CopyNode>(&parameters)) {
    RunCopy(copy->copy);
  } else if (const auto* set = std::get_if<SetNode>(&parameters)) {
    RunSet(set->set);
  } else if (const auto* host = std::get_if<HostNode>(&parameters)) {
    if (host->function) host->function(host->data);
  } else if (const auto* conditional = std::get_if<ConditionalNode>(&parameters)) {
    RunConditional(*conditional, node.bodies, delay);
  } else if (node.record) {
    Mark(node.record);
  } else if (!node.wait.empty()) {
    Lock lock(state().mutex);
    Ask(node.wait);
    state().changed.wait(lock, [&] { return AllDone(node.wait); });
  }
}

void AddToPlan(const ExecGraph& graph, const FencePtr& launch, Plan& plan) {
  for (const std::size_t index : graph.order) {
    const ExecNode& node = graph.nodes[index];
    if (std::holds_alternative<ChildNode>(*node.parameters)) {
      AddToPlan(node.inner.front(), launch, plan);
      continue;
    }
    static const auto empty = std::make_shared<const NodeParameters>();
    PlannedNode planned;
    planned.parameters = node.enabled ? node.parameters : empty;
    for (const ExecGraph& body : node.inner) planned.bodies.push_back(PlanOf(body, launch));
    std::shared_ptr<Event> event;
    if (const auto* wait = std::get_if<WaitNode>(node.parameters.get())) {
      if (FindEvent(wait->event, event) == CUDA_SUCCESS) planned.wait = event->fences;
    } else if (const auto* record = std::get_if<RecordNode>(node.parameters.get())) {
      planned.record = std::make_shared<Fence>();
      planned.record->launch = launch;
      if (FindEvent(record->event, event) == CUDA_SUCCESS) {
        event->capture = nullptr;
        event->fences = {planned.record};
        event->recorded = true;
      }
    }
    plan.push_back(std::move(planned));
  }
}

}  // namespace

Plan PlanOf(const ExecGraph& graph, const FencePtr& launch) {
  Plan plan;
  AddToPlan(graph, launch, plan);
  return plan;
}

void RunPlan(const Plan& plan, std::chrono::nanoseconds delay) {
  for (std::size_t i = 0; i < plan.size(); ++i) {
    // The first node's delay is that of the launch.
    if (i > 0 && delay.count() > 0) std::this_thread::sleep_for(delay);
    RunNode(plan[i], delay);
  }
}

void RunSet(const CUDA_MEMSET_NODE_PARAMS& set) {
  if (set.elementSize == 1) Set<unsigned char>(set);
  if (set.elementSize == 2) Set<unsigned short>(set);
  if (set.elementSize == 4) Set<unsigned int>(set);
}

}  // namespace standin
