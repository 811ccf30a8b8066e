"""Where numbers of a device come from: one module for each tool or library that gives them."""
