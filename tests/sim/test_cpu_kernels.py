"""Kernels on the CPU: the changed template of Warp, and programs that native code runs."""

import numpy as np
import pytest
import warp as wp
from warp._src import codegen

from echelon.sim import cpu_kernels
from echelon.sim.cpu_kernels import NativeProgram, copy_arguments_per_launch

wp.set_module_options({"enable_backward": False, "optimization_level": 0})


@wp.kernel
def add(amount: float, values_out: wp.array(dtype=float)):
    i = wp.tid()
    values_out[i] = values_out[i] + amount


@wp.kernel
def double(values_out: wp.array(dtype=float)):
    i = wp.tid()
    values_out[i] = 2.0 * values_out[i]


def recorded(kernel, *inputs):
    return wp.launch(kernel, dim=3, inputs=list(inputs), device="cpu", record_cmd=True)


def test_template_of_the_installed_warp_copies_arguments_once():
    assert copy_arguments_per_launch()
    assert cpu_kernels.COPY in codegen.cpu_module_template_forward
    assert wp.config.cpu_compiler_flags.count(cpu_kernels.FLAG) == 1


@pytest.mark.parametrize("template", ["", f"{cpu_kernels.LOOP}{cpu_kernels.LOOP}{cpu_kernels.CALL}"])
def test_unknown_template_stays_as_it_is(monkeypatch, template):
    monkeypatch.setattr(codegen, cpu_kernels.TEMPLATE, template)
    flags = wp.config.cpu_compiler_flags
    assert not copy_arguments_per_launch()
    assert codegen.cpu_module_template_forward == template and wp.config.cpu_compiler_flags == flags


def test_native_program_runs_launches_in_order_each_time():
    values = wp.zeros(3, dtype=float, device="cpu")
    program = NativeProgram([recorded(add, 1.0, values), recorded(double, values), recorded(add, 3.0, values)], values)
    assert np.array_equal(values.numpy(), [0, 0, 0]), "recording runs nothing"
    program()
    program()
    assert np.array_equal(values.numpy(), [15, 15, 15])


def test_native_program_without_launches_does_nothing():
    NativeProgram([], None)()
