"""A capture session around a training run."""
