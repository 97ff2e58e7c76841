"""A process leaves with its output written and its exit functions run, and frees nothing."""

import subprocess
import sys

LEAVING = """
import atexit
from echelon.jobs.leave import leave

class Held:
    def __del__(self):
        print("freed", flush=True)

held = Held()
atexit.register(print, "exit function")
print("output")
leave(3)
"""


def test_leaving_writes_output_runs_exit_functions_and_frees_nothing():
    done = subprocess.run([sys.executable, "-c", LEAVING], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "output\nexit function\n", "")


def test_leaving_reports_output_that_cannot_be_written():
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", LEAVING], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode not in (0, 3) and "No space left" in done.stderr


POOL = """
import multiprocessing, time
from concurrent.futures import ProcessPoolExecutor
from echelon.jobs.leave import leave
if __name__ == "__main__":
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    pool.submit(print).result()
    pool.submit(time.sleep, 600)
    pool.shutdown(wait=False)
    leave(3)
"""


def test_processes_of_a_pool_do_not_delay_the_end(tmp_path):
    script = tmp_path / "pool.py"
    script.write_text(POOL, encoding="utf-8")
    assert subprocess.run([sys.executable, str(script)], timeout=60, check=False).returncode == 3
