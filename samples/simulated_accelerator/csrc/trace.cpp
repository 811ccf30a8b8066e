// The route of PrivateUse1 devices into torch.profiler: a child profiler of Kineto.
#include "trace.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>

#include "clock.h"

// After clock.h and the system headers; from the torch wheel.
#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

namespace sim {
namespace {

using libkineto::ActivityType;

struct HostCall {
  const char* name;
  const std::string* subject;
  int64_t start_ns;
  int64_t end_ns;
  int64_t bytes;
  uint64_t host_operation;
  uint32_t correlation;
  int32_t thread;
  bool launches;
};

struct DeviceRecord {
  const std::string* name;
  int64_t start_ns;
  int64_t end_ns;
  int64_t bytes;
  uint64_t host_operation;
  uint32_t correlation;
  int32_t device;
  int32_t stream;
  Queue queue;
  ActivityType type;
  // Waits only: which stream, and the call that recorded the event there.
  int64_t waits_for = 0;
  uint32_t record_correlation = 0;
};

struct Records {
  std::mutex mutex;
  std::vector<HostCall> calls;
  std::vector<DeviceRecord> operations;
};

Records& records() {
  static auto* instance = new Records();
  return *instance;
}

std::atomic<bool> active{false};
std::atomic<uint32_t> sessions{0};
std::atomic<uint32_t> last_correlation{0};

// The ops that run on this thread, innermost last. An op that was open when a profile stopped is never popped, so the
// list is cleared with the first push of another session.
struct HostOperations {
  uint32_t session = 0;
  std::vector<uint64_t> ids;
};
thread_local HostOperations host_operations;

ActivityType type_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::memcpy:
      return ActivityType::GPU_MEMCPY;
    case OperationKind::memset:
      return ActivityType::GPU_MEMSET;
    default:
      return ActivityType::CONCURRENT_KERNEL;
  }
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(std::set<ActivityType> wanted) : wanted_(std::move(wanted)) {}

  void start() override {
    start_ns_ = now_ns();
    {
      std::lock_guard lock(records().mutex);
      records().calls.clear();
      records().operations.clear();
    }
    ++sessions;
    active = true;
  }

  void stop() override {
    // What was launched while the profile ran belongs to it, also where it ends later.
    for (int device = 0; device < kDevices; ++device) {
      wait_for(device_moment(device));
    }
    active = false;
    end_ns_ = now_ns();
    std::lock_guard lock(records().mutex);
    calls_.swap(records().calls);
    operations_.swap(records().operations);
  }

  std::vector<std::string> errors() override { return {}; }
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  void processTrace(libkineto::ActivityLogger& logger) override { processTrace(logger, {}, start_ns_, end_ns_); }

  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t,
                    int64_t) override {
    buffer_.span = libkineto::TraceSpan(start_ns_, end_ns_, "sim");
    name_tracks(logger);
    if (wanted_.count(ActivityType::PRIVATEUSE1_RUNTIME)) {
      for (const HostCall& call : calls_) {
        add(call, linked).log(logger);
      }
    }
    for (const DeviceRecord& operation : operations_) {
      if (wanted_.count(operation.type) || operation.type == ActivityType::CUDA_SYNC) {
        add(operation, linked).log(logger);
      }
    }
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return std::make_unique<libkineto::CpuTraceBuffer>(std::move(buffer_));
  }

  void pushCorrelationId(uint64_t id) override {
    if (host_operations.session != sessions) {
      host_operations = {sessions, {}};
    }
    host_operations.ids.push_back(id);
  }

  void popCorrelationId() override {
    if (!host_operations.ids.empty()) {
      host_operations.ids.pop_back();
    }
  }

 private:
  using Link = libkineto::getLinkedActivityCallback;

  void name_tracks(libkineto::ActivityLogger& logger) const {
    std::set<std::pair<int32_t, int32_t>> streams;
    for (const DeviceRecord& operation : operations_) {
      streams.emplace(operation.device, operation.stream);
    }
    std::set<int32_t> named;
    for (const auto& [device, stream] : streams) {
      if (named.insert(device).second) {
        logger.handleDeviceInfo({device, device + libkineto::kExceedMaxPid, "sim", "SIM " + std::to_string(device)},
                                start_ns_);
      }
      logger.handleResourceInfo({stream, stream, device, "stream " + std::to_string(stream)}, start_ns_);
    }
  }

  libkineto::GenericTraceActivity& add(ActivityType type, const std::string& name, int64_t start, int64_t end,
                                       uint32_t correlation, uint64_t host_operation, const Link& linked) {
    buffer_.emplace_activity(buffer_.span, type, name);
    libkineto::GenericTraceActivity& activity = *buffer_.activities.back();
    activity.startTime = start;
    activity.endTime = end;
    activity.linked = linked && host_operation != 0 ? linked(static_cast<int32_t>(host_operation)) : nullptr;
    // Kineto writes the id as that of the op where there is none; ids of ops and of calls are not the same numbers.
    activity.id = activity.linked == nullptr ? 0 : static_cast<int32_t>(correlation);
    activity.addMetadata("correlation", correlation);
    return activity;
  }

  libkineto::GenericTraceActivity& add(const HostCall& call, const Link& linked) {
    auto& activity = add(ActivityType::PRIVATEUSE1_RUNTIME, call.name, call.start_ns, call.end_ns, call.correlation,
                         call.host_operation, linked);
    activity.device = getpid();
    activity.resource = call.thread;
    activity.threadId = call.thread;
    if (call.launches) {
      activity.flow.id = call.correlation;
      activity.flow.type = libkineto::kLinkAsyncCpuGpu;
      activity.flow.start = 1;
    }
    if (call.bytes >= 0) {
      activity.addMetadata("bytes", call.bytes);
    }
    if (call.subject != nullptr) {
      activity.addMetadataQuoted("kernel", *call.subject);
    }
    return activity;
  }

  libkineto::GenericTraceActivity& add(const DeviceRecord& operation, const Link& linked) {
    auto& activity = add(operation.type, *operation.name, operation.start_ns, operation.end_ns, operation.correlation,
                         operation.host_operation, linked);
    activity.device = operation.device;
    activity.resource = operation.stream;
    activity.addMetadata("device", operation.device);
    activity.addMetadata("stream", operation.stream);
    if (operation.type == ActivityType::CUDA_SYNC) {
      activity.addMetadata("wait_on_stream", operation.waits_for);
      activity.addMetadata("wait_on_cuda_event_record_corr_id", operation.record_correlation);
      return activity;
    }
    activity.flow.id = operation.correlation;
    activity.flow.type = libkineto::kLinkAsyncCpuGpu;
    activity.flow.start = 0;
    activity.addMetadataQuoted("queue", kQueueNames[static_cast<int>(operation.queue)]);
    activity.addMetadata("bytes", operation.bytes);
    return activity;
  }

  std::set<ActivityType> wanted_;
  int64_t start_ns_ = 0;
  int64_t end_ns_ = 0;
  std::vector<HostCall> calls_;
  std::vector<DeviceRecord> operations_;
  libkineto::CpuTraceBuffer buffer_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return activities_; }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& wanted,
                                                                 const libkineto::Config&) override {
    return std::make_unique<Session>(wanted);
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType>& wanted,
                                                                 const libkineto::Config& config) override {
    return configure(wanted, config);
  }

 private:
  std::string name_ = "sim";
  std::set<ActivityType> activities_{ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY,
                                     ActivityType::GPU_MEMSET, ActivityType::PRIVATEUSE1_RUNTIME};
};

}  // namespace

bool tracing() {
  return active.load(std::memory_order_relaxed);
}

uint64_t current_host_operation() {
  const bool current = tracing() && host_operations.session == sessions && !host_operations.ids.empty();
  return current ? host_operations.ids.back() : 0;
}

RuntimeCall::RuntimeCall(const char* name)
    : name_(name), start_ns_(0), correlation_(++last_correlation), traced_(tracing()) {
  if (traced_) {
    start_ns_ = now_ns();
  }
}

RuntimeCall::~RuntimeCall() {
  if (traced_ && tracing()) {
    static thread_local const auto thread = static_cast<int32_t>(syscall(SYS_gettid));
    const HostCall call{name_,        subject_, start_ns_, now_ns(), bytes_, current_host_operation(),
                        correlation_, thread,   launches_};
    std::lock_guard lock(records().mutex);
    records().calls.push_back(call);
  }
}

void trace_operation(int device, const Operation& operation, int64_t start_ns, int64_t end_ns) {
  if (!tracing()) {
    return;
  }
  std::lock_guard lock(records().mutex);
  records().operations.push_back({operation.name, start_ns, end_ns, operation.bytes, operation.host_operation,
                                  operation.correlation, device, static_cast<int32_t>(operation.stream),
                                  operation.queue, type_of(operation.kind)});
}

void trace_stream_wait(int device, StreamId stream, const WaitSource& source, int64_t start_ns, int64_t end_ns) {
  if (!tracing()) {
    return;
  }
  static const std::string* name = interned("Stream Wait Event");
  std::lock_guard lock(records().mutex);
  records().operations.push_back({name, start_ns, end_ns, 0, source.host_operation, source.wait_correlation, device,
                                  static_cast<int32_t>(stream), Queue::vector, ActivityType::CUDA_SYNC, source.stream,
                                  source.record_correlation});
}

void register_profiler() {
  torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(
      [] { return std::make_unique<Profiler>(); });
}

}  // namespace sim
