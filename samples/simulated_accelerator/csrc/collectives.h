// A backend of torch.distributed for tensors on the device.
#pragma once

#include <pybind11/pybind11.h>

namespace sim {

void bind_collectives(pybind11::module_& module);

}  // namespace sim
