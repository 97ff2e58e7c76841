"""The training process: device, precision, threads, process group, random state, profiling and fault points."""
