"""Build the compiled part of `pufferlib-core` for a CPU, from the source in its package.

The part that it comes with needs a CUDA runtime. Needs a C++ compiler and ninja; `just door pufferlib` runs it.
"""

import importlib.util
import shutil
import tempfile
from pathlib import Path

from torch.utils import cpp_extension

spec = importlib.util.find_spec("pufferlib")
assert spec is not None and spec.submodule_search_locations, "pufferlib-core is not installed"
package = Path(spec.submodule_search_locations[0])
with tempfile.TemporaryDirectory() as folder:
    source = package / "extensions" / "pufferlib.cpp"
    cpp_extension.load(name="_C", sources=[str(source)], build_directory=folder, is_python_module=False)
    shutil.copy(Path(folder) / "_C.so", next(package.glob("_C.*.so")))
