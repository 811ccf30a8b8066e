// All-reduce and its relatives on the collective queue. Gloo moves the values between the processes; the time is the
// device's: from the start of the last rank, as told by all ranks to each other, plus overhead and bytes / speed.
#include "collectives.h"

#include <ATen/record_function.h>
#include <torch/csrc/utils/pybind.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include "clock.h"
#include "device.h"
#include "kernels.h"
#include "trace.h"

namespace sim {
namespace {

using Tensors = std::vector<at::Tensor>;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

class StreamScope {
 public:
  StreamScope(int device, StreamId stream) : device_(device), previous_(current_stream(device)) {
    set_current_stream(device, stream);
  }
  ~StreamScope() { set_current_stream(device_, previous_); }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  int device_;
  StreamId previous_;
};

// A collective that was queued: whoever waits for it makes the current stream wait, not the host.
class QueuedWork final : public c10d::Work {
 public:
  QueuedWork(int rank, c10d::OpType type, int device, StreamId stream, CompletionPtr done, Tensors outputs)
      : Work(rank, type),
        device_(device),
        stream_(stream),
        done_({{std::move(done)}, 0}),
        outputs_(std::move(outputs)) {
    const c10::Device on(kDeviceType, static_cast<c10::DeviceIndex>(device));
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                       std::vector<c10::Device>{on});
    // The future records an event on the current stream, so that it must be ours.
    const StreamScope scope(device, stream);
    future_->markCompleted(c10::IValue(outputs_));
  }

  bool isCompleted() override { return has_passed(done_); }
  bool isSuccess() const override { return has_passed(done_); }
  Tensors result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  void synchronize() override { wait_on_stream(device_, current_stream(device_), device_, stream_); }

  bool wait(std::chrono::milliseconds) override {
    synchronize();
    if (opType_ == c10d::OpType::BARRIER) {
      RuntimeCall call("simStreamSynchronize");
      wait_for(done_);
    }
    throw_device_error(device_);
    return true;
  }

 private:
  int device_;
  StreamId stream_;
  Moment done_;
  Tensors outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

Tensors flat(const std::vector<Tensors>& lists) {
  Tensors all;
  for (const Tensors& list : lists) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

Tensors views_of(const Tensors& tensors) {
  Tensors views;
  std::transform(tensors.begin(), tensors.end(), std::back_inserter(views), host_view);
  return views;
}

std::vector<Tensors> views_of(const std::vector<Tensors>& lists) {
  std::vector<Tensors> views;
  for (const Tensors& list : lists) {
    views.push_back(views_of(list));
  }
  return views;
}

int64_t elements(const Tensors& tensors) {
  int64_t sum = 0;
  for (const at::Tensor& tensor : tensors) {
    sum += tensor.numel();
  }
  return sum;
}

// What one collective is, apart from how gloo does it.
struct Collective {
  const char* name;  // as torch.distributed's other backends write it in traces
  c10d::OpType type;
  Tensors inputs;
  Tensors outputs;
  bool meets_all = true;  // every rank of the group takes part
};

class Collectives final : public c10d::Backend {
 public:
  Collectives(BackendPtr gloo, std::vector<int64_t> ranks)
      : Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)), ranks_(std::move(ranks)) {
    streams_.fill(-1);
  }

  const std::string getBackendName() const override { return "simgloo"; }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void setTimeout(std::chrono::milliseconds timeout) override { gloo_->setTimeout(timeout); }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return queue(
        {"allreduce", c10d::OpType::ALLREDUCE, tensors, tensors},
        [gloo = gloo_, views = views_of(tensors), options]() mutable { gloo->allreduce(views, options)->wait(); });
  }

  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
    return queue({"allreduce_coalesced", c10d::OpType::ALLREDUCE_COALESCED, tensors, tensors},
                 [gloo = gloo_, views = views_of(tensors), options]() mutable {
                   gloo->allreduce_coalesced(views, options)->wait();
                 });
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return queue(
        {"broadcast", c10d::OpType::BROADCAST, tensors, tensors},
        [gloo = gloo_, views = views_of(tensors), options]() mutable { gloo->broadcast(views, options)->wait(); });
  }

  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return queue(
        {"reduce", c10d::OpType::REDUCE, tensors, tensors},
        [gloo = gloo_, views = views_of(tensors), options]() mutable { gloo->reduce(views, options)->wait(); });
  }

  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    return queue({"allgather", c10d::OpType::ALLGATHER, inputs, flat(outputs)},
                 [gloo = gloo_, to = views_of(outputs), from = views_of(inputs), options]() mutable {
                   gloo->allgather(to, from, options)->wait();
                 });
  }

  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    return queue({"_allgather_base", c10d::OpType::_ALLGATHER_BASE, {input}, {output}},
                 [gloo = gloo_, to = host_view(output), from = host_view(input), options]() mutable {
                   gloo->_allgather_base(to, from, options)->wait();
                 });
  }

  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    return queue({"gather", c10d::OpType::GATHER, inputs, flat(outputs)},
                 [gloo = gloo_, to = views_of(outputs), from = views_of(inputs), options]() mutable {
                   gloo->gather(to, from, options)->wait();
                 });
  }

  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override {
    return queue({"scatter", c10d::OpType::SCATTER, flat(inputs), outputs},
                 [gloo = gloo_, to = views_of(outputs), from = views_of(inputs), options]() mutable {
                   gloo->scatter(to, from, options)->wait();
                 });
  }

  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    return queue({"reduce_scatter", c10d::OpType::REDUCE_SCATTER, flat(inputs), outputs},
                 [gloo = gloo_, to = views_of(outputs), from = views_of(inputs), options]() mutable {
                   gloo->reduce_scatter(to, from, options)->wait();
                 });
  }

  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    return queue({"_reduce_scatter_base", c10d::OpType::_REDUCE_SCATTER_BASE, {input}, {output}},
                 [gloo = gloo_, to = host_view(output), from = host_view(input), options]() mutable {
                   gloo->_reduce_scatter_base(to, from, options)->wait();
                 });
  }

  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) override {
    return queue({"all_to_all", c10d::OpType::ALLTOALL_BASE, {input}, {output}},
                 [gloo = gloo_, to = host_view(output), from = host_view(input), output_sizes, input_sizes,
                  options]() mutable { gloo->alltoall_base(to, from, output_sizes, input_sizes, options)->wait(); });
  }

  WorkPtr send(Tensors& tensors, int target, int tag) override {
    return queue(
        {"send", c10d::OpType::SEND, tensors, {}, false},
        [gloo = gloo_, views = views_of(tensors), target, tag]() mutable { gloo->send(views, target, tag)->wait(); });
  }

  WorkPtr recv(Tensors& tensors, int source, int tag) override {
    return queue(
        {"recv", c10d::OpType::RECV, {}, tensors, false},
        [gloo = gloo_, views = views_of(tensors), source, tag]() mutable { gloo->recv(views, source, tag)->wait(); });
  }

  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    const int device = options.device_ids.empty() ? current_device() : static_cast<int>(options.device_ids[0]);
    const at::Tensor token = empty_on(device, {1}, c10::ScalarType::Byte);
    return queue({"barrier", c10d::OpType::BARRIER, {token}, {token}}, [] {});
  }

 private:
  StreamId stream_on(int device) {
    if (streams_.at(device) < 0) {
      streams_[device] = next_pool_stream(device);
    }
    return streams_[device];
  }

  WorkPtr queue(const Collective& what, std::function<void()> exchange) {
    const Tensors& some = what.inputs.empty() ? what.outputs : what.inputs;
    const int device = some.at(0).device().index();
    const StreamId stream = stream_on(device);
    const c10::ScalarType dtype = some[0].scalar_type();
    if (what.meets_all) {
      ++sequence_;
    }
    RECORD_PARAM_COMMS_DATA(std::make_tuple(static_cast<int64_t>(sequence_), !what.meets_all),
                            std::make_tuple(pg_uid_, pg_desc_), what.inputs, what.outputs, rank_, what.name,
                            elements(what.inputs), elements(what.outputs), dtype, std::vector<int64_t>(),
                            std::vector<int64_t>(), ranks_.empty() ? 0 : static_cast<int>(ranks_[0]), 1, size_);
    wait_on_stream(device, stream, device, current_stream(device));
    keep_until_done(what.inputs, stream);
    keep_until_done(what.outputs, stream);
    auto operation = make_operation(device, work_of(what, dtype), nullptr);
    operation->rendezvous = [gloo = gloo_, exchange = std::move(exchange), meets_all = what.meets_all](int64_t start) {
      return meet(*gloo, meets_all, start, exchange);
    };
    CompletionPtr done = launch_operation(device, stream, std::move(operation), "simLaunchKernel");
    return c10::make_intrusive<QueuedWork>(rank_, what.type, device, stream, std::move(done), what.outputs);
  }

  // Returns when the last rank started. All ranks of a group share a clock where they share a host.
  static int64_t meet(c10d::Backend& gloo, bool meets_all, int64_t start, const std::function<void()>& exchange) {
    if (!meets_all) {
      exchange();
      return now_ns();
    }
    c10d::AllreduceOptions latest;
    latest.reduceOp = c10d::ReduceOp::MAX;
    int64_t last = start;
    Tensors times{at::from_blob(&last, {1}, at::TensorOptions().dtype(c10::ScalarType::Long))};
    gloo.allreduce(times, latest)->wait();
    exchange();
    return last;
  }

  static void keep_until_done(const Tensors& tensors, StreamId stream) {
    for (const at::Tensor& tensor : tensors) {
      device_allocator()->recordStream(tensor.storage().data_ptr(),
                                       c10::Stream(c10::Stream::UNSAFE, tensor.device(), stream));
    }
  }

  static Work work_of(const Collective& what, c10::ScalarType dtype);

  BackendPtr gloo_;
  std::vector<int64_t> ranks_;
  std::array<StreamId, kDevices> streams_{};
  uint64_t sequence_ = 0;
};

Work Collectives::work_of(const Collective& what, c10::ScalarType dtype) {
  const int64_t most = std::max(elements(what.inputs), elements(what.outputs));
  const std::string name = std::string("ccl::") + (what.name[0] == '_' ? what.name + 1 : what.name);
  return {kernel_name(name, dtype), Queue::collective, OperationKind::collective,
          most * static_cast<int64_t>(c10::elementSize(dtype)), 0};
}

// DistributedDataParallel's statistics, by the clock of the host as on the CPU.
class HostTimer final : public c10d::Timer {
 public:
  explicit HostTimer(c10::Device) {}
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const std::optional<int64_t> from = getTimestamp(start);
    const std::optional<int64_t> to = getTimestamp(end);
    return from.has_value() && to.has_value() ? std::make_optional(*to - *from) : std::nullopt;
  }
};

}  // namespace

void bind_collectives(pybind11::module_& module) {
  c10d::TimerRegistry()->Register(kDeviceType, [](c10::Device device) -> std::unique_ptr<c10d::Timer> {
    return std::make_unique<HostTimer>(device);
  });
  module.def("make_collectives", [](const BackendPtr& gloo, const std::vector<int64_t>& ranks) -> BackendPtr {
    return c10::make_intrusive<Collectives>(gloo, ranks);
  });
}

}  // namespace sim
